//! What a running cell uses, looked at again and again: for the audit log.
//!
//! Answers to: `drive`, which records it. Must not: wake anybody for a run that is over before its first look.

use std::time::Duration;

use ringfence_audit::event::Sampled;
use ringfence_tier::Meter;
use ringfence_types::Span;
use tokio::time::Instant;

/// The looks of one run.
#[derive(Debug)]
pub struct Sampler {
    every: Option<Duration>,
    /// When the last one was, and the processor time then.
    last: Instant,
    cpu: Duration,
}

impl Sampler {
    /// Looks `every` so often from now on; a span of zero: never. `cpu` is the processor time now.
    pub fn start(now: Instant, every: Span, cpu: Duration) -> Self {
        let every = Some(every.duration()).filter(|every| !every.is_zero());
        Self { every, last: now, cpu }
    }

    /// When the next look is due.
    pub fn next(&self) -> Option<Instant> {
        self.every.and_then(|every| self.last.checked_add(every))
    }

    /// What is found, where a look is due. After a move to another cell its processor time counts from nothing.
    pub fn look(&mut self, now: Instant, meter: &Meter) -> Option<Sampled> {
        if self.next().is_none_or(|next| now < next) {
            return None;
        }
        let (cpu, held) = (meter.cpu(), meter.held());
        let used = cpu.checked_sub(self.cpu).unwrap_or(cpu);
        let sampled = Sampled {
            cpu_percent: percent(used, now.saturating_duration_since(self.last)),
            memory: held.memory,
            processes: held.processes,
            io: held.io,
        };
        (self.last, self.cpu) = (now, cpu);
        Some(sampled)
    }
}

/// Of one processor: two that are busy are 200.
pub fn percent(used: Duration, of: Duration) -> u32 {
    let (used, of) = (used.as_micros(), of.as_micros().max(1));
    u32::try_from((used * 100 + of / 2) / of).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use ringfence_tier::Held;
    use ringfence_types::Io;

    use super::*;

    #[test]
    fn looks_are_due_at_their_interval_and_tell_what_was_used_since() {
        let busy = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&busy);
        let meter = Meter::new(move || Duration::from_millis(read.load(Ordering::SeqCst)), || 0).holding(|| Held {
            memory: 7,
            processes: 2,
            io: Some(Io { read: 1, written: 2 }),
        });
        let start = Instant::now();
        let mut sampler = Sampler::start(start, Span::from_secs(1), meter.cpu());
        let mut check = |millis: u64, cpu_ms: u64, want: Option<u32>| {
            busy.store(cpu_ms, Ordering::SeqCst);
            let found = sampler.look(start + Duration::from_millis(millis), &meter);
            let want = want.map(|cpu_percent| {
                let io = Some(Io { read: 1, written: 2 });
                Sampled { cpu_percent, memory: 7, processes: 2, io }
            });
            assert_eq!(found, want, "at {millis} ms");
        };
        check(999, 400, None);
        check(1000, 500, Some(50));
        check(1500, 900, None);
        check(3000, 4500, Some(200));
        // Another cell: its clock begins anew.
        check(4000, 100, Some(10));
        assert_eq!(Sampler::start(start, Span::from_secs(0), meter.cpu()).next(), None, "never");
    }
}
