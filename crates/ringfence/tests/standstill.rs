//! Sessions that stand still, and thresholds on what they use.
//!
//! Answers to: the promises of `limitations/process.md` on both. Must not: assert a time.

mod support;

use std::time::Duration;

use ringfence::{Engine, Handle, Policy, Progress, Session, Source, Status, Target, Value};

fn engine() -> Engine {
    Engine::builder().worker(support::program()).warm(1).build().expect("an engine")
}

fn session(engine: &Engine, tier: &str, more: &str) -> Session {
    let text = format!("version = 1\n[isolation]\ntiers = [\"{tier}\"]\n{more}\n");
    engine.session(Policy::parse(&text, "test").expect("a good policy")).expect("granted")
}

/// Runs a program that says `on` once it works, and what `then` does meanwhile.
async fn while_it_works(
    session: &mut Session,
    code: &str,
    then: impl FnOnce(Handle) + Send + 'static,
) -> ringfence::Outcome {
    let handle = session.handle();
    let (said, hears) = std::sync::mpsc::channel();
    let work = std::thread::spawn(move || {
        hears.recv().expect("it works");
        then(handle);
    });
    let tell = move |progress: Progress<'_>| {
        if let Progress::Output(..) = progress {
            let _ = said.send(());
        }
    };
    let outcome = session.run_watched(Source::new(code), tell).await.expect("recorded");
    work.join().expect("no panic");
    outcome
}

/// Processor time of the one session, in nanoseconds, and whether it is told to stand still.
fn seen(engine: &Engine) -> (Duration, bool) {
    let rows = engine.inner().list();
    let row = rows.first().expect("there is one");
    (row.usage.expect("it has a cell").0.cpu, row.frozen)
}

/// Until the clocks of the policies here would be over, if they went on: nothing but time itself is waited for.
fn pass() {
    std::thread::sleep(Duration::from_millis(3200));
}

const LOOPS: &str = "
print('on', flush=True)
import time
end = time.process_time() + 0.05
while time.process_time() < end: pass
6 * 7";

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_run_uses_no_processor_and_its_wall_clock_stands() {
    for tier in ["process", "embedded"] {
        let engine = engine();
        let mut session = session(&engine, tier, "[limits]\nwall = \"3s\"");
        let seen_by = engine.clone();
        let outcome = while_it_works(&mut session, LOOPS, move |handle| {
            handle.freeze().expect("it can stand still");
            let (before, frozen) = seen(&seen_by);
            assert!(frozen);
            pass();
            assert_eq!(seen(&seen_by), (before, true));
            handle.thaw().expect("it can go on");
        })
        .await;
        assert_eq!(
            (outcome.status, outcome.value),
            (Status::Completed, Some(Value::Int(42))),
            "{tier} {:?}",
            outcome.reason
        );
    }
}

const MANY: &str = "
import os, signal
for n in range(4):
    if os.fork() == 0:
        while True: pass
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
print('on', flush=True)
while True: pass";

#[tokio::test(flavor = "multi_thread")]
async fn every_process_stands_still_and_a_kill_ends_it() {
    let engine = engine();
    let mut session = session(&engine, "process", "[limits]\nwall = \"60s\"\ncpu = \"60s\"\nmemory = \"96MiB\"");
    let by = engine.clone();
    let outcome = while_it_works(&mut session, MANY, move |handle| {
        handle.freeze().expect("it can stand still");
        let before = seen(&by);
        pass();
        assert_eq!(seen(&by), before);
        assert_eq!(by.kill(&Target::Session(handle.session().clone()), "a test"), 1);
    })
    .await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Killed, Some("ended by a test")));
}

#[tokio::test(flavor = "multi_thread")]
async fn between_runs_files_wait_and_the_idle_clock_stands() {
    let engine = engine();
    let limits = "[limits]\nidle = \"3s\"\n[filesystem]\nworkspace = \"1MiB\"";
    let mut session = session(&engine, "process", limits);
    let refused = session.freeze().map_err(|error| error.to_string());
    let want = format!("{}: the session has no cell yet; run something in it first", session.handle().session());
    assert_eq!(refused, Err(want));
    session.run("x = 41").await.expect("recorded");
    session.freeze().expect("it can stand still");
    let refused = session.list_files("/workspace").await.map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(refused, Err("the session is frozen; thaw it first".to_owned()));
    pass();
    session.thaw().expect("it can go on");
    let outcome = session.run("x + 1").await.expect("recorded");
    assert_eq!(outcome.value, Some(Value::Int(42)), "{:?}", outcome.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_threshold_warns_and_another_ends_the_session() {
    let engine = engine();
    let monitor = "[limits]\nwall = \"30s\"\ncpu = \"30s\"\nmemory = \"200MiB\"\n[monitor]\nevery = \"20ms\"\n\
                   [monitor.warn]\nprocesses = 2\n[monitor.kill]\nmemory = \"100MiB\"\n";
    let mut session = session(&engine, "process", monitor);
    let mut crossed = Vec::new();
    let code = "import os, time\nfor n in range(3):\n    if os.fork() == 0: time.sleep(60)\ntime.sleep(0.3)\n\
                x = b'x' * (120 << 20)\nwhile True: time.sleep(0.01)";
    let outcome = session
        .run_watched(Source::new(code), |progress| {
            if let Progress::Crossed(threshold) = progress {
                crossed.push(format!("{} {}", threshold.action.as_str(), threshold.measure));
            }
        })
        .await
        .expect("recorded");
    // Without control groups the program's own processes are not counted.
    let want: &[_] = if support::has_groups() { &["warn processes", "kill memory"] } else { &["kill memory"] };
    assert_eq!(crossed, want);
    let reason = outcome.reason.unwrap_or_default();
    let start = "ended by the monitor: `monitor.kill.memory` is 104857600 bytes, and ";
    assert!(outcome.status == Status::Killed && reason.starts_with(start), "{:?} {reason}", outcome.status);
}

/// Without control groups, and with his own rights.
#[test]
fn the_same_as_an_ordinary_user() {
    support::again_as_an_ordinary_user("the_same_as_an_ordinary_user");
}
