//! The process tier on machines that lack something: which level is reached, what is told of it, and what is refused.
//!
//! Answers to: the levels of `limitations/process.md`. Each machine is this one with something taken away: by a filter on
//! the thread that starts the program, or by mounts in namespaces of its own. Nothing of the machine itself is changed.
//! Without namespaces root's Python may lie where nobody else can read it, so all of these use the system's.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};
use tempfile::TempDir;

/// What of the machine is taken away.
#[derive(Clone, Copy)]
enum Without {
    /// System calls, or some uses of them.
    Calls(fn() -> Vec<BpfProgram>),
    /// Whatever these words of the shell hide, in namespaces of which these are the words for `unshare`.
    Mounts(&'static str, &'static str),
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_ringfence");

fn filter(rules: Vec<(i64, Vec<SeccompRule>)>, errno: i32) -> BpfProgram {
    let arch = std::env::consts::ARCH.try_into().expect("a known processor");
    let action = SeccompAction::Errno(errno.unsigned_abs());
    let rules: BTreeMap<_, _> = rules.into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).expect("a good filter");
    filter.try_into().expect("it compiles")
}

fn with_flag(flag: i32) -> SeccompRule {
    let flag = u64::from(flag.unsigned_abs());
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag);
    SeccompRule::new(vec![condition.expect("good")]).expect("good")
}

const CLONE3: i64 = libc::SYS_clone3;

fn no_user_namespaces() -> Vec<BpfProgram> {
    let rules = || vec![with_flag(libc::CLONE_NEWUSER)];
    let refused = vec![(libc::SYS_clone, rules()), (libc::SYS_unshare, rules())];
    vec![filter(vec![(CLONE3, Vec::new())], libc::ENOSYS), filter(refused, libc::EPERM)]
}

/// What Docker's own profile refuses to a container without further rights.
fn in_docker() -> Vec<BpfProgram> {
    let all = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let rules = || all.into_iter().map(with_flag).collect::<Vec<_>>();
    let calls = [
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_mount_setattr,
        libc::SYS_fsopen,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
    ];
    let mut refused = vec![(libc::SYS_clone, rules()), (libc::SYS_unshare, rules())];
    refused.extend(calls.map(|call| (call, Vec::new())));
    vec![filter(vec![(CLONE3, Vec::new())], libc::ENOSYS), filter(refused, libc::EPERM)]
}

fn no_landlock() -> Vec<BpfProgram> {
    let calls =
        [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];
    vec![filter(calls.map(|call| (call, Vec::new())).into(), libc::ENOSYS)]
}

fn neither() -> Vec<BpfProgram> {
    no_user_namespaces().into_iter().chain(no_landlock()).collect()
}

/// Runs the program with these arguments on such a machine.
fn ringfence(without: Option<Without>, home: &Path, arguments: &[&str]) -> Output {
    let mut command = match without {
        Some(Without::Mounts(namespaces, words)) => {
            let mut command = Command::new("unshare");
            command.args([namespaces, "sh", "-c", &format!("{words} && exec \"$@\""), "sh", PROGRAM]);
            command
        }
        _ => Command::new(PROGRAM),
    };
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", home);
    for (name, folder) in [("XDG_STATE_HOME", "state"), ("XDG_RUNTIME_DIR", "run"), ("TMPDIR", "tmp")] {
        std::fs::create_dir_all(home.join(folder)).expect("made");
        command.env(name, home.join(folder));
    }
    command.env_remove("TMPDIR").current_dir(home);
    // A filter is its thread's, and of what the thread starts.
    std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            if let Some(Without::Calls(filters)) = without {
                filters().iter().for_each(|filter| apply_filter(filter).expect("put on"));
            }
            command.output().expect("started")
        });
        started.join().expect("it ends")
    })
}

fn home() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// What `doctor` says of the process tier: state, detail, remedy.
fn doctor(without: Option<Without>) -> [String; 3] {
    let output = ringfence(without, home().path(), &["doctor", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let rows = found.as_array().cloned().unwrap_or_default();
    let row = rows.into_iter().find(|row| row["what"] == "tier process");
    let row = row.unwrap_or_else(|| panic!("no row: {text}{}", String::from_utf8_lossy(&output.stderr)));
    ["state", "detail", "remedy"].map(|key| row[key].as_str().unwrap_or_default().to_owned())
}

/// `exit code: standard output or the first line of standard error` of a run under this policy.
fn run(without: Option<Without>, policy: &str, code: &str) -> String {
    let home = home();
    let file = home.path().join("policy.toml");
    std::fs::write(&file, format!("version = 1\n[isolation]\ntiers = [\"process\"]\n{policy}")).expect("written");
    let output = ringfence(without, home.path(), &["run", "--policy", "policy.toml", "-c", code]);
    let left: Vec<_> = std::fs::read_dir(home.path().join("run")).expect("there").flatten().collect();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().contains("cells")), "{left:?}");
    let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let said = String::from_utf8_lossy(said);
    format!("{}: {}", output.status.code().unwrap_or(-1), said.lines().next().unwrap_or_default())
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").expect("there").lines().any(|line| line.starts_with("Uid:\t0"))
}
