//! How sessions end: what is recorded of it, and once.
//!
//! Answers to: `run.rs` and `drive.rs`.

use ringfence_session::{Killing, Target};
use ringfence_testkit::{FakeTier, Reply, Trace};
use ringfence_tier::{Capabilities, Event, InnerLimit};
use ringfence_types::{LimitKind, Strength, TierName};
use serde_json::json;

use crate::stage::{Stage, cpython, done, run, until};

#[tokio::test]
async fn a_kill_is_recorded_once_with_who_and_why() {
    let trace = Trace::new();
    let stage = Stage::new(&trace, vec![cpython(TierName::Process, &trace).playing(None, vec![Reply::Hang])]);
    let mut session = stage.session("");
    let killer = async {
        until(&trace, "turn feed", 1).await;
        let by = Killing { by: "`ringfence kill`".to_owned(), reason: Some("a test".to_owned()) };
        assert_eq!(stage.engine.kill(&Target::All, by), 1);
    };
    let (outcome, ()) = tokio::join!(run(&mut session, "1"), killer);
    assert_eq!(outcome, "killed process: ended by `ringfence kill`: a test");
    let again = "killed: the session has ended: ended by `ringfence kill`: a test; open a new one";
    assert_eq!(run(&mut session, "1").await, again);
    drop(session);
    assert_eq!(stage.details("killed"), [json!({"by": "`ringfence kill`", "reason": "a test"})]);
    let log = "tier_chosen cell_opened run_started killed run_closed run_closed session_closed";
    assert_eq!(stage.log(), log);
}

#[tokio::test]
async fn a_kill_between_runs_is_recorded_when_it_is_noticed() {
    let trace = Trace::new();
    let tier = || cpython(TierName::Process, &trace).playing(None, vec![done(1)]);
    let stage = Stage::new(&trace, vec![tier()]);
    let mut session = stage.session("");
    run(&mut session, "1").await;
    session.handle().kill("a test");
    for _ in 0..2 {
        let killed = "killed: the session has ended: ended by a test; open a new one";
        assert_eq!(run(&mut session, "1").await, killed);
    }
    let run_once = "tier_chosen cell_opened run_started run_closed";
    assert_eq!(stage.log(), format!("{run_once} killed run_closed run_closed"));
    let stage = Stage::new(&trace, vec![tier()]);
    let mut session = stage.session("");
    run(&mut session, "1").await;
    session.handle().kill("a test");
    drop(session);
    assert_eq!(stage.log(), format!("{run_once} killed session_closed"));
}

#[tokio::test]
async fn a_limit_that_struck_is_recorded_once() {
    let trace = Trace::new();
    let stage = Stage::new(&trace, vec![FakeTier::new(&trace, vec![Reply::Event(Event::Limit(LimitKind::Memory, 1))])]);
    let mut session = stage.session("");
    run(&mut session, "1").await;
    let again =
        "limited memory: the session has ended: the limit on memory struck: 67108864 bytes allowed; open a new one";
    assert_eq!(run(&mut session, "1").await, again);
    assert_eq!(stage.log(), "tier_chosen cell_opened run_started limit_struck run_closed run_closed");
}

#[tokio::test]
async fn a_cell_names_the_limits_that_its_tier_declares() {
    const DECLARED: [InnerLimit; 3] = [
        InnerLimit::survived(LimitKind::Disk),
        InnerLimit::fatal(LimitKind::Processes),
        InnerLimit::survived(LimitKind::OpenFiles),
    ];
    let rows = [
        (
            LimitKind::Disk,
            "limited process disk: the limit on disk struck: 1048576 bytes allowed",
            "completed process Int(1)",
        ),
        (
            LimitKind::OpenFiles,
            "limited process open_files: the limit on open_files struck: 64 allowed",
            "completed process Int(1)",
        ),
        (
            LimitKind::Processes,
            "limited process processes: the limit on processes struck: 16 allowed",
            "limited processes: the session has ended: the limit on processes struck: 16 allowed; open a new one",
        ),
        (
            LimitKind::Memory,
            "crashed process: the worker broke the protocol: it named a limit that it does not keep; the session is lost, open a new one",
            "crashed: the session has ended: the worker broke the protocol: it named a limit that it does not keep; the session is lost, open a new one; open a new one",
        ),
    ];
    for (kind, want, after) in rows {
        let trace = Trace::new();
        let capabilities =
            Capabilities { inner_limits: &DECLARED, ..Capabilities::closed(TierName::Process, 3, Strength::Process) };
        let tier = FakeTier::named(TierName::Process, capabilities, &trace);
        let tier = tier.playing(None, vec![Reply::Event(Event::Limit(kind, 1)), done(1)]);
        let stage = Stage::new(&trace, vec![tier]);
        let mut session = stage.session("[limits]\ndisk = \"1MiB\"\n");
        assert_eq!(run(&mut session, "1").await, want);
        assert_eq!(run(&mut session, "1").await, after);
        assert_eq!(stage.details("limit_struck").len(), usize::from(kind != LimitKind::Memory), "{kind}");
    }
}
