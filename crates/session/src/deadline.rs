//! The wall clock and the processor time of one run, kept outside the guest.
//!
//! Answers to: `run`. Must not: take the guest's word for anything but that it waits for a call of its own.

use std::sync::Arc;
use std::time::Duration;

use ringfence_tier::{CellUsage, Meter};
use ringfence_types::{LimitHit, LimitKind, Limits};
use tokio::time::Instant;

use crate::ice::Ice;

/// The shortest time between two looks at the processor clock.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);

/// How old a reading of the processor clock may be.
const FRESH: Duration = Duration::from_millis(1);

/// When a run has to end.
#[derive(Debug)]
pub struct Deadline {
    wall: Duration,
    cpu: Duration,
    lifetime_end: Instant,
    lifetime: Duration,
    includes_calls: bool,
    started: Instant,
    /// The session's own time, which stands still while it is frozen; here, and in the two below.
    ice: Arc<Ice>,
    begun: Duration,
    /// Time spent waiting for host functions, in waits that are over.
    waited: Duration,
    waiting_since: Option<Duration>,
    /// Reads the cell that the run is in now.
    meter: Meter,
    /// Processor time in the cells that the run left.
    cpu_left_behind: Duration,
    /// Peak memory in the cells that the run left.
    peak_left_behind: u64,
    cpu_before: Duration,
    cpu_read: Option<(Instant, Duration)>,
}

impl Deadline {
    /// Starts the clock of a run. `lifetime_end` is when its session has to end.
    pub fn start(limits: &Limits, meter: &Meter, lifetime_end: Instant, ice: &Arc<Ice>) -> Self {
        Self {
            wall: limits.wall.duration(),
            cpu: limits.cpu.duration(),
            lifetime_end,
            lifetime: limits.lifetime.duration(),
            includes_calls: limits.wall_includes_calls,
            started: Instant::now(),
            ice: Arc::clone(ice),
            begun: ice.now(),
            waited: Duration::ZERO,
            waiting_since: None,
            meter: meter.clone(),
            cpu_left_behind: Duration::ZERO,
            peak_left_behind: 0,
            cpu_before: meter.cpu(),
            cpu_read: None,
        }
    }

    /// What the cell had used of the processor before the run came to it.
    pub fn cpu_before(&self) -> Duration {
        self.cpu_before
    }

    /// The run is about to leave its cell: what it used there is kept, since the limit counts over all cells.
    pub fn leave(&mut self) {
        let used = self.meter.read();
        let cpu = used.cpu.saturating_sub(self.cpu_before);
        self.cpu_left_behind += cpu;
        self.cpu_before += cpu;
        self.peak_left_behind = self.peak_left_behind.max(used.peak_memory);
        self.cpu_read = None;
    }

    /// The run goes on in another cell.
    pub fn moved(&mut self, meter: &Meter) {
        self.cpu_before = meter.cpu();
        self.cpu_read = None;
        self.meter = meter.clone();
    }

    /// The host itself takes its time, such as for opening another cell: that is not the guest's.
    pub fn hold(&mut self) {
        self.waiting_since.get_or_insert_with(|| self.ice.now());
    }

    /// The guest waits for a host function.
    pub fn pause(&mut self) {
        if !self.includes_calls {
            self.waiting_since.get_or_insert_with(|| self.ice.now());
        }
    }

    /// The guest goes on.
    pub fn go_on(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += self.ice.now().saturating_sub(since);
        }
    }

    /// Real time so far, waits included, and what the cells used so far.
    pub fn used(&self) -> (Duration, CellUsage) {
        let peak_memory = self.meter.read().peak_memory.max(self.peak_left_behind);
        (self.started.elapsed(), CellUsage { cpu: self.cpu_used(), peak_memory })
    }

    fn counted(&self) -> Duration {
        let now = self.ice.now();
        let waiting = self.waiting_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        now.saturating_sub(self.begun + self.waited + waiting)
    }

    fn cpu_used(&self) -> Duration {
        self.cpu_left_behind + self.meter.cpu().saturating_sub(self.cpu_before)
    }

    /// When to look next, since nothing can have struck before; or the limit that has struck. Of two at once the
    /// processor time is named: it says more.
    pub fn look(&mut self) -> Result<Instant, LimitHit> {
        let (now, counted) = (Instant::now(), self.counted());
        let cpu = self.cpu_lately(now);
        let wall_over = self.waiting_since.is_none() && counted >= self.wall;
        if cpu >= self.cpu || (wall_over && cpu >= self.cpu.mul_f64(0.95)) {
            return Err(hit(LimitKind::Cpu, self.cpu, cpu));
        }
        if wall_over {
            return Err(hit(LimitKind::Wall, self.wall, counted));
        }
        if now >= self.lifetime_end {
            return Err(hit(LimitKind::Lifetime, self.lifetime, self.lifetime));
        }
        let cpu_left = self.cpu.saturating_sub(cpu).max(SHORTEST_LOOK);
        let cpu_left = if self.ice.is_frozen() { Duration::MAX } else { cpu_left };
        let stands = self.waiting_since.is_some() || self.ice.is_frozen();
        let wall_left = if stands { Duration::MAX } else { self.wall.saturating_sub(counted) };
        let next = now.checked_add(cpu_left.min(wall_left)).unwrap_or(self.lifetime_end);
        Ok(next.min(self.lifetime_end))
    }

    fn cpu_lately(&mut self, now: Instant) -> Duration {
        match self.cpu_read {
            Some((read, cpu)) if now.saturating_duration_since(read) < FRESH => cpu,
            _ => {
                let cpu = self.cpu_used();
                self.cpu_read = Some((now, cpu));
                cpu
            }
        }
    }
}

fn hit(kind: LimitKind, allowed: Duration, reached: Duration) -> LimitHit {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    LimitHit { kind, allowed: millis(allowed), reached: millis(reached).max(millis(allowed)) }
}
