//! One cell: a worker's socket, read and written as frames.
//!
//! Answers to: `session`, through the trait `Cell`. Must not: believe a length, or block the runtime.
//! INVARIANT: all state of a half-sent or half-read frame is in the cell, so a dropped step loses nothing.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ringfence_tier::{Boxed, Cell, Enforcement, Event, Killer, Meter, TierFault, Turn};
use ringfence_types::{TierName, ValueBudget};
use ringfence_wire::{DecodeError, FromGuest, HEADER, Header, Setup, ToGuest, VERSION, from_guest, from_guest_cap};
use rustix::process::{Pid, Resource, Rlimit, Signal, pidfd_send_signal, prlimit};

use crate::link::{Gone, Link};
use crate::zygote::Worker;
use crate::{probe, sys};

const TIER: TierName = TierName::Embedded;

/// Address space beyond the memory limit: the stack, and what the allocator keeps to itself.
const SLACK: u64 = 192 << 20;

#[derive(Debug)]
pub struct EmbeddedCell {
    link: Link,
    greeted: bool,
    process: Arc<Process>,
    enforcement: Enforcement,
}

/// The worker's process: ended when the last of cell and killers is gone, or when it is told to.
#[derive(Debug)]
struct Process {
    handle: OwnedFd,
    pid: i32,
    killed: AtomicBool,
    last_cpu: AtomicU64,
    peak: AtomicU64,
    resident_at_open: u64,
}

impl Process {
    fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        // A process that is gone already is what was wanted.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    fn cpu(&self) -> Duration {
        if let Some(time) = sys::cpu_time(self.pid) {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            self.last_cpu.fetch_max(micros, Ordering::Relaxed);
        }
        Duration::from_micros(self.last_cpu.load(Ordering::Relaxed))
    }

    fn peak(&self) -> u64 {
        if let Some(resident) = probe::peak(self.pid) {
            self.peak.fetch_max(resident.saturating_sub(self.resident_at_open), Ordering::Relaxed);
        }
        self.peak.load(Ordering::Relaxed)
    }
}

impl EmbeddedCell {
    /// Takes a worker for one session.
    pub fn open(worker: Worker, setup: &Setup) -> Result<Self, TierFault> {
        let footprint = worker.footprint();
        let Worker { socket, handle, pid, .. } = worker;
        limit_address_space(pid, footprint.size, setup.memory);
        let mut link = Link::new(socket);
        link.push(&ToGuest::Setup(setup.clone()).encode());
        Ok(Self {
            link,
            greeted: false,
            process: Arc::new(Process {
                handle,
                pid,
                killed: AtomicBool::new(false),
                last_cpu: AtomicU64::new(0),
                peak: AtomicU64::new(0),
                resident_at_open: footprint.resident,
            }),
            enforcement: probe::enforcement(),
        })
    }

    async fn next(&mut self, turn: Turn) -> Result<Event, TierFault> {
        if let Some(frame) = frame_of(turn) {
            self.link.push(&frame.encode());
        }
        loop {
            if let Some(event) = self.take_frame()? {
                return Ok(event);
            }
            self.link.more().await.map_err(|Gone| self.gone())?;
        }
    }

    fn gone(&self) -> TierFault {
        if self.process.killed.load(Ordering::Relaxed) {
            TierFault::Killed { tier: TIER }
        } else {
            TierFault::Died { tier: TIER }
        }
    }

    /// The next whole frame of what was read, checked by its header before its body is waited for.
    fn take_frame(&mut self) -> Result<Option<Event>, TierFault> {
        while let Some(header) = self.link.incoming().first_chunk::<HEADER>() {
            let header = Header::parse(*header, from_guest_cap).map_err(refused)?;
            let end = HEADER + header.length;
            let Some(body) = self.link.incoming().get(HEADER..end) else { break };
            let frame = from_guest(header.kind, body, ValueBudget::DEFAULT).map_err(refused)?;
            self.link.take(end);
            if let Some(event) = self.event_of(frame)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn event_of(&mut self, frame: FromGuest) -> Result<Option<Event>, TierFault> {
        if !self.greeted {
            self.greeted = frame == FromGuest::Ready(VERSION);
            let why = "it did not say that it is ready".to_owned();
            return if self.greeted { Ok(None) } else { Err(TierFault::Protocol { tier: TIER, why }) };
        }
        Ok(Some(match frame {
            FromGuest::Ready(_) => {
                return Err(TierFault::Protocol { tier: TIER, why: "it said twice that it is ready".to_owned() });
            }
            FromGuest::Call(call) => Event::Call(call),
            FromGuest::Await(ids) => Event::Await(ids),
            FromGuest::Print(stream, bytes) => Event::Print(stream, bytes),
            FromGuest::Shown(bundle) => Event::Shown(bundle),
            FromGuest::Done(value) => Event::Done(value),
            FromGuest::NoValue(why) => Event::NoValue(why),
            FromGuest::Raised(exception) => Event::Raised(exception),
            FromGuest::Limit(kind, reached) => Event::Limit(kind, reached),
            FromGuest::Unsupported(feature, line) => Event::Unsupported(feature, line),
            FromGuest::Snapshotted(bytes) => Event::Snapshotted(bytes),
            FromGuest::Restored => Event::Restored,
            FromGuest::Filed(reply) => Event::Filed(reply),
            FromGuest::Sync => {
                let why = "it asked to start a process, which none of this tier can".to_owned();
                return Err(TierFault::Protocol { tier: TIER, why });
            }
        }))
    }
}

fn refused(error: DecodeError) -> TierFault {
    match error {
        DecodeError::TooLong { length, allowed } => TierFault::TooLarge { tier: TIER, length, allowed },
        other => TierFault::Protocol { tier: TIER, why: other.to_string() },
    }
}

fn frame_of(turn: Turn) -> Option<ToGuest> {
    Some(match turn {
        Turn::Feed(source) => ToGuest::Feed(source),
        Turn::Answer(id, result) => ToGuest::Answer(id, result),
        Turn::Continue => return None,
        Turn::Snapshot => ToGuest::Snapshot,
        Turn::Restore(engine, bytes) => ToGuest::Restore(engine, bytes),
        Turn::Files(op) => ToGuest::Files(op),
    })
}

/// The kernel's own bound, set from outside, behind the allocator's: it holds for code that goes around the allocator.
fn limit_address_space(pid: i32, size: u64, memory: u64) {
    let bound = Some(size.saturating_add(memory).saturating_add(SLACK));
    let limit = Rlimit { current: bound, maximum: bound };
    // Where it can't be set the worker's own accounting and the host's deadline remain; `doctor` tells.
    let _ = prlimit(Pid::from_raw(pid), Resource::As, limit);
}

impl Cell for EmbeddedCell {
    fn step(&mut self, turn: Turn) -> Boxed<'_, Result<Event, TierFault>> {
        Box::pin(self.next(turn))
    }

    fn enforced(&self) -> &Enforcement {
        &self.enforcement
    }

    fn killer(&self) -> Killer {
        let process = Arc::clone(&self.process);
        Killer::new(move || process.kill())
    }

    fn meter(&self) -> Meter {
        let (cpu, peak) = (Arc::clone(&self.process), Arc::clone(&self.process));
        Meter::new(move || cpu.cpu(), move || peak.peak())
    }
}

impl Drop for EmbeddedCell {
    fn drop(&mut self) {
        self.process.kill();
    }
}
