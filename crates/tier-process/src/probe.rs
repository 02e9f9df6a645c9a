//! Whether the tier works here: a jail is really built, a session forked, and its lock read from outside.
//!
//! Answers to: the tier. Must not: take the session's word for its own lock.

use ringfence_policy::Grant;
use ringfence_tier::{Enforced, Enforcement, EnforcementLine, Probe};
use ringfence_types::Strength;
use ringfence_worker::status_field;

use crate::group;
use crate::jail::{NoJail, Ready};
use crate::level::Walls;
use crate::users;

const REPORT: &str = "report this with the output of `uname -a`";

/// What a session that was forked for trying shows of itself in the kernel's books.
pub fn judge(ready: &Ready) -> Probe {
    if let Err(open) = locked(ready.interpreter.pid(), Walls::Namespaces) {
        return unusable(&format!("a session runs without {open}"), REPORT);
    }
    match group::probe() {
        Ok(()) => Probe::Ready(Strength::Process),
        Err(missing) => Probe::Degraded {
            strength: Strength::Process,
            missing: format!("level B: {missing}: memory is limited for each process alone"),
            remedy: "run as root, on a machine that has control groups for memory and processes in `/sys/fs/cgroup`"
                .to_owned(),
        },
    }
}

/// The same of one that has the lock alone; `walls`: why it has no walls.
pub fn judge_lock(ready: &Ready, walls: &str) -> Probe {
    if let Err(open) = locked(ready.interpreter.pid(), Walls::None) {
        return unusable(&format!("a session runs without {open}"), REPORT);
    }
    Probe::Degraded {
        strength: Strength::Language,
        missing: format!(
            "level C: {walls}: Landlock, filters and resource limits alone, with no workspace, mounts, network or commands"
        ),
        remedy: remedy_for(walls).to_owned(),
    }
}

/// Why there is no session to look at.
pub fn failed(fault: &NoJail) -> Probe {
    unusable(&format!("level D: {}", fault.0), remedy_for(&fault.0))
}

/// Why there is none, neither with walls nor with the lock alone.
pub fn failed_both(walls: &str, fault: &NoJail) -> Probe {
    let remedy = match remedy_for(&fault.0) {
        NO_REMEDY => remedy_for(walls).to_owned(),
        other => format!("{}; or {other}", remedy_for(walls)),
    };
    unusable(&format!("level D: {walls}; and with the lock alone: {}", fault.0), &remedy)
}

const NO_REMEDY: &str = "see the reason above";

fn unusable(why: &str, remedy: &str) -> Probe {
    Probe::Unusable { why: why.to_owned(), remedy: remedy.to_owned() }
}

fn remedy_for(why: &str) -> &'static str {
    if why.contains("namespaces can't be made") || why.contains("users can't be mapped") {
        "allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns); \
         in a container, run it with them allowed (Docker: --security-opt seccomp=unconfined)"
    } else if why.contains("/proc") {
        "let this container see all of /proc (Docker: --security-opt systempaths=unconfined)"
    } else if why.contains("mount") || why.contains("file system in memory") {
        "let this user make mounts of his own (Docker: --security-opt seccomp=unconfined, or --privileged)"
    } else if why.contains("has to be 6") {
        "use a kernel of version 6.12 or newer with Landlock enabled"
    } else if why.contains("landlock") {
        "use a kernel of version 5.13 or newer with Landlock enabled"
    } else if why.contains("can't be started: Permission denied") {
        "name a Python by `--python` that every user can read"
    } else {
        NO_REMEDY
    }
}

/// What of the lock is missing, asked of the kernel: it puts it on within moments, and is asked for a while.
fn locked(pid: i32, walls: Walls) -> Result<(), &'static str> {
    let is = |field: &str, want: &str| status_field(pid, field).as_deref() == Some(want);
    // Without new privileges none of these can be had, and an ordinary user can't take them off the list.
    let may_be_listed = walls == Walls::None && !rustix::process::geteuid().is_root();
    let is_listed = || !may_be_listed && !is("CapBnd:", "0000000000000000");
    // A root who has no other users to give is an ordinary user of a machine around this one.
    let has_others = walls == Walls::None || users::range(0).is_some();
    let is_root = || status_field(pid, "Uid:").is_none_or(|users| users.split_whitespace().any(|user| user == "0"));
    let missing = || {
        if !is("Seccomp:", "2") {
            Some("a system-call filter")
        } else if !is("NoNewPrivs:", "1") {
            Some("giving up new privileges")
        } else if !is("CapEff:", "0000000000000000") || is_listed() {
            Some("giving up capabilities")
        } else if has_others && is_root() {
            Some("giving up root")
        } else {
            None
        }
    };
    for _ in 0..200 {
        if missing().is_none() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    missing().map_or(Ok(()), Err)
}

/// What holds in a session under this grant; `grouped`: where its processes are in a control group.
pub fn enforcement(walls: Walls, grouped: bool, grant: &Grant) -> Enforcement {
    let mut enforcement = match walls {
        Walls::Namespaces => with_walls(grouped),
        Walls::None => with_the_lock(grouped),
    };
    if !grant.may_exec() {
        enforcement.lines.push(EnforcementLine { what: "starting programs", level: no_programs(walls) });
    }
    enforcement
}

/// The filter refuses the calls at every level; that nothing of what it writes is taken for machine code is its mounts'.
fn no_programs(walls: Walls) -> Enforced {
    match walls {
        Walls::Namespaces => Enforced::Full,
        Walls::None => {
            Enforced::Partial("no program starts, but a file it wrote can be loaded as a library".to_owned())
        }
    }
}

/// Of a session without namespaces only this is said otherwise.
fn with_the_lock(grouped: bool) -> Enforcement {
    let partly = |why: &str| Enforced::Partial(why.to_owned());
    let mut enforcement = Enforcement { strength: Strength::Language, ..with_walls(grouped) };
    for line in &mut enforcement.lines {
        line.level = match line.what {
            "file system" => partly("by Landlock alone: whether a path exists, its size and its times can be seen"),
            "processes" if !grouped => partly("counted together with all others of the same user"),
            "disk" => partly("for each file alone"),
            _ => continue,
        };
    }
    enforcement
}

fn with_walls(grouped: bool) -> Enforcement {
    let full = |what| EnforcementLine { what, level: Enforced::Full };
    let together = |what| match grouped {
        true => full(what),
        false => {
            EnforcementLine { what, level: Enforced::Partial("for each process alone: no control groups".to_owned()) }
        }
    };
    Enforcement {
        strength: Strength::Process,
        lines: vec![
            full("system calls"),
            full("network"),
            full("file system"),
            full("environment"),
            full("wall clock"),
            together("processor time"),
            together("memory"),
            full("output"),
            full("host calls"),
            full("processes"),
            full("open files"),
            full("disk"),
        ],
    }
}
