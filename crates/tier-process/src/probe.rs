//! Whether the tier works here: a jail is really built, a session forked, and its lock read from outside.
//!
//! Answers to: the tier. Must not: take the session's word for its own lock.

use ringfence_tier::{Enforced, Enforcement, EnforcementLine, Probe};
use ringfence_types::Strength;
use ringfence_worker::status_field;

use crate::group;
use crate::jail::{NoJail, Ready};

/// What a session that was forked for trying shows of itself in the kernel's books.
pub fn judge(ready: &Ready) -> Probe {
    if let Err(open) = locked(ready.interpreter.pid()) {
        return unusable(&format!("a session runs without {open}"), "report this with the output of `uname -a`");
    }
    match group::probe() {
        Ok(()) => Probe::Ready(Strength::Process),
        Err(missing) => Probe::Degraded {
            strength: Strength::Process,
            missing: format!("{missing}: memory is limited for each process alone"),
            remedy: "run as root, or have control groups of version 2 delegated to this user".to_owned(),
        },
    }
}

/// Why there is no session to look at.
pub fn failed(fault: &NoJail) -> Probe {
    unusable(&fault.0, remedy_for(&fault.0))
}

fn unusable(why: &str, remedy: &str) -> Probe {
    Probe::Unusable { why: why.to_owned(), remedy: remedy.to_owned() }
}

fn remedy_for(why: &str) -> &'static str {
    if why.contains("user namespaces") {
        "allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns); \
         in a container, run it with them allowed"
    } else if why.contains("/proc") {
        "let this container see all of /proc (Docker: --security-opt systempaths=unconfined)"
    } else if why.contains("landlock") {
        "use a kernel of version 5.13 or newer with Landlock enabled"
    } else {
        "see the reason above"
    }
}

/// What of the lock is missing, asked of the kernel: it puts it on within moments, and is asked for a while.
fn locked(pid: i32) -> Result<(), &'static str> {
    let is = |field: &str, want: &str| status_field(pid, field).as_deref() == Some(want);
    let missing = || {
        if !is("Seccomp:", "2") {
            Some("a system-call filter")
        } else if !is("NoNewPrivs:", "1") {
            Some("giving up new privileges")
        } else if !is("CapEff:", "0000000000000000") || !is("CapBnd:", "0000000000000000") {
            Some("giving up capabilities")
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

/// What holds in every session of this tier; `grouped`: where its processes are in a control group.
pub fn enforcement(grouped: bool) -> Enforcement {
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
