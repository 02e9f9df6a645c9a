//! Branches of a session: its interpreter forks, and each process it forks becomes a cell of its own in the same place.
//!
//! Answers to: `cell`. Must not: believe the session which process a branch is, or let a branch go on before it is in a
//! control group of its own, where there are groups.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use ringfence_tier::{Cell, Enforced, Enforcement, EnforcementLine, Event, Forked, TierFault};
use ringfence_types::{Stream, ValueBudget};
use ringfence_wire::{FromGuest, HEADER, Header, VERSION, from_guest, from_guest_cap};
use ringfence_worker::{Frames, Greeting, Process, Taken, greeting, readable, tell_senders};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Errand, Inside, Output, ProcessCell, TIER};
use crate::hold::Hold;
use crate::place::Member;

/// The host's ends of what a branch speaks on.
struct Ends {
    socket: UnixStream,
    outputs: [OwnedFd; 2],
}

/// Why there are no branches.
enum NoBranch {
    /// The session goes on.
    Refused(String),
    Fault(TierFault),
}

impl From<TierFault> for NoBranch {
    fn from(fault: TierFault) -> Self {
        Self::Fault(fault)
    }
}
impl From<io::Error> for NoBranch {
    fn from(error: io::Error) -> Self {
        Self::Refused(format!("the host has nothing to give it: {error}"))
    }
}

impl ProcessCell {
    /// All of the branches, or none: those that were forked already end when the host lets go of them.
    pub(super) async fn fork_into(&mut self, count: u32) -> Result<Forked, TierFault> {
        match self.branches(count).await {
            Ok(cells) => Ok(Forked::Cells(cells)),
            Err(NoBranch::Refused(why)) => Ok(Forked::Refused(why)),
            Err(NoBranch::Fault(fault)) => Err(fault),
        }
    }

    async fn branches(&mut self, count: u32) -> Result<Vec<Box<dyn Cell>>, NoBranch> {
        if self.inside.hold.member().is_none() {
            return Err(NoBranch::Refused("forking a session needs namespaces, which can't be made here".to_owned()));
        }
        self.frames.ask_to_fork(count);
        let mut ready: Vec<Self> = Vec::new();
        let mut lent: Option<Ends> = None;
        loop {
            let made = self.answer().await?;
            // Put where it is bounded at once: until then it counts for the session.
            if let Some(ends) = lent.take() {
                match self.received(ends).await {
                    Ok(cell) => ready.push(cell),
                    Err(NoBranch::Refused(why)) => return Err(self.give_up(made == count, why).await),
                    Err(fault) => return Err(fault),
                }
            }
            if u32::try_from(ready.len()).is_ok_and(|asked| made != asked || made > count) {
                return Err(self.frames.broke("it forked another number than it was asked to").into());
            }
            if made == count {
                break;
            }
            lent = Some(self.lend().await?);
        }
        self.part()?;
        ready.iter_mut().for_each(|cell: &mut Self| cell.frames.let_begin());
        Ok(ready.into_iter().map(|cell| Box::new(cell) as Box<dyn Cell>).collect())
    }

    /// One did not begin: the session, which waits for what comes next, hears that there will be no more.
    async fn give_up(&mut self, was_last: bool, why: String) -> NoBranch {
        if self.inside.ran_out_of_memory() {
            return self.end_while_forking().into();
        }
        let told = if was_last {
            self.part()
        } else {
            match self.frames.lend(&[]) {
                Ok(()) => self.answer().await.map(drop),
                Err(_) => Err(self.end_while_forking().into()),
            }
        };
        match told {
            Ok(()) | Err(NoBranch::Refused(_)) => NoBranch::Refused(why),
            Err(fault) => fault,
        }
    }

    /// Goes on by a socket that no branch has, before any of them begins.
    fn part(&mut self) -> Result<(), NoBranch> {
        let unsent = |error: io::Error| TierFault::Open { tier: TIER, why: format!("its next socket: {error}") };
        let (ours, theirs) = UnixStream::pair().map_err(unsent)?;
        ours.set_nonblocking(true).map_err(unsent)?;
        self.frames.lend(&[theirs.as_fd()]).map_err(|_| self.end_while_forking())?;
        self.frames.move_to(ours);
        Ok(())
    }

    /// How many processes it says that it has forked.
    async fn answer(&mut self) -> Result<u32, NoBranch> {
        loop {
            match self.frames.take()? {
                Some(Taken::Branched(made)) => return Ok(made),
                Some(Taken::Event(Event::Unsupported(why, _))) => return Err(NoBranch::Refused(plain(&why))),
                Some(_) => return Err(self.frames.broke("it answered a fork with something else").into()),
                None => {}
            }
            if self.frames.more().await.is_err() {
                return Err(self.end_while_forking().into());
            }
        }
    }

    fn end_while_forking(&self) -> TierFault {
        if self.inside.hold.is_killed() {
            TierFault::Killed { tier: TIER }
        } else if self.inside.ran_out_of_memory() {
            let why = "it ran out of memory while it forked; each branch takes some MiB of the session's \
                       `limits.memory`: raise it, or ask for fewer";
            TierFault::Open { tier: TIER, why: why.to_owned() }
        } else {
            TierFault::Died { tier: TIER }
        }
    }

    /// Gives the session what its next branch speaks on. It waits for that, and has to be told where there is nothing.
    async fn lend(&mut self) -> Result<Ends, NoBranch> {
        match pair() {
            Ok((ends, given)) => {
                let given: Vec<_> = given.iter().map(AsFd::as_fd).collect();
                self.frames.lend(&given).map_err(|_| self.end_while_forking())?;
                Ok(ends)
            }
            Err(error) => {
                self.frames.lend(&[]).map_err(|_| self.end_while_forking())?;
                self.answer().await?;
                Err(error.into())
            }
        }
    }

    /// The branch that has said that it is there, put where it is bounded. It waits for leave.
    async fn received(&self, ends: Ends) -> Result<Self, NoBranch> {
        let Greeting { bytes, sender } = loop {
            if let Some(greeting) = greeting(&ends.socket)? {
                break greeting;
            }
            readable(ends.socket.as_fd()).await?;
        };
        if bytes != FromGuest::Ready(VERSION).encode() {
            return Err(NoBranch::Refused(reason_in(&bytes)));
        }
        let (member, process) = sender
            .and_then(|pid| self.process(pid))
            .ok_or_else(|| self.frames.broke("a branch is no process of the session's that could be one"))?;
        let group = match &self.inside.group {
            None => None,
            Some(group) => group.another()?,
        };
        if let Some(group) = &group {
            group.add(process.pid())?;
        }
        tell_senders(&ends.socket, false)?;
        process.idle_at(process.footprint());
        Ok(self.branch(ends, member, process, group))
    }

    /// The kernel says which process spoke. It has to be in the session's place, and nobody's first process.
    fn process(&self, pid: i32) -> Option<(Member, Process)> {
        let own = self.inside.hold.member()?;
        let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let is_bounded = self.inside.group.as_ref().is_none_or(|group| group.processes().contains(&pid));
        if !own.holds(pid) || !is_bounded {
            return None;
        }
        Some((own.another(self.inside.interpreter.pid(), pid)?, Process::new(handle, pid)))
    }

    fn branch(&self, ends: Ends, member: Member, interpreter: Process, group: Option<crate::group::Group>) -> Self {
        let Ends { socket, outputs: [out, err] } = ends;
        let enforcement = shared(&self.enforcement, group.is_some());
        let (read, written) = <(AtomicU64, AtomicU64)>::default();
        let inside = Inside {
            hold: Hold::Place(member),
            interpreter,
            door: Arc::clone(&self.inside.door),
            group,
            memory: self.inside.memory,
            read,
            written,
            commands: Mutex::default(),
        };
        Self {
            frames: Frames::of_branch(TIER, socket),
            outputs: [Output::new(Stream::Stdout, out), Output::new(Stream::Stderr, err)],
            inside: Arc::new(inside),
            errand: Errand::None,
            left: Vec::new(),
            enforcement,
            differ: self.differ.clone(),
            changes: self.changes.clone(),
            line: None,
            _refill: None,
            at_work: self.at_work.clone(),
        }
    }
}

/// What a branch speaks on: the host's ends, and those of the branch.
fn pair() -> io::Result<(Ends, [OwnedFd; 3])> {
    let (socket, theirs) = UnixStream::pair()?;
    socket.set_nonblocking(true)?;
    tell_senders(&socket, true)?;
    let (out, out_end) = pipe_with(PipeFlags::CLOEXEC)?;
    let (err, err_end) = pipe_with(PipeFlags::CLOEXEC)?;
    for end in [&out, &err] {
        rustix::io::ioctl_fionbio(end, true)?;
    }
    Ok((Ends { socket, outputs: [out, err] }, [theirs.into(), out_end, err_end]))
}

/// What holds in a branch: all that held before, and what it shares.
fn shared(before: &Enforcement, grouped: bool) -> Enforcement {
    let mut enforcement = before.clone();
    enforcement.lines.retain(|line| line.what != OTHERS);
    let partial = |why: &str| Enforced::Partial(why.to_owned());
    if !grouped {
        for line in enforcement.lines.iter_mut().filter(|line| line.what == "processes") {
            line.level = partial("counted together with the other branches: no control groups");
        }
    }
    let level = partial("files and the numbers of processes are shared with the session that it was forked from");
    enforcement.lines.push(EnforcementLine { what: OTHERS, level });
    enforcement
}

const OTHERS: &str = "other branches";

/// Why a branch did not begin, as it says.
fn reason_in(bytes: &[u8]) -> String {
    let header = bytes.first_chunk::<HEADER>().and_then(|header| Header::parse(*header, from_guest_cap).ok());
    let body = bytes.get(HEADER..).unwrap_or_default();
    match header.map(|header| from_guest(header.kind, body, ValueBudget::DEFAULT)) {
        Some(Ok(FromGuest::Unsupported(why, _))) => plain(&why),
        _ => "a branch ended before it began".to_owned(),
    }
}

/// Guest text in one line.
fn plain(why: &str) -> String {
    why.chars().filter(|c| !c.is_control()).take(300).collect()
}
