//! The unsafe code of a command's beginning and end: signals, rights, waiting. One thing each.
//!
//! Answers to: `errand`. Must not: decide anything.
#![expect(unsafe_code, reason = "none of these has a safe wrapper here; each block is argued")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// No right comes from being user 0, and none is kept over a change of user; locked.
const LOCKED_NO_ROOT: libc::c_ulong = 0x2F;
/// Version 3 of the kernel's form of capabilities.
const CAPABILITY_FORM: u32 = 0x2008_0522;
const CAPABILITIES: libc::c_ulong = 64;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Children are waited for, which the init does not do.
pub fn expect_children() {
    // WHY UNSAFE: `signal` is a raw libc call.
    // SAFETY: sets a constant disposition.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Every signal as a program expects to find it: at its default, and not held back.
pub fn usual_signals() {
    // WHY UNSAFE: raw libc calls.
    // SAFETY: constant dispositions, of which some are refused; the set is on this stack.
    unsafe {
        for number in 1..=64 {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Waits for the child `pid`: its exit code, or 128 and the signal that ended it.
pub fn how_it_ended(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // WHY UNSAFE: raw call.
        // SAFETY: `status` is on this stack.
        match check(unsafe { libc::waitpid(pid, &raw mut status, 0) }.into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) if libc::WIFEXITED(status) => return Ok(libc::WEXITSTATUS(status)),
            Ok(_) => return Ok(128 + libc::WTERMSIG(status)),
        }
    }
}

/// Puts `from` at the number `to`, where an exec closes it.
pub fn keep_at(from: BorrowedFd<'_>, to: i32) -> io::Result<()> {
    // WHY UNSAFE: raw calls that change the descriptor `to`.
    // SAFETY: plain numbers; the caller execs or ends next and uses no other owner of `to`.
    let result = unsafe {
        if from.as_raw_fd() == to {
            libc::fcntl(to, libc::F_SETFD, libc::FD_CLOEXEC)
        } else {
            libc::dup3(from.as_raw_fd(), to, libc::O_CLOEXEC)
        }
    };
    check(result.into()).map(drop)
}

/// Closes every descriptor below `end`.
pub fn close_below(end: u32) -> io::Result<()> {
    // WHY UNSAFE: closes descriptors that Rust objects may still believe they own.
    // SAFETY: the caller touches none of them again, and never returns.
    check(unsafe { libc::close_range(0, end.saturating_sub(1), 0) }.into()).map(drop)
}

/// The descriptor with this number, which the caller has put there.
pub fn descriptor(number: &i32) -> BorrowedFd<'_> {
    // WHY UNSAFE: the number is taken for an open descriptor.
    // SAFETY: the keeper and the command keep it open to their end.
    unsafe { BorrowedFd::borrow_raw(*number) }
}

/// No right comes from executing a file.
pub fn no_new_privileges() -> io::Result<()> {
    // WHY UNSAFE: raw call.
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into()).map(drop)
}

/// Gives up every capability for good, and becomes `user` where one is given.
pub fn give_up_rights(user: Option<u32>) -> io::Result<()> {
    let header = [CAPABILITY_FORM, 0];
    let nothing = [0_u32; 6];
    // WHY UNSAFE: credentials and capabilities have no safe wrapper in std.
    // SAFETY: plain numbers, and arrays of the size that this form has; the process has one thread.
    unsafe {
        for capability in 0..CAPABILITIES {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 {
                break;
            }
        }
        check(libc::prctl(libc::PR_SET_SECUREBITS, LOCKED_NO_ROOT, 0, 0, 0).into())?;
        if let Some(user) = user {
            check(libc::setgroups(0, std::ptr::null()).into())?;
            check(libc::setresgid(user, user, user).into())?;
            check(libc::setresuid(user, user, user).into())?;
        }
        check(libc::syscall(libc::SYS_capset, header.as_ptr(), nothing.as_ptr())).map(drop)
    }
}
