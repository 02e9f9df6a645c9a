//! The crate's only unsafe code: reading another process's processor clock, and waiting for a borrowed socket.
//!
//! Answers to: `process` and `link`. Must not: do anything else.
#![expect(unsafe_code, reason = "neither has a safe wrapper")]

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Processor time of the process `pid`, or `None` where it is gone.
pub fn cpu_time(pid: i32) -> Option<Duration> {
    // The kernel's name for the processor clock of a whole process: the number's complement, then the kind.
    const WHOLE_PROCESS: libc::clockid_t = 2;
    let clock = (!pid << 3) | WHOLE_PROCESS;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // WHY UNSAFE: `clock_gettime` is a raw libc call.
    // SAFETY: `time` is on this stack.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    (result == 0).then(|| Duration::new(seconds, nanos))
}

/// Makes the socket known to the runtime, for as long as the result lives.
pub fn known_to_runtime(socket: BorrowedFd<'_>, interest: Interest) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    // WHY UNSAFE: the runtime has to be promised that the descriptor stays the same open file.
    // SAFETY: `BorrowedFd` is that promise, for a life that the result can't outlive; its `as_raw_fd` never changes.
    unsafe { AsyncFd::register_with_interest(socket, interest) }.map_err(io::Error::from)
}
