//! A handle on one worker process: ended when the last owner is gone, or when it is told to; read from outside.
//!
//! Answers to: the cells of the tiers. Must not: wait for the process, or believe what it says of itself.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, pidfd_send_signal, prlimit};

use crate::sys;

/// Room for what the kernel says of a process; the lines that are read are near its start.
const STATUS: usize = 4 << 10;

/// What it may take to stand still.
const PATIENCE: Duration = Duration::from_secs(3);

/// A worker process.
#[derive(Debug)]
pub struct Process {
    handle: OwnedFd,
    pid: i32,
    /// Its status, opened ahead of need; `None` where that could not be done: then it is opened for each reading.
    status: Option<File>,
    killed: AtomicBool,
    last_cpu: AtomicU64,
    peak: AtomicU64,
    resident_before: AtomicU64,
}

impl Process {
    /// A handle on `pid`, for which `handle` is a pidfd.
    pub fn new(handle: OwnedFd, pid: i32) -> Self {
        Self {
            handle,
            pid,
            status: File::open(status_path(pid)).ok(),
            killed: AtomicBool::new(false),
            last_cpu: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            resident_before: AtomicU64::new(0),
        }
    }

    /// Says what its memory is while it is idle: [`Process::peak`] counts from there.
    pub fn idle_at(&self, footprint: Footprint) {
        self.resident_before.store(footprint.resident, Ordering::Relaxed);
    }

    /// Its memory now.
    pub fn footprint(&self) -> Footprint {
        self.status(|status| {
            let of = |field| bytes_of(status, field).unwrap_or_default();
            Footprint { size: of("VmSize:"), resident: of("VmRSS:") }
        })
        .unwrap_or_default()
    }

    /// Reads its status, in one system call where it was opened before.
    fn status<R>(&self, read: impl FnOnce(&str) -> R) -> Option<R> {
        let Some(open) = &self.status else { return status(self.pid).as_deref().map(read) };
        let mut buffer = [0; STATUS];
        let count = open.read_at(&mut buffer, 0).ok()?;
        buffer.get(..count).and_then(|text| std::str::from_utf8(text).ok()).map(read)
    }

    /// A handle on it, for calls that take one.
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
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

    /// Stops it; returns when it stands.
    pub fn stop(&self) -> io::Result<()> {
        pidfd_send_signal(&self.handle, Signal::STOP)?;
        let start = Instant::now();
        while self.status(|status| field_of(status, "State:").is_some_and(|state| !state.starts_with(['T', 'Z'])))
            == Some(true)
        {
            if start.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Lets it go on.
    pub fn go_on(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.handle, Signal::CONT)?)
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
        if let Some(resident) = self.status(|status| bytes_of(status, "VmHWM:")).flatten() {
            let before = self.resident_before.load(Ordering::Relaxed);
            self.peak.fetch_max(resident.saturating_sub(before), Ordering::Relaxed);
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

/// Bytes that a process read from and wrote to disks, with those of its children that are over; `None` where that can't be
/// read.
pub fn disk_bytes(pid: i32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let number = |field| field_of(&text, field)?.parse::<u64>().ok();
    Some((number("read_bytes:")?, number("write_bytes:")?))
}

/// One line of `/proc/PID/status`, without its name; `field` ends in a colon.
pub fn status_field(pid: i32, field: &str) -> Option<String> {
    field_of(&status(pid)?, field).map(str::to_owned)
}

fn status(pid: i32) -> Option<String> {
    std::fs::read_to_string(status_path(pid)).ok()
}

fn status_path(pid: i32) -> String {
    format!("/proc/{pid}/status")
}

fn field_of<'s>(status: &'s str, field: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim)
}

fn bytes_of(status: &str, field: &str) -> Option<u64> {
    field_of(status, field)?.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
