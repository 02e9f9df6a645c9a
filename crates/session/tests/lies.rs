//! A cell that lies, floods, hangs or dies: there is always an outcome, and it says what the cell did.
//!
//! Answers to: the seam of tiers. Each line is a script of what a hostile worker sends, and the outcome it must give.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::sync::Arc;

use ringfence_audit::{Log, LogOptions, MemorySink};
use ringfence_bridge::Registry;
use ringfence_policy::Policy;
use ringfence_session::{Engine, Parts, Paused, Request, Session, SnapshotKey};
use ringfence_testkit::{FakeTier, Reply, Trace, Traced};
use ringfence_tier::{Event, TierFault};
use ringfence_types::{
    Call, CallId, Engine as Interpreter, FileReply, GuestException, LimitKind, MimeBundle, Outcome, Source, Status,
    Stream, TierName, Value,
};

const POLICY: &str = "version = 1\n[limits]\nwall = \"60ms\"\nhost_calls = 5\n[functions.f]\n";

fn call(id: u64, deferred: bool) -> Event {
    Event::Call(Call { id: CallId(id), function: "f".to_owned(), args: Vec::new(), kwargs: Vec::new(), deferred })
}

fn session(script: Vec<Reply>) -> Session {
    session_under(POLICY, script)
}

fn session_under(policy: &str, script: Vec<Reply>) -> Session {
    let trace = Trace::new();
    let log = Log::open(Box::new(MemorySink::new()), LogOptions::default()).expect("memory can be written");
    let tier = FakeTier::new(&trace, script);
    let parts = Parts {
        tiers: vec![Arc::new(tier)],
        log: Arc::new(log),
        snapshot_key: SnapshotKey::new([1; 32]),
        environments: None,
    };
    let mut functions = Registry::new();
    functions.add(Traced::function("f", &trace, Ok(Value::None))).expect("a good name");
    let policy = Policy::parse(policy, "test").expect("a good policy");
    let request = Request { functions, engine: Some(Interpreter::Monty), ..Request::new(policy) };
    Engine::new(parts).session(request).expect("granted")
}

async fn run(script: Vec<Reply>) -> Outcome {
    session(script).run(Source::new("f()"), &mut ()).await.expect("there is always an outcome")
}

/// `status`, or `status limit`, and the part of the reason between `protocol: ` and `;`.
fn told(outcome: &Outcome) -> String {
    let limit = outcome.limit.map(|hit| format!(" {}", hit.kind)).unwrap_or_default();
    let why = outcome.reason.as_deref().unwrap_or_default();
    let broke = why.strip_prefix("the worker broke the protocol: ").and_then(|why| why.split(';').next());
    let broke = broke.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{}{limit}{broke}", outcome.status.as_str())
}

async fn check(name: &str, script: Vec<Reply>, want: &str) {
    told_of(name, run(script).await, want);
}

/// As [`check`], where the wall clock is not what ends the run, however slow the machine is.
async fn check_patiently(name: &str, script: Vec<Reply>, want: &str) {
    let mut session = session_under(&POLICY.replace("60ms", "60s"), script);
    told_of(name, session.run(Source::new("f()"), &mut ()).await.expect("there is always an outcome"), want);
}

fn told_of(name: &str, outcome: Outcome, want: &str) {
    assert_eq!(told(&outcome), want, "{name}: {:?}", outcome.reason);
    assert!(outcome.audit.is_some(), "{name}: the outcome is in the log");
}

fn event(event: Event) -> Reply {
    Reply::Event(event)
}

#[tokio::test]
async fn a_lying_cell_gets_an_outcome() {
    let twice = "crashed: it used the number of a call twice";
    check("duplicate call", vec![event(call(1, true)), event(call(1, true))], twice).await;
    let unasked = "crashed: it answered what was not asked";
    check("restored unasked", vec![event(Event::Restored)], unasked).await;
    check("filed unasked", vec![event(Event::Filed(FileReply::Done))], unasked).await;
    let snapshot = "crashed: it sent a snapshot that was not asked for";
    check("snapshot unasked", vec![event(Event::Snapshotted(vec![1]))], snapshot).await;
    let limit = "crashed: it named a limit that it does not keep";
    for kind in [LimitKind::Wall, LimitKind::Output, LimitKind::HostCalls, LimitKind::Idle, LimitKind::Disk] {
        check("a limit of the host's", vec![event(Event::Limit(kind, 1))], limit).await;
    }
    check("its own limit", vec![event(Event::Limit(LimitKind::Memory, 0))], "limited memory").await;
    let strange = Event::Unsupported("\u{1b}[2J".repeat(10_000), Some(u32::MAX));
    check("a strange feature", vec![event(strange)], "unsupported").await;
}

#[tokio::test]
async fn what_a_cell_says_of_a_limit_is_at_least_what_was_allowed() {
    let hit = run(vec![event(Event::Limit(LimitKind::Memory, 0))]).await.limit.expect("named");
    assert_eq!((hit.allowed, hit.reached), (64 << 20, 64 << 20));
}

#[tokio::test]
async fn a_flooding_cell_gets_an_outcome() {
    let print = Event::Print(Stream::Stdout, vec![b'x'; 1 << 20]);
    check_patiently("print without end", vec![Reply::Forever(print)], "limited output").await;
    let error = Event::Print(Stream::Stderr, vec![b'x'; 1 << 20]);
    check_patiently("stderr without end", vec![Reply::Forever(error)], "limited output").await;
    let shown = MimeBundle(vec![("image/png".to_owned(), vec![0; 1 << 20])]);
    check_patiently("pictures without end", vec![Reply::Forever(Event::Shown(shown))], "limited output").await;
    let calls = (1..=6).map(|id| event(call(id, true))).collect();
    check_patiently("calls without end", calls, "limited host_calls").await;
    check("waiting for nothing", vec![Reply::Forever(Event::Await(Vec::new()))], "limited wall").await;
    check("waiting for what is not", vec![Reply::Forever(Event::Await(vec![CallId(9)]))], "limited wall").await;
    check("empty prints", vec![Reply::Forever(Event::Print(Stream::Stdout, Vec::new()))], "limited wall").await;
    let value = Value::Bytes(vec![0; 1 << 20]);
    check_patiently("a large value", vec![event(Event::Done(value))], "limited output").await;
}

#[tokio::test]
async fn a_hanging_cell_gets_an_outcome() {
    check("at once", vec![Reply::Hang], "limited wall").await;
    check("after a call", vec![event(call(1, false)), Reply::Hang], "limited wall").await;
    check("after output", vec![event(Event::Print(Stream::Stdout, b"x".to_vec())), Reply::Hang], "limited wall").await;
}

#[tokio::test]
async fn a_cell_that_dies_gets_an_outcome_at_each_point() {
    let whole = [
        event(Event::Print(Stream::Stdout, b"x".to_vec())),
        event(call(1, true)),
        event(Event::Await(vec![CallId(1)])),
        Reply::AfterAnswer(call(2, false)),
        Reply::AfterAnswer(Event::Shown(MimeBundle(Vec::new()))),
    ];
    for kept in 0..=whole.len() {
        let mut script = whole[..kept].to_vec();
        script.push(Reply::Fault(TierFault::Died { tier: TierName::Embedded }));
        let outcome = run(script).await;
        let reason = "the embedded worker died in mid-run; the session is lost, open a new one";
        assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Crashed, Some(reason)), "after {kept}");
        assert_eq!(outcome.stdout, if kept == 0 { "" } else { "x" }, "what came before is kept");
    }
    let large = TierFault::TooLarge { tier: TierName::Embedded, length: 9, allowed: 8 };
    check("too large a frame", vec![Reply::Fault(large)], "limited size").await;
    let broken = TierFault::Protocol { tier: TierName::Embedded, why: "no frame".to_owned() };
    check("no frame", vec![Reply::Fault(broken)], "crashed").await;
}

#[tokio::test]
async fn what_follows_a_snapshot_is_not_trusted() {
    let wrong = |next: Event| async move {
        let mut session = session(vec![event(call(1, false)), event(next)]);
        let paused = session.run_until(Source::new("f()"), "f", &mut ()).await.expect("there is always an outcome");
        match paused {
            Paused::Finished(outcome) => told(&outcome),
            Paused::AtCall { .. } => "paused".to_owned(),
        }
    };
    assert_eq!(wrong(Event::Snapshotted(vec![1])).await, "paused");
    assert_eq!(wrong(Event::Restored).await, "crashed: it answered what was not asked");
    assert_eq!(wrong(Event::Limit(LimitKind::Wall, 1)).await, "crashed: it named a limit that it does not keep");
    assert_eq!(wrong(Event::Unsupported("snapshots".to_owned(), None)).await, "unsupported");
}

#[tokio::test]
async fn a_wrong_answer_between_runs_ends_the_session() {
    let answers = [Event::Done(Value::None), Event::Restored, call(1, false)];
    for answer in answers {
        let mut session = session(vec![event(Event::Done(Value::None)), event(answer)]);
        session.run(Source::new("1"), &mut ()).await.expect("an outcome");
        let error = session.snapshot().await.expect_err("not a snapshot").to_string();
        let want = "the embedded worker broke the protocol: it answered a snapshot with something else";
        assert_eq!(error, want);
        let after = session.run(Source::new("1"), &mut ()).await.expect("an outcome");
        assert_eq!(after.status, Status::Crashed);
    }
}

#[tokio::test]
async fn a_kill_ends_a_cell_that_hangs() {
    let mut session = session(vec![Reply::Hang]);
    let handle = session.handle();
    handle.kill("a test");
    let outcome = session.run(Source::new("1"), &mut ()).await.expect("an outcome");
    assert_eq!(outcome.status, Status::Killed);
}

#[tokio::test]
async fn guest_exceptions_are_passed_on_as_they_are() {
    let exception = GuestException {
        kind: "ValueError".to_owned(),
        message: "x".to_owned(),
        frames: Vec::new(),
        cause: None,
        notes: Vec::new(),
        exit_code: None,
    };
    let outcome = run(vec![event(Event::Raised(exception.clone()))]).await;
    assert_eq!((outcome.status, outcome.exception), (Status::Raised, Some(exception)));
}
