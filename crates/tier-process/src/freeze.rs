//! Making a session's processes stand still, all of them, from outside.
//!
//! Answers to: `cell`. Must not: say that a session stands while a process of it goes on, or touch a process of another.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;

use ringfence_worker::{Process, status_field};
use rustix::process::{Pid, Signal, kill_process};

use crate::group::Group;

/// Rounds in which there may still be new processes: each round stops all that are there.
const ROUNDS: usize = 200;

/// Stops every process of the session; returns when all of them stand.
pub fn freeze(place: &Process, group: Option<&Group>) -> io::Result<()> {
    match group {
        Some(group) => group.freeze(),
        None => signal_all(place, Signal::STOP),
    }
}

/// Lets them go on.
pub fn thaw(place: &Process, group: Option<&Group>) -> io::Result<()> {
    match group {
        Some(group) => group.thaw(),
        None => signal_all(place, Signal::CONT),
    }
}

/// Where there are no control groups: one signal to each process of the place's namespace, until there is none that
/// does not have it. What stands can't start another, or wake one.
fn signal_all(place: &Process, signal: Signal) -> io::Result<()> {
    let mut known = BTreeSet::new();
    for _ in 0..ROUNDS {
        let there = inside(place)?;
        let is_done = there.iter().all(|pid| known.contains(pid) && (signal != Signal::STOP || stands(*pid)));
        if is_done {
            return Ok(());
        }
        for pid in there.iter().copied() {
            if let Some(pid) = Pid::from_raw(pid) {
                // One that is gone is as good as one that stands.
                let _ = kill_process(pid, signal);
            }
        }
        known = there;
        std::thread::yield_now();
    }
    Err(io::Error::other("it starts processes faster than they can be stopped"))
}

/// The processes in the place's process namespace, without the place itself, which only rests.
fn inside(place: &Process) -> io::Result<BTreeSet<i32>> {
    let namespace = |pid: i32| std::fs::metadata(format!("/proc/{pid}/ns/pid")).map(|found| (found.dev(), found.ino()));
    let own = namespace(place.pid())?;
    let numbers = std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.filter(|pid| *pid != place.pid() && namespace(*pid).is_ok_and(|found| found == own)).collect())
}

fn stands(pid: i32) -> bool {
    status_field(pid, "State:").is_none_or(|state| state.starts_with(['T', 't', 'Z', 'X']))
}
