//! Making a session's processes stand still, or ending them, all of them, from outside.
//!
//! Answers to: `cell`. Must not: say that a session stands while a process of it goes on, or touch a process of another.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use ringfence_worker::status_field;
use rustix::process::{Pid, Signal, kill_process};

use crate::group::Group;
use crate::place::Member;

/// How long there may still be new processes, or some that do not stand: a signal takes hold of a process when that has
/// the processor next.
const PATIENCE: Duration = Duration::from_secs(3);

/// Stops every process of the session, whose first is this one; returns when all of them stand.
pub fn freeze(member: &Member, first: i32, group: Option<&Group>) -> io::Result<()> {
    match group {
        Some(group) if group.has_freezer() => group.freeze(),
        group => signal_all(|| of_session(member, first, group), Signal::STOP, true).map(drop),
    }
}

/// Lets them go on.
pub fn thaw(member: &Member, first: i32, group: Option<&Group>) -> io::Result<()> {
    match group {
        Some(group) if group.has_freezer() => group.thaw(),
        group => signal_all(|| of_session(member, first, group), Signal::CONT, false).map(drop),
    }
}

/// Ends what is the session's alone in a place that it shares.
pub fn end(member: &Member, first: i32, group: Option<&Group>) {
    match group {
        Some(group) => group.end(),
        // Each is to stand before the first of them ends: then none starts another, and none is nobody's.
        None => {
            let all = signal_all(|| member.processes(first), Signal::STOP, false);
            let all = all.or_else(|_| member.processes(first)).unwrap_or_default();
            all.into_iter().for_each(|pid| signal_one(pid, Signal::KILL));
        }
    }
}

fn of_session(member: &Member, first: i32, group: Option<&Group>) -> io::Result<BTreeSet<i32>> {
    group.map_or_else(|| member.processes(first), |group| Ok(group.processes().into_iter().collect()))
}

/// Where there is no freezer: one signal to each process, until there is none that does not have it. What stands
/// can't start another, or wake one.
fn signal_all(
    processes: impl Fn() -> io::Result<BTreeSet<i32>>,
    signal: Signal,
    until_they_stand: bool,
) -> io::Result<BTreeSet<i32>> {
    let mut known = BTreeSet::new();
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let there = processes()?;
        let is_done = there.iter().all(|pid| known.contains(pid) && (!until_they_stand || stands(*pid)));
        if is_done {
            return Ok(there);
        }
        there.iter().for_each(|pid| signal_one(*pid, signal));
        known = there;
        std::thread::yield_now();
    }
    Err(io::Error::other("its processes did not all stop in time"))
}

fn signal_one(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // One that is gone is as good as one that stands.
        let _ = kill_process(pid, signal);
    }
}

fn stands(pid: i32) -> bool {
    status_field(pid, "State:").is_none_or(|state| state.starts_with(['T', 't', 'Z', 'X']))
}
