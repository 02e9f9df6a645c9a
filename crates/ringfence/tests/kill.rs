//! `ringfence kill` against a process with a hundred sessions that run without end.
//!
//! Answers to: the promise that `kill --all` ends everything, each with an outcome. Must not: assert a time; the
//! benchmark measures it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;

use ringfence::control::Listener;
use ringfence::{Engine, LimitOverrides, Policy, Source, Span, Status};
use tokio::sync::mpsc;

const SESSIONS: usize = 100;
const PROGRAM: &str = env!("CARGO_BIN_EXE_ringfence");

fn ringfence(home: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_clear().env("USER", "ada").env("XDG_RUNTIME_DIR", home.join("run"));
    command.env("XDG_STATE_HOME", home.join("state"));
    let output = command.output().expect("the program starts");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A home with folders that only this user can enter, an engine, and its control socket in that home.
fn listening() -> (tempfile::TempDir, Engine, Listener) {
    let home = tempfile::tempdir().expect("a temporary folder");
    for folder in ["run", "run/ringfence", "state"] {
        DirBuilder::new().mode(0o700).create(home.path().join(folder)).expect("a new folder");
    }
    let engine = Engine::builder().worker(PROGRAM).build().expect("an engine");
    let listener = Listener::start_in(&home.path().join("run/ringfence"), engine.inner().clone()).expect("a socket");
    (home, engine, listener)
}

fn patient() -> Policy {
    let minute = Some(Span::from_secs(600));
    let limits = LimitOverrides { wall: minute, cpu: minute, ..LimitOverrides::default() };
    Policy::closed().with_limits(limits).expect("good limits")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_all_ends_a_hundred_sessions() {
    let (home, engine, _listener) = listening();
    let (on, mut started) = mpsc::unbounded_channel();
    let mut runs = Vec::new();
    for _ in 0..SESSIONS {
        let mut session = engine.session(patient()).expect("granted");
        let on = on.clone();
        runs.push(tokio::spawn(async move {
            let endless = Source::new("print('on')\nwhile True: pass");
            session
                .run_watched(endless, move |_| {
                    let _ = on.send(());
                })
                .await
        }));
    }
    for _ in 0..SESSIONS {
        started.recv().await.expect("every session starts");
    }
    let home = home.path().to_owned();
    let said = tokio::task::spawn_blocking(move || ringfence(&home, &["kill", "--all", "--reason", "a test"])).await;
    assert_eq!(said.expect("no panic"), "100 sessions ended\n");
    for run in runs {
        let outcome = run.await.expect("no panic").expect("an outcome");
        let want = (Status::Killed, Some("ended by `ringfence kill`: a test"));
        assert_eq!((outcome.status, outcome.reason.as_deref()), want);
    }
    assert_eq!(engine.inner().list().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_reaches_a_process_that_runs() {
    let (home, engine, _listener) = listening();
    let path = home.path().to_owned();
    let tell = move |arguments: &'static [&'static str]| ringfence(&path, arguments);
    assert_eq!(tell(&["kill", "--all", "--hold"]), "0 sessions ended\nheld: all; `ringfence resume all` releases it\n");
    let refused = engine.session(Policy::closed()).err().map(|error| error.to_string());
    assert_eq!(refused.as_deref(), Some("a kill switch is set on `all`; `ringfence resume all` releases it"));
    assert_eq!(tell(&["resume", "--all"]), "released: all\n");
    assert!(engine.session(Policy::closed()).is_ok());
}
