//! Landlock's rules of a session in its place: what it may do with which paths, and where it may connect.
//!
//! Answers to: `init`, whose places make the rules ahead of need, and `errand`, whose commands are under the same. Must
//! not: be made outside the place: a rule on a folder does not hold for what is mounted there later.

mod sys;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ringfence_wire::jail::SessionPlan;
use rustix::fs::{Mode, OFlags, open};

use super::{Failed, Step};

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

/// Whether this kernel has Landlock; why not.
pub fn are_there() -> Result<(), Failed> {
    version().map(drop)
}

fn version() -> Result<u32, Failed> {
    sys::version().step(|| "landlock is missing".into())
}

/// The rules of a session, to be put on by whoever joins the place.
pub fn of(session: &SessionPlan) -> Result<OwnedFd, Failed> {
    let rules = Rules::new()?;
    // All that the jail holds may be read; what is not in the plan is not there.
    rules.allow("/", READ)?;
    rules.allow("/dev", READ | WRITE_FILE)?;
    session.writable.iter().try_for_each(|path| rules.allow(path, WRITE))?;
    if let Some(port) = session.network.filter(|_| rules.version >= FIRST_WITH_TCP) {
        sys::allow_connect(rules.set.as_fd(), port).step(|| "no landlock rule for the proxy".into())?;
    }
    Ok(rules.set)
}

/// Puts them on this process.
pub fn put_on(rules: &OwnedFd) -> Result<(), Failed> {
    sys::put_on(rules.as_fd()).step(|| "landlock can't be put on".into())
}

/// A rule set of Landlock's.
struct Rules {
    version: u32,
    set: OwnedFd,
    handled: u64,
}

impl Rules {
    fn new() -> Result<Self, Failed> {
        let version = version()?;
        let handled = match version {
            1 => FIRST,
            2 => FIRST | REFER,
            3 | 4 => FIRST | REFER | TRUNCATE,
            _ => FIRST | REFER | TRUNCATE | IOCTL_DEV,
        };
        let set = sys::new_set(version, handled).step(|| "no landlock rules".into())?;
        Ok(Self { version, set, handled })
    }

    fn allow(&self, path: &str, rights: u64) -> Result<(), Failed> {
        let opened = match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            opened => opened.map_err(io::Error::from).step(|| format!("`{path}` can't be opened"))?,
        };
        let on_path = if Path::new(path).is_dir() { rights } else { rights & ON_FILES };
        sys::allow(self.set.as_fd(), opened.as_fd(), on_path & self.handled)
            .step(|| format!("no landlock rule for `{path}`"))
    }
}
