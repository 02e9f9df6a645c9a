//! The three ordering laws of a run, and that a log which can't be written ends it.
//!
//! Answers to: the design. Each law is a function on the list of what happened; each is also given a list that breaks
//! it, so that a law which can't fail shows.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::sync::Arc;

use ringfence_audit::{FixedClock, Log, LogOptions};
use ringfence_bridge::Registry;
use ringfence_policy::Policy;
use ringfence_session::{Engine, Parts, Request, SnapshotKey};
use ringfence_testkit::{FakeTier, Reply, Trace, TraceSink, Traced};
use ringfence_tier::Event;
use ringfence_types::{Call, CallId, Engine as Interpreter, Source, Value};

const POLICY: &str = "version = 1\n[functions.f]\n";

fn call(id: u64, function: &str) -> Event {
    Event::Call(Call {
        id: CallId(id),
        function: function.to_owned(),
        args: Vec::new(),
        kwargs: Vec::new(),
        deferred: false,
    })
}

/// One run of a guest that calls `f` twice and `g`, which is not granted. Gives what happened.
async fn one_run(sink: impl FnOnce(&Trace) -> TraceSink, policy: &str) -> Vec<String> {
    let trace = Trace::new();
    if let Err(why) = try_run(&trace, sink(&trace), policy).await {
        trace.add(format!("error {why}"));
    }
    trace.lines()
}

async fn try_run(trace: &Trace, sink: TraceSink, policy: &str) -> Result<(), String> {
    let script = vec![
        Reply::Event(call(1, "f")),
        Reply::AfterAnswer(call(2, "g")),
        Reply::AfterAnswer(call(3, "f")),
        Reply::AfterAnswer(Event::Done(Value::Int(42))),
    ];
    let options = LogOptions { clock: Arc::new(FixedClock(1_767_225_600_000)), ..LogOptions::default() };
    let log = Log::open(Box::new(sink), options).map_err(|error| error.to_string())?;
    let tier = FakeTier::new(trace, script);
    let parts = Parts {
        tiers: vec![Arc::new(tier)],
        log: Arc::new(log),
        snapshot_key: SnapshotKey::new([1; 32]),
        environments: None,
    };
    let mut functions = Registry::new();
    functions.add(Traced::function("f", trace, Ok(Value::None))).expect("a good name");
    let policy = Policy::parse(policy, "test").expect("a good policy");
    let request = Request { functions, engine: Some(Interpreter::Monty), ..Request::new(policy) };
    let mut session = Engine::new(parts).session(request).map_err(|error| error.to_string())?;
    let outcome = session.run(Source::new("f(); g(); f()"), &mut ()).await.map_err(|error| error.to_string())?;
    trace.add(format!("outcome {}", outcome.status.as_str()));
    Ok(())
}

fn place(lines: &[String], what: &str) -> Option<usize> {
    lines.iter().position(|line| line == what)
}

/// Nothing is opened before a grant exists.
fn opened_after_grant(lines: &[String]) -> bool {
    place(lines, "open").is_none_or(|open| place(lines, "record granted").is_some_and(|granted| granted < open))
}

/// No host function runs before its record is written.
fn recorded_before_done(lines: &[String]) -> bool {
    let mut permits = 0_i32;
    lines.iter().all(|line| {
        permits += i32::from(line == "record call_permitted") - i32::from(line.starts_with("ran "));
        permits >= 0
    })
}

/// No outcome leaves before the closing record is written.
fn closed_before_outcome(lines: &[String]) -> bool {
    let outcome = lines.iter().position(|line| line.starts_with("outcome "));
    outcome.is_none_or(|outcome| place(lines, "record run_closed").is_some_and(|closed| closed < outcome))
}

/// After a record that could not be written nothing runs, no answer is given and no outcome leaves.
fn ends_when_unwritable(lines: &[String]) -> bool {
    let after = place(lines, "record refused").map_or(&[][..], |at| &lines[at..]);
    let forbidden = ["ran ", "outcome ", "turn feed", "turn answer", "open"];
    !after.iter().any(|line| forbidden.iter().any(|start| line.starts_with(start)))
}

fn list(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn a_run_happens_in_this_order() {
    let lines = one_run(TraceSink::new, POLICY).await;
    let want = [
        "record log_opened",
        "record granted",
        "record tier_chosen",
        "open",
        "record cell_opened",
        "record run_started",
        "turn feed",
        "record call_permitted",
        "ran f",
        "record call_answered",
        "turn answer 1",
        "record call_denied",
        "turn refusal 2 PermissionError",
        "record call_permitted",
        "ran f",
        "record call_answered",
        "turn answer 3",
        "record run_closed",
        "outcome completed",
        "drop",
        "record session_closed",
        "record checkpoint",
    ];
    assert_eq!(lines, want);
    assert!(opened_after_grant(&lines) && recorded_before_done(&lines) && closed_before_outcome(&lines));
}

#[tokio::test]
async fn without_a_grant_nothing_is_opened() {
    // The guard names a parameter that the declared function does not have: the request is denied.
    let lines = one_run(TraceSink::new, "version = 1\n[functions.f]\narguments.to = { format = \"email\" }\n").await;
    let want = [
        "record log_opened",
        "record grant_denied",
        "record checkpoint",
        "error policy guards argument `to` of host function `f`, which has no such parameter",
    ];
    assert_eq!(lines, want);
    assert!(opened_after_grant(&lines));
}

#[tokio::test]
async fn where_no_tier_is_allowed_nothing_is_opened() {
    let lines = one_run(TraceSink::new, "version = 1\n[isolation]\ntiers = [\"microvm\"]\n").await;
    let want = [
        "record log_opened",
        "record granted",
        "record tier_chosen",
        "record run_closed",
        "outcome unsupported",
        "record session_closed",
        "record checkpoint",
    ];
    assert_eq!(lines, want);
}

#[tokio::test]
async fn an_unwritable_log_ends_the_run_wherever_it_fails() {
    let mut appends = 0;
    loop {
        let lines = one_run(|trace| TraceSink::failing_after(trace, appends), POLICY).await;
        assert!(ends_when_unwritable(&lines), "after {appends}: {lines:#?}");
        assert!(opened_after_grant(&lines) && recorded_before_done(&lines) && closed_before_outcome(&lines));
        assert_eq!(
            lines.iter().filter(|line| *line == "open").count(),
            lines.iter().filter(|line| *line == "drop").count(),
            "after {appends} a cell is left: {lines:#?}"
        );
        if lines.iter().any(|line| line.starts_with("outcome ")) {
            break;
        }
        appends += 1;
    }
    assert!(appends >= 9, "every record of the run was made to fail: {appends}");
}

#[test]
fn each_law_can_fail() {
    assert!(!opened_after_grant(&list(&["open", "record granted"])));
    assert!(!recorded_before_done(&list(&["ran f", "record call_permitted"])));
    assert!(!recorded_before_done(&list(&["record call_permitted", "ran f", "ran f"])));
    assert!(!closed_before_outcome(&list(&["outcome completed", "record run_closed"])));
    assert!(!ends_when_unwritable(&list(&["record refused", "ran f"])));
}
