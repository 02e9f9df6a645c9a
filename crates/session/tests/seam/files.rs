//! Files and snapshots beside runs: the same way to a cell, and refusals that the session outlives.
//!
//! Answers to: `session.rs`.

use ringfence_testkit::{Reply, Trace};
use ringfence_tier::Event;
use ringfence_types::{FileReply, GuestPath, TierName};

use crate::stage::{Stage, cpython, done, embedded, run, unsupported};

fn root() -> GuestPath {
    GuestPath::resolve("/").unwrap()
}

#[tokio::test]
async fn a_file_operation_before_the_first_run_chooses_as_a_run_does() {
    let trace = Trace::new();
    let listed = || Reply::Event(Event::Filed(FileReply::Entries(Vec::new())));
    let stage = Stage::new(&trace, vec![cpython(TierName::Process, &trace).playing(None, vec![listed(), done(1)])]);
    let mut session = stage.session("");
    assert_eq!(session.list_files(root()).await.unwrap(), Vec::new());
    assert_eq!(run(&mut session, "1").await, "completed process Int(1)");
    assert_eq!(stage.log(), "tier_chosen cell_opened run_started run_closed");
    assert_eq!(stage.details("tier_chosen")[0]["tier"], "process");
    let stage = Stage::new(&trace, vec![embedded(&trace).playing(None, vec![listed()])]);
    stage.session("").list_files(root()).await.unwrap();
    assert_eq!(stage.details("tier_chosen")[0]["engine"], "rustpython", "nothing is known of what will run");
    let none = Stage::new(&trace, Vec::new());
    let refused = none.session("").list_files(root()).await.unwrap_err().to_string();
    let absent = |tier: &str| format!("{tier}: not in this build");
    let want =
        format!("no allowed tier can be used ({}; {}; {})", absent("embedded"), absent("process"), absent("container"));
    assert_eq!(refused, want);
    assert_eq!(none.log(), "tier_chosen session_closed");
}

#[tokio::test]
async fn what_a_cell_can_not_do_between_runs_is_refused_and_the_session_goes_on() {
    let trace = Trace::new();
    let script = vec![done(1), unsupported("snapshots"), unsupported("files"), done(2)];
    let stage = Stage::new(&trace, vec![embedded(&trace).playing(None, script)]);
    let mut session = stage.session("");
    run(&mut session, "1").await;
    let refused = session.snapshot().await.unwrap_err().to_string();
    assert_eq!(refused, "the engine `monty` has no snapshots");
    let refused = session.list_files(root()).await.unwrap_err().to_string();
    assert_eq!(refused, "the engine `monty` has no files");
    assert_eq!(run(&mut session, "1").await, "completed embedded/monty Int(2)");
}

#[tokio::test]
async fn the_engines_with_snapshots_are_named_from_what_the_tier_declares() {
    let trace = Trace::new();
    let script = vec![done(1), unsupported("snapshots")];
    let stage = Stage::new(&trace, vec![embedded(&trace).playing(None, script)]);
    let mut session = stage.session("");
    run(&mut session, "open('x')").await;
    let refused = session.snapshot().await.unwrap_err().to_string();
    assert_eq!(refused, "the engine `rustpython` has no snapshots; open the session with the engine `monty`");
}

#[tokio::test]
async fn a_state_that_is_not_taken_up_is_refused() {
    let trace = Trace::new();
    let state = Reply::Event(Event::Snapshotted(vec![1]));
    let stage = Stage::new(&trace, vec![embedded(&trace).playing(None, vec![done(1), state])]);
    let mut session = stage.session("");
    run(&mut session, "1").await;
    let snapshot = session.snapshot().await.unwrap();
    let stage = Stage::new(&trace, vec![embedded(&trace).playing(None, vec![unsupported("this state")])]);
    let refused = stage.engine.restore(stage.request(""), &snapshot).await.err().map(|error| error.to_string());
    assert_eq!(refused.as_deref(), Some("the engine `monty` has no this state"));
    assert_eq!(stage.log(), "snapshot_restored tier_chosen cell_opened session_closed");
}
