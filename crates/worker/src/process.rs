//! A handle on one worker process: ended when the last owner is gone, or when it is told to; read from outside.
//!
//! Answers to: the cells of the tiers. Must not: wait for the process, or believe what it says of itself.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, pidfd_send_signal, prlimit};

use crate::sys;

/// A worker process.
#[derive(Debug)]
pub struct Process {
    handle: OwnedFd,
    pid: i32,
    killed: AtomicBool,
    last_cpu: AtomicU64,
    peak: AtomicU64,
    resident_before: u64,
}

impl Process {
    /// A handle on `pid`, for which `handle` is a pidfd; `before` is its memory while it is idle.
    pub fn new(handle: OwnedFd, pid: i32, before: Footprint) -> Self {
        Self {
            handle,
            pid,
            killed: AtomicBool::new(false),
            last_cpu: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            resident_before: before.resident,
        }
    }

    /// Its number, for readings only: it may come to mean another process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Ends it now.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        // A process that is gone already is what was wanted.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    /// Whether it was this handle that ended it.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// Its processor time; the last reading where it is gone.
    pub fn cpu(&self) -> Duration {
        if let Some(time) = sys::cpu_time(self.pid) {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            self.last_cpu.fetch_max(micros, Ordering::Relaxed);
        }
        Duration::from_micros(self.last_cpu.load(Ordering::Relaxed))
    }

    /// The most memory that it held above that of an idle one, in bytes; the last reading where it is gone.
    pub fn peak(&self) -> u64 {
        if let Some(resident) = status(self.pid).and_then(|status| bytes_of(&status, "VmHWM:")) {
            self.peak.fetch_max(resident.saturating_sub(self.resident_before), Ordering::Relaxed);
        }
        self.peak.load(Ordering::Relaxed)
    }

    /// Sets the kernel's bound on its address space. Where it can't be set, nothing is said.
    pub fn limit_address_space(&self, bytes: u64) {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        let _ = prlimit(Pid::from_raw(self.pid), Resource::As, limit);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process's memory, in bytes; 0 where the process is gone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Footprint {
    /// Address space.
    pub size: u64,
    /// What of it is in memory.
    pub resident: u64,
}

impl Footprint {
    /// The memory of a process now.
    pub fn of(pid: i32) -> Self {
        let status = status(pid).unwrap_or_default();
        let of = |field| bytes_of(&status, field).unwrap_or_default();
        Self { size: of("VmSize:"), resident: of("VmRSS:") }
    }
}

/// One line of `/proc/PID/status`, without its name; `field` ends in a colon.
pub fn status_field(pid: i32, field: &str) -> Option<String> {
    field_of(&status(pid)?, field).map(str::to_owned)
}

fn status(pid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/status")).ok()
}

fn field_of<'s>(status: &'s str, field: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim)
}

fn bytes_of(status: &str, field: &str) -> Option<u64> {
    field_of(status, field)?.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
