//! The lock of a command: the same limits, Landlock rules, rights and filters that the zygote puts on a session.
//!
//! Answers to: `errand`, in the process that becomes the command. Must not: leave a step out; where one can't be done
//! the command does not run. `zygote.py` has the same steps in the same order.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ringfence_wire::jail::SessionPlan;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::apply_filter;

use super::sys;
use crate::jail::filter::Filters;
use crate::jail::init::own_users;
use crate::jail::{Failed, Step};

// Rights of Landlock's file rules.
const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// Those that the first version of Landlock knows.
const FIRST: u64 = (1 << 13) - 1;
const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
const WRITE: u64 = FIRST & !(MAKE_CHAR | MAKE_BLOCK) | REFER | TRUNCATE;
/// The first version of Landlock that knows TCP's bind and connect.
const FIRST_WITH_TCP: u32 = 4;
/// Those that mean something for a file.
const ON_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// Puts the whole lock on this process, which is in its place already.
pub fn lock(session: &SessionPlan, filters: &Filters, user: Option<u32>) -> Result<(), Failed> {
    if user.is_none() {
        own_users()?;
    }
    for (name, amount) in &session.limits {
        let resource = resource(name).ok_or_else(|| Failed::new(format!("`{name}` is no limit")))?;
        let limit = Rlimit { current: Some(*amount), maximum: Some(*amount) };
        setrlimit(resource, limit).map_err(io::Error::from).step(|| format!("`{name}` can't be set"))?;
    }
    let rules = Rules::new()?;
    // All that the jail holds may be read; what is not in the plan is not there.
    rules.allow("/", READ)?;
    rules.allow("/dev", READ | WRITE_FILE)?;
    session.writable.iter().try_for_each(|path| rules.allow(path, WRITE))?;
    if let Some(port) = session.network.filter(|_| rules.version >= FIRST_WITH_TCP) {
        sys::landlock_allow_connect(rules.set.as_fd(), port).step(|| "no landlock rule for the proxy".into())?;
    }
    sys::no_new_privileges().step(|| "privileges can be gained".into())?;
    sys::landlock_put_on(rules.set.as_fd()).step(|| "landlock can't be put on".into())?;
    drop(rules);
    sys::give_up_rights(user).step(|| "capabilities can't be given up".into())?;
    for program in filters.zygote.iter().chain(&filters.session) {
        apply_filter(program).map_err(|error| Failed::new(format!("a filter can't be put on: {error}")))?;
    }
    Ok(())
}

fn resource(name: &str) -> Option<Resource> {
    Some(match name {
        "RLIMIT_NOFILE" => Resource::Nofile,
        "RLIMIT_NPROC" => Resource::Nproc,
        "RLIMIT_FSIZE" => Resource::Fsize,
        "RLIMIT_CORE" => Resource::Core,
        "RLIMIT_MEMLOCK" => Resource::Memlock,
        "RLIMIT_MSGQUEUE" => Resource::Msgqueue,
        "RLIMIT_SIGPENDING" => Resource::Sigpending,
        "RLIMIT_AS" => Resource::As,
        "RLIMIT_DATA" => Resource::Data,
        "RLIMIT_STACK" => Resource::Stack,
        _ => return None,
    })
}

/// A rule set of Landlock's.
struct Rules {
    version: u32,
    set: OwnedFd,
    handled: u64,
}

impl Rules {
    fn new() -> Result<Self, Failed> {
        let version = sys::landlock_version().step(|| "landlock is missing".into())?;
        let handled = match version {
            1 => FIRST,
            2 => FIRST | REFER,
            3 | 4 => FIRST | REFER | TRUNCATE,
            _ => FIRST | REFER | TRUNCATE | IOCTL_DEV,
        };
        let set = sys::landlock_rules(version, handled).step(|| "no landlock rules".into())?;
        Ok(Self { version, set, handled })
    }

    fn allow(&self, path: &str, rights: u64) -> Result<(), Failed> {
        let opened = match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            opened => opened.map_err(io::Error::from).step(|| format!("`{path}` can't be opened"))?,
        };
        let on_path = if Path::new(path).is_dir() { rights } else { rights & ON_FILES };
        sys::landlock_allow(self.set.as_fd(), opened.as_fd(), on_path & self.handled)
            .step(|| format!("no landlock rule for `{path}`"))
    }
}

#[cfg(test)]
mod tests {
    /// The zygote has these numbers in Python: both locks must be the same.
    #[test]
    fn both_locks_have_the_same_rights() {
        let script = include_str!("../zygote.py");
        for line in [
            "EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3",
            "MAKE_CHAR, MAKE_BLOCK, REFER, TRUNCATE, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 13, 1 << 14, 1 << 15",
            "write = ALL[1] & ~(MAKE_CHAR | MAKE_BLOCK) | REFER | TRUNCATE",
            "[(\"/\", READ), (\"/dev\", READ | WRITE_FILE), *((path, write) for path in plan[\"writable\"])]",
        ] {
            assert!(script.contains(line), "zygote.py has no `{line}` any more: change this lock with it");
        }
    }
}
