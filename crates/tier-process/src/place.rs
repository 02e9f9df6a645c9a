//! A place and the sessions in it: one, until it is forked. Whoever is the last ends the place, and with it all that is
//! left in it.
//!
//! Answers to: `hold`, `freeze` and `cell`. Must not: end or stop a process that belongs to another session of the place.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_worker::Process;

/// Process 1 of namespaces, and who is in them.
#[derive(Debug)]
struct Place {
    process: Process,
    sessions: Mutex<Sessions>,
}

/// First processes of the sessions by the number of each.
#[derive(Debug, Default)]
struct Sessions {
    first: BTreeMap<u32, Option<i32>>,
    next: u32,
}

/// One session's part in a place.
#[derive(Debug)]
pub struct Member {
    place: Arc<Place>,
    number: u32,
    ended: AtomicBool,
}

impl Place {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, first: Option<i32>) -> Member {
        let mut sessions = self.sessions();
        let number = sessions.next;
        sessions.next += 1;
        sessions.first.insert(number, first);
        Member { place: Arc::clone(self), number, ended: AtomicBool::new(false) }
    }
}

impl Member {
    /// The only one in a fresh place.
    pub fn alone(process: Process) -> Self {
        Arc::new(Place { process, sessions: Mutex::default() }).add(None)
    }

    /// Another one, whose first process is this; `None` where some session of the place has it already.
    pub fn another(&self, own_first: i32, first: i32) -> Option<Self> {
        let mut sessions = self.place.sessions();
        sessions.first.insert(self.number, Some(own_first));
        let is_taken = first == self.place.process.pid() || sessions.first.values().any(|known| *known == Some(first));
        drop(sessions);
        (!is_taken).then(|| self.place.add(Some(first)))
    }

    /// The place's process.
    pub fn place(&self) -> &Process {
        &self.place.process
    }

    /// Ends it: all of the place where it is the last, else what `own` ends.
    pub fn end(&self, own: impl FnOnce(&Self)) {
        self.ended.store(true, Ordering::Relaxed);
        let is_last = {
            let mut sessions = self.place.sessions();
            sessions.first.remove(&self.number);
            sessions.first.is_empty()
        };
        if is_last { self.place.process.kill() } else { own(self) }
    }

    /// Whether it was ended from here.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Whether this process is in the place.
    pub fn holds(&self, pid: i32) -> bool {
        let own = namespace(self.place.process.pid());
        own.is_ok_and(|own| namespace(pid).is_ok_and(|found| found == own))
    }

    /// Its processes, where there are no control groups: all of the place while it is alone; else those that came from
    /// `first`, its first process, or stayed in the process session that it began.
    pub fn processes(&self, first: i32) -> io::Result<BTreeSet<i32>> {
        let all = inside(self.place.process.pid())?;
        let firsts: BTreeSet<i32> = {
            let sessions = self.place.sessions();
            let others = sessions.first.iter().filter(|(number, _)| **number != self.number);
            others.filter_map(|(_, first)| *first).collect()
        };
        if firsts.is_empty() && !self.is_ended() {
            return Ok(all);
        }
        let kin: BTreeMap<i32, Kin> = all.iter().filter_map(|pid| Some((*pid, kin_of(*pid)?))).collect();
        Ok(kin.keys().copied().filter(|pid| owner(*pid, &kin, first, &firsts) == Some(first)).collect())
    }
}

impl Drop for Member {
    /// The place ends with the last of them, whoever held it.
    fn drop(&mut self) {
        self.place.sessions().first.remove(&self.number);
    }
}

/// Where a process comes from.
struct Kin {
    parent: i32,
    session: i32,
}

/// The first process that this one came from, nearest first.
fn owner(pid: i32, kin: &BTreeMap<i32, Kin>, own: i32, others: &BTreeSet<i32>) -> Option<i32> {
    let is_first = |pid: i32| pid == own || others.contains(&pid);
    let mut at = pid;
    // No chain is longer than there are processes.
    for _ in 0..=kin.len() {
        if is_first(at) {
            return Some(at);
        }
        match kin.get(&at) {
            Some(found) => at = found.parent,
            None => break,
        }
    }
    kin.get(&pid).map(|found| found.session).filter(|session| is_first(*session))
}

fn kin_of(pid: i32) -> Option<Kin> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, brackets too.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Kin { parent, session })
}

fn namespace(pid: i32) -> io::Result<(u64, u64)> {
    std::fs::metadata(format!("/proc/{pid}/ns/pid")).map(|found| (found.dev(), found.ino()))
}

/// The processes in the place's process namespace, without the place itself, which only rests.
fn inside(place: i32) -> io::Result<BTreeSet<i32>> {
    let own = namespace(place)?;
    let numbers = std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.filter(|pid| *pid != place && namespace(*pid).is_ok_and(|found| found == own)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_the_nearest_session_that_it_came_from() {
        let rows = [(10, 1, 10), (11, 10, 10), (20, 1, 20), (21, 20, 21), (22, 21, 22), (30, 1, 20), (31, 1, 31)];
        let kin = rows.map(|(pid, parent, session)| (pid, Kin { parent, session })).into();
        let owners = rows.map(|(pid, ..)| owner(pid, &kin, 10, &BTreeSet::from([20])).unwrap_or_default());
        assert_eq!(owners, [10, 10, 20, 20, 20, 20, 0]);
    }
}
