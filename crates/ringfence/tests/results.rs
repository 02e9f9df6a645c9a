//! A host function's result that is too large is an error for the program, not the end of its session.
//!
//! Answers to: the promise that values are bounded both ways.

use ringfence::{Engine, HostError, Policy, Status, Value};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Size {
    n: usize,
}

#[tokio::test]
async fn a_result_that_is_too_large_is_a_value_error() {
    let engine = Engine::builder().worker(env!("CARGO_BIN_EXE_ringfence")).warm(1).build().expect("an engine");
    let big = |Size { n }: Size| Ok::<String, HostError>("x".repeat(n));
    let session = engine.session_with(Policy::closed().allowing_declared_functions()).function("big", "", big).open();
    let mut session = session.expect("granted");
    let code = "def size(n):\n    try:\n        return len(big(n))\n    except ValueError as error:\n        return str(error)\nsize(1000), size(50000000)";
    let outcome = session.run(code).await.expect("recorded");
    let refused = "the result of `big` is too large to cross: 4 MiB, 64 levels and 200,000 values at most";
    let want = Value::Tuple(vec![Value::Int(1000), Value::from(refused)]);
    assert_eq!((outcome.status, outcome.value), (Status::Completed, Some(want)));
}
