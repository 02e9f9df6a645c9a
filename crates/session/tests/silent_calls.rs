//! A host function that never answers: the call is given up, recorded, and the session goes on.
//!
//! Answers to: the limit `call` of policies. Must not: depend on how fast the machine is; nothing here is waited for but
//! the limit itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::sync::Arc;

use ringfence_audit::{Log, LogOptions, MemorySink, Record};
use ringfence_bridge::{Boxed, HostError, HostFunction, Permitted, Registry};
use ringfence_policy::Policy;
use ringfence_session::{Engine, Parts, Request, SnapshotKey};
use ringfence_testkit::{FakeTier, Reply, Trace};
use ringfence_tier::Event;
use ringfence_types::{Call, CallId, Engine as Interpreter, FunctionSpec, Source, Value};

struct Silent(FunctionSpec);

impl HostFunction for Silent {
    fn spec(&self) -> &FunctionSpec {
        &self.0
    }

    fn call(&self, _: Permitted) -> Boxed<'_, Result<Value, HostError>> {
        Box::pin(std::future::pending())
    }
}

fn call(deferred: bool) -> Event {
    Event::Call(Call { id: CallId(1), function: "f".to_owned(), args: Vec::new(), kwargs: Vec::new(), deferred })
}

/// What the guest was told, how the run ended, and how the log says the call ended.
async fn check(policy: &str, script: Vec<Reply>) {
    let (trace, sink) = (Trace::new(), MemorySink::new());
    let log = Log::open(Box::new(sink.clone()), LogOptions::default()).expect("memory can be written");
    let tier = FakeTier::new(&trace, script);
    let parts = Parts {
        tiers: vec![Arc::new(tier)],
        log: Arc::new(log),
        snapshot_key: SnapshotKey::new([1; 32]),
        environments: None,
    };
    let mut functions = Registry::new();
    functions.add(Arc::new(Silent(FunctionSpec::new("f")))).expect("a good name");
    // The lifetime ends a test that would hang.
    let limits = "idle = \"10s\"\nlifetime = \"10s\"\n";
    let policy = Policy::parse(&format!("version = 1\n[limits]\n{limits}{policy}"), "test").expect("a good policy");
    let request = Request { functions, engine: Some(Interpreter::Monty), ..Request::new(policy) };
    let mut session = Engine::new(parts).session(request).expect("granted");
    let outcome = session.run(Source::new("f()"), &mut ()).await.expect("there is always an outcome");
    let told: Vec<String> = trace.lines().into_iter().filter(|line| line.starts_with("turn refusal")).collect();
    let bytes = sink.bytes();
    let records = bytes.split(|byte| *byte == b'\n').filter_map(Record::parse);
    let ends: Vec<_> = records.filter(|record| record.event == "call_answered").collect();
    assert_eq!((outcome.status.as_str(), told), ("completed", vec!["turn refusal 1 TimeoutError".to_owned()]));
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].detail["outcome"], serde_json::json!({"error": {"type": "timeout"}}));
}

#[tokio::test]
async fn a_call_that_is_never_answered_is_given_up() {
    let waits = vec![Reply::Event(call(false)), Reply::AfterAnswer(Event::Done(Value::None))];
    check("call = \"20ms\"\n[functions.f]\n", waits.clone()).await;
    check("[functions.f]\ntimeout = \"20ms\"\n", waits.clone()).await;
    check("call = \"1h\"\n[functions.f]\ntimeout = \"20ms\"\n", waits).await;
    let deferred = vec![
        Reply::Event(call(true)),
        Reply::Event(Event::Await(vec![CallId(1)])),
        Reply::AfterAnswer(Event::Done(Value::None)),
    ];
    check("call = \"20ms\"\n[functions.f]\n", deferred).await;
}
