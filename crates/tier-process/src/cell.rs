//! One cell: a session's frames, what its processes write for themselves, and handles on both.
//!
//! Answers to: `session`, through the trait `Cell`. Must not: believe a length, or block the runtime.
//! INVARIANT: all state of a half-sent or half-read frame is in the cell, so a dropped step loses nothing.

mod branch;

use std::fs::File;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_tier::{Boxed, Cell, Differ, Enforcement, Event, Forked, Freezer, Held, Killer, Meter, TierFault, Turn};
use ringfence_types::{Command, Io, LimitHit, LimitKind, Stream, TierName};
use ringfence_wire::Setup;
use ringfence_worker::{Frames, Gone, Process, Refill, Taken, disk_bytes, readable};

use crate::errand::{Door, Metered, Underway};
use crate::group::Group;
use crate::hold::Hold;
use crate::jail::Ready;
use crate::pool::AtWork;
use crate::{disk, freeze, way_out};

const TIER: TierName = TierName::Process;

/// What is read of a process's output at once.
const PIECE: usize = 64 << 10;

/// A session's processes.
#[derive(Debug)]
pub struct Inside {
    pub hold: Hold,
    pub interpreter: Process,
    pub door: Arc<Door>,
    group: Option<Group>,
    memory: u64,
    /// The most that was found of bytes from and to disks.
    read: AtomicU64,
    written: AtomicU64,
    /// What its commands use.
    commands: Mutex<Metered>,
}

impl Inside {
    fn cpu(&self) -> Duration {
        let alone = || self.interpreter.cpu() + self.commands().cpu();
        self.group.as_ref().and_then(Group::cpu).unwrap_or_else(alone)
    }

    fn peak(&self) -> u64 {
        let alone = || self.interpreter.peak().max(self.of_last_command(Process::peak));
        self.group.as_ref().and_then(Group::peak).unwrap_or_else(alone)
    }

    /// All of the session's processes by their group; without one, the interpreter and the command.
    fn held(&self) -> Held {
        let held = self.group.as_ref().and_then(Group::held).unwrap_or_else(|| {
            let command = self.of_last_command(|command| command.footprint().resident);
            let memory = self.interpreter.footprint().resident + command;
            Held { memory, processes: 1 + u32::from(command > 0), io: None }
        });
        Held { io: held.io.or_else(|| self.io()), ..held }
    }

    /// What the session's processes and those that are over read from and wrote to disks. A process that nobody of the
    /// session waited for takes its part with it, so the sum may be less than it was: then it stays.
    fn io(&self) -> Option<Io> {
        let own = self.interpreter.pid();
        let mut processes = self.group.as_ref().map(Group::processes).unwrap_or_default();
        if processes.is_empty() {
            let last = self.commands().last.as_ref().map(Process::pid);
            processes.extend([own].into_iter().chain(last));
        }
        let found: Vec<(u64, u64)> = processes.into_iter().filter_map(disk_bytes).collect();
        if found.is_empty() {
            return None;
        }
        let (read, written) = found.iter().fold((0, 0), |(read, written), one| (read + one.0, written + one.1));
        let kept = |most: &AtomicU64, now| most.fetch_max(now, Ordering::Relaxed).max(now);
        Some(Io { read: kept(&self.read, read), written: kept(&self.written, written) })
    }

    fn commands(&self) -> MutexGuard<'_, Metered> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_last_command(&self, read: impl Fn(&Process) -> u64) -> u64 {
        self.commands().last.as_ref().map_or(0, read)
    }

    /// Counts what a command uses from now on.
    pub fn meter(&self, command: Process) {
        self.commands().add(command);
    }

    /// Puts a command that has not begun where the session's processes are bounded.
    pub fn bound(&self, command: &Process) -> std::io::Result<()> {
        match &self.group {
            Some(group) => group.add(command.pid()),
            None => {
                command.limit_address_space(self.memory.saturating_add(crate::jail::SLACK));
                Ok(())
            }
        }
    }

    /// Ends all of it, also where it stands still.
    fn end(&self) {
        self.hold.kill(|member| {
            freeze::end(member, self.interpreter.pid(), self.group.as_ref());
            if let Some(command) = &self.commands().last {
                command.kill();
            }
        });
        if let Some(group) = &self.group {
            group.end_frozen();
        }
    }

    /// All of it stands still.
    fn freeze(&self) -> io::Result<()> {
        freeze::freeze(self.hold.as_member()?, self.interpreter.pid(), self.group.as_ref())
    }

    /// All of it goes on.
    fn thaw(&self) -> io::Result<()> {
        freeze::thaw(self.hold.as_member()?, self.interpreter.pid(), self.group.as_ref())
    }

    fn ran_out_of_memory(&self) -> bool {
        self.group.as_ref().is_some_and(Group::ran_out_of_memory)
    }
}

/// What the tier knows of a session beside its processes.
#[derive(Debug)]
pub struct Has {
    pub enforcement: Enforcement,
    pub differ: Option<Differ>,
    pub changes: Option<Arc<OwnedFd>>,
    pub at_work: AtWork,
}

#[derive(Debug)]
pub struct ProcessCell {
    frames: Frames,
    outputs: [Output; 2],
    inside: Arc<Inside>,
    errand: Errand,
    /// Pipes of commands that are over, which something that they started may still write to.
    left: Vec<Output>,
    enforcement: Enforcement,
    differ: Option<Differ>,
    /// What takes its changes in copy-on-write mounts.
    changes: Option<Arc<OwnedFd>>,
    /// Until the way out was opened.
    line: Option<OwnedFd>,
    /// The next session is forked when this one is gone; `None` where it was not taken from the line.
    _refill: Option<Refill>,
    /// Its jail goes on as long as it does.
    at_work: AtWork,
}

impl ProcessCell {
    /// Takes a session that is ready.
    pub fn open(ready: Ready, refill: Refill, setup: &Setup, has: Has) -> Self {
        let Ready { socket, outputs: [out, err], hold, interpreter, group, line, changes: _, door } = ready;
        let Has { enforcement, differ, changes, at_work } = has;
        let commands = Mutex::default();
        let (read, written) = <(AtomicU64, AtomicU64)>::default();
        let inside = Inside { hold, interpreter, door, group, memory: setup.memory, read, written, commands };
        Self {
            frames: Frames::new(TIER, socket, setup),
            outputs: [Output::new(Stream::Stdout, out), Output::new(Stream::Stderr, err)],
            inside: Arc::new(inside),
            errand: Errand::None,
            left: Vec::new(),
            enforcement,
            differ,
            changes,
            line,
            _refill: Some(refill),
            at_work,
        }
    }

    async fn next(&mut self, turn: Turn) -> Result<Event, TierFault> {
        match turn {
            Turn::Exec(command) => self.errand = Errand::Asked(command),
            turn => self.frames.give(turn),
        }
        loop {
            // A process has written what it wrote before the frame that tells of its end.
            if let Some(print) = self.outputs.iter_mut().chain(&mut self.left).find_map(Output::take) {
                return Ok(print);
            }
            if self.has_command() {
                match self.command()? {
                    Some(event) => return Ok(self.unless_out_of_memory(event)),
                    None => self.wait_for_command().await,
                }
                continue;
            }
            match self.frames.take()? {
                Some(Taken::Event(event)) => return Ok(self.unless_out_of_memory(event)),
                Some(Taken::Sync) => self.frames.synced(),
                Some(Taken::Branched(_)) => return Err(self.frames.broke("it was not asked to fork")),
                // It has just said that it is locked.
                None if self.has_command() => {}
                None => match self.wait().await {
                    Ok(()) => {}
                    Err(Gone) => return self.last_words(),
                },
            }
        }
    }

    fn has_command(&self) -> bool {
        !matches!(self.errand, Errand::None) && self.frames.has_greeted()
    }

    /// The command under way: begun where it was not yet, and what came of it. What the interpreter says meanwhile
    /// waits for the next snippet.
    fn command(&mut self) -> Result<Option<Event>, TierFault> {
        if let Errand::Asked(command) = &self.errand {
            let begun = Underway::begin(command, &self.inside);
            self.errand = Errand::Underway(begun.map_err(|why| TierFault::Open { tier: TIER, why: why.0 })?);
        }
        let Errand::Underway(underway) = &mut self.errand else { return Ok(None) };
        let event = underway.next(&self.inside)?;
        if event.as_ref().is_some_and(|event| !matches!(event, Event::Print(..)))
            && let Errand::Underway(over) = std::mem::replace(&mut self.errand, Errand::None)
        {
            self.left.retain(|output| output.pipe.is_some());
            self.left.extend(over.into_outputs());
        }
        Ok(event)
    }

    async fn wait_for_command(&self) {
        let [out, err] = &self.outputs;
        let Errand::Underway(underway) = &self.errand else { return };
        tokio::select! {
            biased;
            () = underway.more() => {}
            () = out.ready() => {}
            () = err.ready() => {}
        }
    }

    /// Waits until there is more of anything.
    async fn wait(&mut self) -> Result<(), Gone> {
        let [out, err] = &self.outputs;
        tokio::select! {
            biased;
            more = self.frames.more() => more,
            () = out.ready() => Ok(()),
            () = err.ready() => Ok(()),
        }
    }

    /// A program may survive the end of a process of its own, and yet it went over its limit.
    fn unless_out_of_memory(&self, event: Event) -> Event {
        let ends = matches!(event, Event::Done(_) | Event::NoValue(_) | Event::Raised(_) | Event::Exited(_));
        let over = ends && (self.inside.ran_out_of_memory() || self.was_refused_memory(&event));
        if over { self.over_memory() } else { event }
    }

    /// Without a group it is the limit on its address space that a program meets, and Python says so by this exception.
    fn was_refused_memory(&self, event: &Event) -> bool {
        self.inside.group.is_none() && matches!(event, Event::Raised(raised) if raised.kind == "MemoryError")
    }

    fn over_memory(&self) -> Event {
        Event::Limit(LimitKind::Memory, self.inside.peak().max(self.inside.memory))
    }

    fn last_words(&mut self) -> Result<Event, TierFault> {
        if let Some(print) = self.outputs.iter_mut().find_map(Output::take) {
            return Ok(print);
        }
        if self.inside.hold.is_killed() {
            return Err(TierFault::Killed { tier: TIER });
        }
        if self.inside.ran_out_of_memory() { Ok(self.over_memory()) } else { Err(TierFault::Died { tier: TIER }) }
    }
}

/// A command of this session.
#[derive(Debug)]
enum Errand {
    None,
    /// It is begun as soon as the session has said that it is locked.
    Asked(Command),
    Underway(Underway),
}

/// What a session's processes write to one stream without frames.
#[derive(Debug)]
pub struct Output {
    stream: Stream,
    /// `None` once nobody holds the other end.
    pipe: Option<File>,
}

impl Output {
    pub fn new(stream: Stream, pipe: std::os::fd::OwnedFd) -> Self {
        Self { stream, pipe: Some(pipe.into()) }
    }

    pub fn take(&mut self) -> Option<Event> {
        let mut few = [0; 4 << 10];
        let mut pipe = self.pipe.as_ref()?;
        match pipe.read(&mut few) {
            Ok(0) => self.pipe = None,
            Ok(count) => return Some(self.with_more(few.get(..count).unwrap_or_default().to_vec())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = None,
        }
        None
    }

    fn with_more(&self, mut bytes: Vec<u8>) -> Event {
        if let (Some(mut pipe), 4096) = (self.pipe.as_ref(), bytes.len()) {
            let mut many = vec![0; PIECE];
            let count = pipe.read(&mut many).unwrap_or_default();
            bytes.extend_from_slice(many.get(..count).unwrap_or_default());
        }
        Event::Print(self.stream, bytes)
    }

    pub async fn ready(&self) {
        match &self.pipe {
            Some(pipe) if readable(pipe.as_fd()).await.is_ok() => {}
            _ => std::future::pending().await,
        }
    }
}

impl ProcessCell {
    async fn open_way_out(&mut self, trusted: String) -> Result<Option<TcpListener>, TierFault> {
        let Some(line) = self.line.take() else { return Ok(None) };
        let asked = tokio::task::spawn_blocking(move || way_out::open(line, &trusted)).await;
        let opened = asked.unwrap_or_else(|error| Err(io::Error::other(error)));
        opened.map(Some).map_err(|error| TierFault::Open { tier: TIER, why: format!("no way out: {error}") })
    }
}

impl Cell for ProcessCell {
    fn step(&mut self, turn: Turn) -> Boxed<'_, Result<Event, TierFault>> {
        Box::pin(self.next(turn))
    }

    fn way_out(&mut self, trusted: String) -> Boxed<'_, Result<Option<TcpListener>, TierFault>> {
        Box::pin(self.open_way_out(trusted))
    }

    fn fork(&mut self, count: u32) -> Boxed<'_, Result<Forked, TierFault>> {
        Box::pin(self.fork_into(count))
    }

    fn enforced(&self) -> &Enforcement {
        &self.enforcement
    }

    fn differ(&self) -> Option<Differ> {
        self.differ.clone()
    }

    fn killer(&self) -> Killer {
        let inside = Arc::clone(&self.inside);
        Killer::new(move || inside.end())
    }

    fn short_of(&self) -> Option<(LimitHit, String)> {
        // Without namespaces what it writes to is the host's own.
        self.inside.hold.place()?;
        disk::short_of(self.inside.interpreter.pid(), self.changes.as_ref().map(AsFd::as_fd))
    }

    fn freezer(&self) -> Option<Freezer> {
        self.inside.hold.place()?;
        let (one, other) = (Arc::clone(&self.inside), Arc::clone(&self.inside));
        Some(Freezer::new(move || one.freeze(), move || other.thaw()))
    }

    fn meter(&self) -> Meter {
        let (cpu, peak) = (Arc::clone(&self.inside), Arc::clone(&self.inside));
        let now = Arc::clone(&self.inside);
        Meter::new(move || cpu.cpu(), move || peak.peak()).holding(move || now.held())
    }
}

impl Drop for ProcessCell {
    fn drop(&mut self) {
        self.inside.end();
    }
}
