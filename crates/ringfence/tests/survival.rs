//! A host that is killed leaves no worker behind, and a log that verifies up to its last complete record.
//!
//! Answers to: the promise that nothing outlives its host. Must not: end a process that it did not start.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod support;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ringfence");
const LOOP: &str = "class A: pass\nimport json\nn = 0\nwhile True:\n    n += 1\n    print(n)";
const CHILDREN: &str = "import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\n";

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for (name, folder) in [("XDG_STATE_HOME", "state"), ("XDG_RUNTIME_DIR", "run"), ("TMPDIR", "tmp")] {
        command.env(name, home.join(folder));
    }
    command
}

fn new_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a temporary folder");
    for folder in ["state", "run", "tmp"] {
        std::fs::create_dir(home.path().join(folder)).expect("a new folder");
    }
    home
}

/// A process that is still there. One that is over and not yet collected has no command line.
fn lives(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Kills a host at a different moment each round: before, during and after the start of what it starts. Gives the hosts'
/// numbers, once all that was below each is gone.
fn killed(home: &Path, rounds: u64, pause: Duration, arguments: &[&str]) -> Vec<u32> {
    let mut seen = 0;
    let mut hosts = Vec::new();
    for round in 0..rounds {
        let mut host: Child = command(home, arguments).spawn().expect("the program starts");
        std::thread::sleep(pause * u32::try_from(round).unwrap_or_default());
        let below: BTreeSet<u32> = support::below(host.id());
        host.kill().expect("it is ours");
        host.wait().expect("it is ours");
        hosts.push(host.id());
        seen += below.len();
        let patience = Instant::now() + Duration::from_secs(10);
        while below.iter().any(|pid| lives(*pid)) {
            assert!(Instant::now() < patience, "round {round}: a process outlived its host");
            std::thread::yield_now();
        }
    }
    assert!(seen > 0, "no round came far enough to have a process");
    let verified = command(home, &["audit", "verify", "log.jsonl"]).status().expect("the program starts");
    assert_eq!(verified.code(), Some(0), "the log does not verify up to its last complete record");
    hosts
}

#[test]
fn a_killed_host_leaves_nothing() {
    let home = new_home();
    let code = ["run", "-q", "--wall", "60s", "--audit", "log.jsonl", "-c", LOOP];
    killed(home.path(), 50, Duration::from_millis(7), &code);
}

#[test]
fn a_killed_host_leaves_nothing_of_a_jail() {
    let home = new_home();
    let code = format!("{CHILDREN}{LOOP}");
    let code = ["run", "-q", "--tier", "process", "--wall", "60s", "--audit", "log.jsonl", "-c", &code];
    let hosts = killed(home.path(), 100, Duration::from_millis(5), &code);
    // What could not go with the host is gone after the next start.
    let next = command(home.path(), &["run", "-q", "--tier", "process", "--audit", "log.jsonl", "-c", "1"]).status();
    assert_eq!(next.expect("the program starts").code(), Some(0));
    assert_eq!(groups_of(&hosts), Vec::<String>::new());
    for folder in ["tmp", "run"] {
        assert_eq!(files_below(&home.path().join(folder)), Vec::<String>::new());
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(&home.path().display().to_string()), "{mounts}");
}

/// Control groups of these hosts.
fn groups_of(hosts: &[u32]) -> Vec<String> {
    let roots = ["memory", "pids", "cpuacct", "cpu,cpuacct", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let entries = roots.iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| hosts.iter().any(|host| name.starts_with(&format!("ringfence-{host}-")))).collect()
}

/// Everything below a folder that is no folder itself.
fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.file_type().expect("its kind").is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found
}
