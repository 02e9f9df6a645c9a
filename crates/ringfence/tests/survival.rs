//! A host that is killed leaves no worker behind, and a log that verifies up to its last complete record.
//!
//! Answers to: the promise that nothing outlives its host. Must not: end a process that it did not start.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod support;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ringfence");
const ROUNDS: u64 = 50;
const LOOP: &str = "class A: pass\nimport json\nn = 0\nwhile True:\n    n += 1\n    print(n)";

fn start(home: &Path) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "-q", "--wall", "60s", "--audit", "log.jsonl", "-c", LOOP]).current_dir(home);
    command.env("XDG_STATE_HOME", home.join("state")).env("XDG_RUNTIME_DIR", home.join("run"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
}

fn is_worker(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with(b"ringfence-worker\0")
}

#[test]
fn a_killed_host_leaves_nothing() {
    let home = tempfile::tempdir().expect("a temporary folder");
    for folder in ["state", "run"] {
        std::fs::create_dir(home.path().join(folder)).expect("a new folder");
    }
    let mut seen = 0;
    for round in 0..ROUNDS {
        let mut host = start(home.path());
        // A different moment each round: before, during and after the start of the workers.
        std::thread::sleep(Duration::from_millis(7 * round));
        let workers = support::below(host.id());
        host.kill().expect("it is ours");
        host.wait().expect("it is ours");
        seen += workers.len();
        let patience = Instant::now() + Duration::from_secs(10);
        while workers.iter().any(|pid| is_worker(*pid)) {
            assert!(Instant::now() < patience, "round {round}: a worker outlived its host");
            std::thread::yield_now();
        }
    }
    assert!(seen > 0, "no round came far enough to have a worker");
    let verified = Command::new(PROGRAM).args(["audit", "verify", "log.jsonl"]).current_dir(home.path()).output();
    let verified = verified.expect("the program starts");
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
}
