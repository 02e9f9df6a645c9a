//! Landlock's three system calls, which have no wrapper.
//!
//! Answers to: `rules`. Must not: decide anything.
#![expect(unsafe_code, reason = "these calls have no safe wrapper here; each block is argued")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const VERSION: libc::c_uint = 1;
const PATH_BENEATH: libc::c_int = 1;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The version of Landlock that this kernel has.
pub fn version() -> io::Result<u32> {
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: a null pointer and size 0 is the kernel's form of this question.
    let nothing = std::ptr::null::<u64>();
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    check(version).map(|version| u32::try_from(version).unwrap_or_default())
}

/// A rule set that handles these rights of files, all of TCP, and what reaches processes outside, as far as known.
pub fn new_set(version: u32, files: u64) -> io::Result<OwnedFd> {
    let (tcp, scoped) = (if version >= 4 { 3 } else { 0 }, if version >= 6 { 3 } else { 0 });
    let handled: [u64; 3] = [files, tcp, scoped];
    let fields = if version >= 6 {
        3
    } else if version >= 4 {
        2
    } else {
        1
    };
    let size = fields * size_of::<u64>();
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: `handled` is on this stack and at least `size` long.
    let set = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, handled.as_ptr(), size, 0) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(set).unwrap_or(-1)) })
}

/// Allows connections to this port of TCP's.
pub fn allow_connect(rules: BorrowedFd<'_>, port: u16) -> io::Result<()> {
    const CONNECT_TCP: u64 = 1 << 1;
    const NET_PORT: libc::c_long = 2;
    let rule: [u64; 2] = [CONNECT_TCP, port.into()];
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: `rule` is on this stack and of the form that its kind has: two numbers of 64 bits.
    let result = unsafe { libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), NET_PORT, rule.as_ptr(), 0) };
    check(result).map(drop)
}

#[repr(C, packed)]
struct Beneath {
    rights: u64,
    parent: i32,
}

/// Allows these rights for what lies at or below `path`.
pub fn allow(set: BorrowedFd<'_>, path: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
    let rule = Beneath { rights, parent: path.as_raw_fd() };
    let set = set.as_raw_fd();
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: `rule` is on this stack and has the kernel's form.
    let result = unsafe { libc::syscall(libc::SYS_landlock_add_rule, set, PATH_BENEATH, &raw const rule, 0) };
    check(result).map(drop)
}

/// Puts the rules on this process.
pub fn put_on(set: BorrowedFd<'_>) -> io::Result<()> {
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: an open descriptor and a plain number.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, set.as_raw_fd(), 0) }).map(drop)
}
