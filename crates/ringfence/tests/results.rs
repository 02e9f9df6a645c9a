//! Values that are too large: a host function's result is an error for the program, and inputs are refused before a
//! worker sees them. A first call that is approved once is asked about once.
//!
//! Answers to: the promise that values are bounded both ways, and the one about approvals.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ringfence::{ApprovalRequest, Approve, Engine, HostError, LimitKind, Policy, Source, Status, Value, Verdict};

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

#[tokio::test]
async fn inputs_that_are_too_large_are_refused_and_the_session_stays() {
    let engine = Engine::builder().worker(env!("CARGO_BIN_EXE_ringfence")).warm(1).build().expect("an engine");
    let mut session = engine.session_with(Policy::closed()).open().expect("granted");
    let deep = |levels: u32| (1..levels).fold(Value::List(Vec::new()), |inner, _| Value::List(vec![inner]));
    let cases = [
        (deep(64), None),
        (deep(65), Some("the inputs have 65 levels, at most 64 cross; pass large data as a file")),
        (
            Value::from("x".repeat(13 << 20)),
            Some("the inputs have 13631493 bytes, at most 12582912 cross; pass large data as a file"),
        ),
        (
            Value::List(vec![Value::None; 200_000]),
            Some("the inputs have 200001 values, at most 200000 cross; pass large data as a file"),
        ),
    ];
    for (input, refused) in cases {
        let source = Source { inputs: vec![("x".to_owned(), input)], ..Source::new("1") };
        let outcome = session.run_source(source).await.expect("recorded");
        let kind = outcome.limit.map(|hit| hit.kind);
        assert_eq!((outcome.reason.as_deref(), kind), (refused, refused.map(|_| LimitKind::Size)));
    }
}

#[derive(Default)]
struct Yes(AtomicU32);

impl Approve for Yes {
    fn ask(&self, _request: ApprovalRequest) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            tokio::task::yield_now().await;
            Verdict::Approve { by: None }
        })
    }
}

#[tokio::test]
async fn a_first_call_is_asked_about_once_however_many_come_together() {
    let engine = Engine::builder().worker(env!("CARGO_BIN_EXE_ringfence")).warm(1).build().expect("an engine");
    let policy = Policy::parse("version = 1\n[functions.double]\napprove = 'first'", "test").expect("a policy");
    let double = |Size { n }: Size| async move { Ok::<usize, HostError>(n * 2) };
    let asked = Arc::new(Yes::default());
    let session = engine.session_with(policy).async_function("double", "", double).approve(asked.clone()).open();
    let code = "import asyncio\nawait asyncio.gather(double(1), double(2), double(3))";
    let outcome = session.expect("granted").run(code).await.expect("recorded");
    let want = Value::List([2, 4, 6].map(Value::Int).to_vec());
    assert_eq!((outcome.value, asked.0.load(Ordering::Relaxed)), (Some(want), 1));
}
