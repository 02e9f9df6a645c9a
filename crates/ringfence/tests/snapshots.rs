//! A run written down at a host call goes on in another engine, with workers of its own, to the same result.
//!
//! Answers to: the promise about snapshots. Must not: share anything between the engines but the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ringfence::{Engine, HostError, Paused, Policy, Session, SessionBuilder, Status, Value};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ringfence");
const CODE: &str = "total = 10\nfor n in range(3):\n    total += ask(n)\n{'total': total, 'last': n}";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Ask {
    n: i64,
}

fn engine(secret: u8) -> Engine {
    Engine::builder().worker(PROGRAM).warm(1).snapshot_key([secret; 32]).build().expect("an engine")
}

fn asking(engine: &Engine, calls: &Arc<AtomicU32>) -> SessionBuilder {
    let calls = Arc::clone(calls);
    engine.session_with(Policy::closed().allowing_declared_functions()).function(
        "ask",
        "Twice the number.",
        move |Ask { n }: Ask| {
            calls.fetch_add(1, Ordering::Relaxed);
            Ok::<i64, HostError>(n * 2)
        },
    )
}

fn want() -> Option<Value> {
    Some(Value::Dict(vec![(Value::from("total"), Value::Int(16)), (Value::from("last"), Value::Int(2))]))
}

async fn paused(session: &mut Session) -> Vec<u8> {
    let Paused::AtCall { snapshot, outcome, .. } = session.run_until(CODE, "ask").await.expect("recorded") else {
        return Vec::new();
    };
    assert_eq!(outcome.status, Status::Cancelled);
    snapshot
}

#[tokio::test]
async fn a_run_goes_on_in_another_engine() {
    let calls = Arc::default();
    let straight = asking(&engine(1), &calls).open().expect("granted").run(CODE).await.expect("recorded");
    assert_eq!((straight.value, calls.load(Ordering::Relaxed)), (want(), 3));

    let snapshot = paused(&mut asking(&engine(1), &calls).open().expect("granted")).await;
    assert_eq!(calls.load(Ordering::Relaxed), 3, "the call at which it stopped was not made");

    let other = engine(1);
    let mut resumed = asking(&other, &calls).restore(&snapshot).await.expect("sealed by the same key");
    let outcome = resumed.resume().await.expect("recorded");
    assert_eq!((outcome.status, outcome.value, calls.load(Ordering::Relaxed)), (Status::Completed, want(), 6));
    assert_eq!(resumed.run("total").await.expect("recorded").value, Some(Value::Int(16)), "the state is there");
}

#[tokio::test]
async fn changed_bytes_are_refused() {
    let calls = Arc::default();
    let engine = engine(1);
    let snapshot = paused(&mut asking(&engine, &calls).open().expect("granted")).await;
    for bit in 0..snapshot.len() * 8 {
        let mut changed = snapshot.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(asking(&engine, &calls).restore(&changed).await.is_err(), "bit {bit}");
    }
    let stranger = self::engine(2);
    let refused = asking(&stranger, &calls).restore(&snapshot).await.err().map(|error| error.to_string());
    let want = "the snapshot's seal is broken: its bytes were changed, or another key sealed it";
    assert_eq!(refused.as_deref(), Some(want));
}

#[tokio::test]
async fn another_engine_than_the_one_that_wrote_it_is_refused() {
    let calls = Arc::default();
    let engine = engine(1);
    let snapshot = paused(&mut asking(&engine, &calls).open().expect("granted")).await;
    let asked = asking(&engine, &calls).engine(ringfence::call::Engine::Rustpython).restore(&snapshot).await;
    let refused = asked.err().map(|error| error.to_string());
    let want = "the snapshot is of the engine `monty` and can't be taken up by `rustpython`; leave the engine out";
    assert_eq!(refused.as_deref(), Some(want));
}
