//! What tests ask the kernel about processes, and running a file of tests again as somebody else.
//!
//! Answers to: the tests beside it. Must not: end a process.
#![allow(dead_code, reason = "each file of tests uses its part")]

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence::Outcome;

/// `status value`, `status exception` or `status limit`.
pub fn told(outcome: &Outcome) -> String {
    let limit = outcome.limit.map(|hit| format!(" {}", hit.kind));
    let exception = outcome.exception.as_ref().map(|exception| format!(" {}", exception.kind));
    let value = outcome.value.as_ref().map(|value| format!(" {value:?}"));
    let detail = limit.or(exception).or(value).unwrap_or_default();
    format!("{}{detail}", outcome.status.as_str())
}

/// Every process below `pid`, by the kernel's lists of children.
pub fn below(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{parent}/task")) else { continue };
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            open.extend(children.filter(|child| found.insert(*child)));
        }
    }
    found
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").expect("there").lines().any(|line| line.starts_with("Uid:\t0"))
}

/// Whether sessions have control groups here.
pub fn has_groups() -> bool {
    let there = |name: &str| Path::new("/sys/fs/cgroup").join(name).exists();
    is_root() && (there("memory/cgroup.procs") || there("cgroup.controllers"))
}

const WORKER: &str = "RINGFENCE_TEST_WORKER";

/// The program whose tests these are, where whoever runs them can read it.
pub fn program() -> PathBuf {
    std::env::var_os(WORKER).map_or_else(|| env!("CARGO_BIN_EXE_ringfence").into(), PathBuf::from)
}

/// Somebody without any right.
const NOBODY: u32 = 65534;

/// Runs all other tests of this file again as an ordinary user, from a folder that he can read. Where that is who runs
/// them, they were run so already.
pub fn again_as_an_ordinary_user(this_test: &str) {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let open = |path: &Path| std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("changed");
    open(folder.path());
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        std::fs::copy(from, &to).expect("copied");
        open(&to);
        to
    };
    let worker = copy(&program(), "ringfence");
    let tests = copy(&std::env::current_exe().expect("there is one"), "tests");
    let own = folder.path().join("own");
    std::fs::create_dir(&own).expect("made");
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).expect("given");
    let mut command = Command::new(tests);
    command.args(["--test-threads=1", "--skip", this_test]).env_clear().env("PATH", "/usr/bin:/bin");
    command.env(WORKER, worker).env("TMPDIR", &own).env("HOME", &own).current_dir(&own).gid(NOBODY).uid(NOBODY);
    let output = command.output().expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    let heard = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("test result: ok. "), "{said}{heard}");
    assert!(!said.contains(" 0 passed"), "{said}");
}
