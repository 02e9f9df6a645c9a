//! The tier's only unsafe code: reading another process's processor clock.
//!
//! Answers to: `worker`. Must not: do anything else.
#![expect(unsafe_code, reason = "the clock of another process has no safe wrapper")]

use std::time::Duration;

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
