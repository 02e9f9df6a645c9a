//! The same ending over and over: every count of the host's returns to where it was.
//!
//! Answers to: `kinds`. Must not: take what other programs of the machine do for a leak: only own counts are compared.

use std::time::{Duration, Instant};

use ringfence_types::{LimitKind, Source};
use serde_json::Value as Json;

use super::python::{open, run};
use crate::case::Case;
use crate::measure;
use crate::policy::Terms;
use crate::seen::Seen;
use crate::stage::Stage;

/// How long counts must stand still.
const REST: Duration = Duration::from_millis(150);
/// How long they are waited for.
const LONGEST_REST: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    processes: usize,
    descriptors: usize,
    folders: usize,
    mounts: usize,
    shared: usize,
    groups: usize,
    memory: u64,
}

impl Counts {
    fn now() -> Self {
        Self {
            processes: measure::descendants(),
            descriptors: measure::descriptors(),
            folders: measure::own_entries(&std::env::temp_dir().to_string_lossy()),
            mounts: measure::mounts(),
            shared: measure::own_entries("/dev/shm"),
            groups: measure::own_entries("/sys/fs/cgroup"),
            memory: measure::memory(),
        }
    }
}

/// The steps of the case, as often as it says.
pub async fn play(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let repeat = case.input.get("repeat").and_then(Json::as_u64).unwrap_or(1);
    let mut seen = Seen::default();
    // The first rounds warm the pool.
    round(stage, case, &mut seen, 5).await?;
    let before = at_rest().await;
    round(stage, case, &mut seen, repeat).await?;
    let after = at_rest().await;
    for what in grown(before, after) {
        seen.faults.push(format!("{what} did not return: {before:?} {after:?}"));
    }
    seen.verdicts.push(if seen.faults.is_empty() { "ok" } else { "grown" }.to_owned());
    Ok(seen)
}

async fn round(stage: &Stage, case: &Case, seen: &mut Seen, repeat: u64) -> Result<(), String> {
    for _ in 0..repeat {
        for step in case.list("steps") {
            let wall = step.get("wall").and_then(Json::as_f64).unwrap_or(1.0);
            let terms = Terms { wall_ms: (wall * 1000.0) as u64, ..Terms::of(case) };
            let code = step.get("run").and_then(Json::as_str).unwrap_or_default();
            let mut session = open(stage, &terms)?;
            let (outcome, ..) = run(stage, &mut session, Source::new(code)).await?;
            let struck = outcome.limit.map(|hit| hit.kind);
            if !matches!(struck, Some(LimitKind::Wall | LimitKind::Cpu)) {
                let told = format!("{} {:?} {:?}", outcome.status.as_str(), outcome.reason, outcome.exception);
                seen.faults.push(format!("the endless loop was not stopped by its limit: {told}"));
            }
        }
    }
    Ok(())
}

/// The counts once they stay as they are: a pool that is making a worker has one more or less of everything. Memory is
/// left out: it never stands still.
async fn at_rest() -> Counts {
    let still = |counts: Counts| Counts { memory: 0, ..counts };
    let end = Instant::now() + LONGEST_REST;
    let mut before = Counts::now();
    loop {
        tokio::time::sleep(REST).await;
        let now = Counts::now();
        if still(now) == still(before) || Instant::now() > end {
            return now;
        }
        before = now;
    }
}

/// What there is more of than before.
fn grown(before: Counts, after: Counts) -> Vec<&'static str> {
    // A little slack for threads' and allocators' own keeping.
    let room = before.memory / 10 + (8 << 20);
    let grown = [
        ("processes", after.processes > before.processes),
        ("descriptors", after.descriptors > before.descriptors),
        ("folders", after.folders > before.folders),
        ("mounts", after.mounts > before.mounts),
        ("shared memory", after.shared > before.shared),
        ("cgroups", after.groups > before.groups),
        ("memory", after.memory > before.memory + room),
    ];
    grown.into_iter().filter(|(_, grown)| *grown).map(|(what, _)| what).collect()
}
