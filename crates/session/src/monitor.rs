//! Thresholds on what a running cell uses: looked at again and again while a run lasts.
//!
//! Answers to: `drive`, which records and acts. Must not: end anything itself, or tell the same twice in one run.

use std::time::Duration;

use ringfence_audit::event::ThresholdCrossed;
use ringfence_policy::{Monitor, Thresholds};
use ringfence_tier::{Held, Meter};
use ringfence_types::{Measure, MonitorAction};
use tokio::time::Instant;

use crate::sample::percent;

/// The looks of one run.
#[derive(Debug)]
pub struct Guard {
    every: Duration,
    warn: Thresholds,
    kill: Thresholds,
    last: Instant,
    cpu: Duration,
    told: Vec<Measure>,
}

impl Guard {
    /// Looks from now on; `None` where nothing is watched for. `cpu` is the processor time now.
    pub fn start(now: Instant, monitor: &Monitor, cpu: Duration) -> Option<Self> {
        let Monitor { every, warn, kill } = *monitor;
        let is_set = warn != Thresholds::default() || kill != Thresholds::default();
        is_set.then(|| Self { every: every.duration(), warn, kill, last: now, cpu, told: Vec::new() })
    }

    /// When the next look is due.
    pub fn next(&self) -> Option<Instant> {
        self.last.checked_add(self.every)
    }

    /// What is crossed, where a look is due. What ends the session comes last.
    pub fn look(&mut self, now: Instant, meter: &Meter) -> Vec<ThresholdCrossed> {
        if self.next().is_none_or(|next| now < next) {
            return Vec::new();
        }
        let (cpu, held) = (meter.cpu(), meter.held());
        // After a move to another cell its processor time counts from nothing.
        let used = cpu.checked_sub(self.cpu).unwrap_or(cpu);
        let percent = percent(used, now.saturating_duration_since(self.last));
        (self.last, self.cpu) = (now, cpu);
        let mut crossed = Vec::new();
        for (action, thresholds) in [(MonitorAction::Warn, self.warn), (MonitorAction::Kill, self.kill)] {
            for (measure, threshold, reached) in found(&thresholds, held, percent) {
                let is_new = action == MonitorAction::Kill || !self.told.contains(&measure);
                if is_new && reached > threshold {
                    if action == MonitorAction::Warn {
                        self.told.push(measure);
                    }
                    crossed.push(ThresholdCrossed { action, measure, threshold, reached });
                }
            }
        }
        crossed
    }
}

/// Each threshold with what was found.
fn found(thresholds: &Thresholds, held: Held, percent: u32) -> Vec<(Measure, u64, u64)> {
    let Thresholds { memory, cpu, processes, io } = *thresholds;
    let rows = [
        memory.map(|limit| (Measure::Memory, limit.bytes(), held.memory)),
        cpu.map(|limit| (Measure::Cpu, limit.into(), percent.into())),
        processes.map(|limit| (Measure::Processes, limit.into(), held.processes.into())),
        io.zip(held.io).map(|(limit, io)| (Measure::Io, limit.bytes(), io.total())),
    ];
    rows.into_iter().flatten().collect()
}

/// One line that names the threshold and what was found.
pub fn text(crossed: &ThresholdCrossed) -> String {
    let ThresholdCrossed { action, measure, threshold, reached } = crossed;
    let unit = measure.unit();
    format!("`monitor.{}.{measure}` is {threshold}{unit}, and {reached}{unit} were found", action.as_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use ringfence_types::{ByteSize, Io, Span};

    use super::*;

    #[test]
    fn a_warning_is_told_once_and_a_kill_comes_last() {
        let (busy, memory) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (cpu, bytes) = (Arc::clone(&busy), Arc::clone(&memory));
        let meter = Meter::new(move || Duration::from_millis(cpu.load(Ordering::SeqCst)), || 0).holding(move || Held {
            memory: bytes.load(Ordering::SeqCst),
            processes: 3,
            io: Some(Io { read: 4, written: 5 }),
        });
        let warn = Thresholds { memory: Some(ByteSize::from_bytes(10)), cpu: Some(80), ..Thresholds::default() };
        let kill = Thresholds {
            memory: Some(ByteSize::from_bytes(20)),
            processes: Some(3),
            io: Some(ByteSize::from_bytes(9)),
            ..Thresholds::default()
        };
        let monitor = Monitor { every: Span::from_secs(1), warn, kill };
        let start = Instant::now();
        let mut guard = Guard::start(start, &monitor, Duration::ZERO).expect("something is watched for");
        let mut check = |millis: u64, cpu_ms: u64, held: u64, want: &[&str]| {
            busy.store(cpu_ms, Ordering::SeqCst);
            memory.store(held, Ordering::SeqCst);
            let told: Vec<String> =
                guard.look(start + Duration::from_millis(millis), &meter).iter().map(text).collect();
            assert_eq!(told, want, "at {millis} ms");
        };
        check(999, 999, 99, &[]);
        check(1000, 800, 10, &[]);
        check(
            2000,
            1700,
            11,
            &[
                "`monitor.warn.memory` is 10 bytes, and 11 bytes were found",
                "`monitor.warn.cpu` is 80 %, and 90 % were found",
            ],
        );
        check(3000, 2700, 15, &[]);
        check(4000, 2700, 21, &["`monitor.kill.memory` is 20 bytes, and 21 bytes were found"]);
        assert!(Guard::start(start, &Monitor::default(), Duration::ZERO).is_none(), "nothing to watch for");
    }
}
