//! The seam of every isolation tier: what a tier must do, the turns it is given and the events it reports.
//!
//! Answers to: `session`, which drives cells, and the `tier-*` crates, which are cells. Must not: hold an
//! implementation. INVARIANT: a tier reports host-function calls; it never executes one.
#![forbid(unsafe_code)]

mod capability;
mod enforcement;
mod fault;

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::Grant;
use ringfence_types::{
    Call, CallId, Changes, Command, Engine, FileFault, FileOp, FileReply, GuestError, GuestException, GuestPath, Io,
    LimitHit, LimitKind, MimeBundle, Source, Stream, TierName, Value,
};

pub use capability::{Capabilities, EngineInfo, InnerLimit, Probe};
pub use enforcement::{Enforced, Enforcement, EnforcementLine};
pub use fault::TierFault;

/// A future in a box, so that the traits can be used as objects.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How long a tier may take to open a cell.
pub const OPEN_PATIENCE: Duration = Duration::from_secs(30);

/// A kind of isolation on this machine.
pub trait Tier: Send + Sync {
    /// Its name in policies.
    fn name(&self) -> TierName;

    /// What it can do, declared and constant.
    fn capabilities(&self) -> &Capabilities;

    /// What of that it can do on this machine: all of it, unless the last probe found otherwise. Never more.
    fn here(&self) -> &Capabilities {
        self.capabilities()
    }

    /// Whether it works here. Really tries; never assumes.
    fn probe(&self) -> Boxed<'_, Probe>;

    /// Gets cells ready ahead of need, where the tier can. Does not wait.
    fn warm_up(&self) {}

    /// What a program that imports `packages` (top-level names outside of the standard library, those under `try` left
    /// out) would not find in a cell of this grant, in one line: "package `numpy` is not in the interpreter `…`". Asked
    /// after the probe, of tiers without engines only; what an engine lacks, the analysis of the program knows.
    fn missing<'a>(&'a self, grant: &'a Grant, packages: &'a [&'a str]) -> Boxed<'a, Option<String>>;

    /// One isolated place for one session, warm for `engine` where the tier has several. A used cell is never handed
    /// out again. The future may be dropped while it waits, by a kill or after [`OPEN_PATIENCE`]: whatever it started
    /// must end with it.
    fn open<'a>(&'a self, grant: &'a Grant, engine: Option<Engine>) -> Boxed<'a, Result<Box<dyn Cell>, TierFault>>;
}

/// One isolated place, from open to drop. Dropping it destroys it.
pub trait Cell: Send {
    /// Gives the cell a turn and waits for what comes of it. Safe to drop while it waits: nothing is lost, and the
    /// next step goes on where it left off.
    ///
    /// Which event may follow which turn; any other breaks the protocol, and the cell is not trusted any more:
    ///
    /// | turn | events |
    /// | --- | --- |
    /// | `Feed`, `Answer`, `Continue` | `Call`, `Await`, `Print`, `Shown`, and one end: `Done`, `NoValue`, `Raised`, `Limit`, `Unsupported` |
    /// | `Snapshot` between snippets | `Snapshotted`, `Unsupported`: the cell goes on |
    /// | `Snapshot` in place of an answer | `Snapshotted`: the run is over; `Unsupported`: it ends so |
    /// | `Restore` between snippets | `Restored`, `Unsupported`: the cell goes on |
    /// | `Restore` of a run | as `Feed` |
    /// | `Files` | `Filed`, `Unsupported`: the cell goes on |
    /// | `Exec` | `Print`, and one end: `Exited`, `Limit`, `Unsupported`; given only where [`Capabilities::commands`] says so |
    fn step(&mut self, turn: Turn) -> Boxed<'_, Result<Event, TierFault>>;

    /// Opens the cell's way out, once, before its first turn: whatever its programs send to their proxy comes in at this
    /// listener, which no process of the cell holds, and `trusted`, certificates in PEM, is what they trust. `None`: it
    /// has none, and no other way to anywhere either. Asked where the grant has some network, and the tier
    /// [`Capabilities::network`].
    fn way_out(&mut self, _trusted: String) -> Boxed<'_, Result<Option<TcpListener>, TierFault>> {
        Box::pin(async { Ok(None) })
    }

    /// Forks the cell between two snippets: so many more cells, each with all of its state, which go on apart from it and
    /// from each other. Asked of tiers that have [`Capabilities::fork`]. A future that is dropped leaves a cell that is
    /// not to be used any more.
    fn fork(&mut self, _count: u32) -> Boxed<'_, Result<Forked, TierFault>> {
        Box::pin(async { Ok(Forked::Refused("its tier can't fork a session".to_owned())) })
    }

    /// What really holds here, line by line.
    fn enforced(&self) -> &Enforcement;

    /// Ends the cell from any thread, also while `step` is waiting.
    fn killer(&self) -> Killer;

    /// Reads what the cell changes in the copy-on-write mounts of its grant; `None` where it has none. Asked of tiers that
    /// have [`Capabilities::mounts_cow`].
    fn differ(&self) -> Option<Differ> {
        None
    }

    /// A limit that the cell has reached now and that its programs learn of by an exception, such as a full disk; and
    /// what is full, in one line. Found by the host.
    fn short_of(&self) -> Option<(LimitHit, String)> {
        None
    }

    /// Makes the cell stand still and go on, from any thread; `None` where it can't. Asked of tiers that have
    /// [`Capabilities::freeze`].
    fn freezer(&self) -> Option<Freezer> {
        None
    }

    /// Reads what the cell uses, from any thread, also while `step` is waiting.
    fn meter(&self) -> Meter;
}

/// What the host does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Run this snippet.
    Feed(Source),
    /// Run this command, between snippets. A session's interpreter has no part in it.
    Exec(Command),
    /// The answer to a call.
    Answer(CallId, Result<Value, GuestError>),
    /// Nothing new: go on to the next event.
    Continue,
    /// Write the state down, between snippets or in place of an answer.
    Snapshot,
    /// Take up a state.
    Restore(Engine, Vec<u8>),
    /// An operation on the cell's files.
    Files(FileOp),
}

/// What the cell reports. Everything in it comes from the guest and is not trusted.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The guest calls a host function.
    Call(Call),
    /// The guest can't go on before one of these deferred calls is answered.
    Await(Vec<CallId>),
    /// Output.
    Print(Stream, Vec<u8>),
    /// A rich result.
    Shown(MimeBundle),
    /// The snippet ran to its end.
    Done(Value),
    /// The snippet ran to its end; its value can't cross, and why.
    NoValue(String),
    /// The snippet raised.
    Raised(GuestException),
    /// The command ended: its exit code, or 128 and the number of the signal that ended it.
    Exited(i32),
    /// A limit struck inside the cell, and what was reached. Only one of [`Capabilities::inner_limits`], which also says
    /// whether the cell is gone.
    Limit(LimitKind, u64),
    /// The tier can't do something the snippet needs: what, and the line.
    Unsupported(String, Option<u32>),
    /// The state, written down.
    Snapshotted(Vec<u8>),
    /// A state was taken up, and no snippet is under way.
    Restored,
    /// The answer to an operation on files.
    Filed(FileReply),
}

/// What came of forking a cell.
pub enum Forked {
    /// As many as were asked for.
    Cells(Vec<Box<dyn Cell>>),
    /// None, and why in one line; the cell goes on.
    Refused(String),
}

impl fmt::Debug for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cells(cells) => write!(f, "Cells({})", cells.len()),
            Self::Refused(why) => write!(f, "Refused({why:?})"),
        }
    }
}

/// Ends one cell. Cloneable; harmless where the cell is gone.
#[derive(Clone)]
pub struct Killer(Arc<dyn Fn() + Send + Sync>);

impl Killer {
    /// A killer that runs `kill`, which must not block.
    pub fn new(kill: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(kill))
    }
    /// Ends the cell now.
    pub fn kill(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Killer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Killer")
    }
}

/// Reads what a cell changed in its copy-on-write mounts, from any thread, also while it runs and when it is gone.
/// Cloneable; the changes stay until the last clone is dropped. Both calls block.
#[derive(Clone)]
pub struct Differ {
    changes: Arc<dyn Fn() -> io::Result<Changes> + Send + Sync>,
    file: Arc<OpenFile>,
}

type OpenFile = dyn Fn(&GuestPath) -> Result<File, FileFault> + Send + Sync;

impl Differ {
    /// One that finds the changes by `changes`, and opens an added or changed file by `file`. Both are bounded.
    pub fn new(
        changes: impl Fn() -> io::Result<Changes> + Send + Sync + 'static,
        file: impl Fn(&GuestPath) -> Result<File, FileFault> + Send + Sync + 'static,
    ) -> Self {
        Self { changes: Arc::new(changes), file: Arc::new(file) }
    }
    /// What is not as it is on the host. Fails where the host can't look.
    pub fn changes(&self) -> io::Result<Changes> {
        (self.changes)()
    }
    /// An added or changed file, to be read. It is an ordinary one, and may still grow while the cell runs.
    pub fn file(&self, path: &GuestPath) -> Result<File, FileFault> {
        (self.file)(path)
    }
}

impl fmt::Debug for Differ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Differ")
    }
}

/// Makes one cell stand still: none of its processes uses the processor before it is thawed. A kill works all the same.
/// Cloneable; harmless where the cell is gone. Both calls block for moments.
#[derive(Clone)]
pub struct Freezer {
    freeze: Arc<dyn Fn() -> io::Result<()> + Send + Sync>,
    thaw: Arc<dyn Fn() -> io::Result<()> + Send + Sync>,
}

impl Freezer {
    /// One that stops every process of the cell by `freeze`, which returns when all of them stand, and lets them go on by
    /// `thaw`.
    pub fn new(
        freeze: impl Fn() -> io::Result<()> + Send + Sync + 'static,
        thaw: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { freeze: Arc::new(freeze), thaw: Arc::new(thaw) }
    }
    /// Makes it stand still.
    pub fn freeze(&self) -> io::Result<()> {
        (self.freeze)()
    }
    /// Lets it go on.
    pub fn thaw(&self) -> io::Result<()> {
        (self.thaw)()
    }
}

impl fmt::Debug for Freezer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Freezer")
    }
}

/// What a cell has used since it was opened, read by the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellUsage {
    /// Processor time.
    pub cpu: Duration,
    /// Highest resident memory above that of an empty cell, in bytes.
    pub peak_memory: u64,
}

/// What a cell holds at one moment, read by the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Memory, in bytes.
    pub memory: u64,
    /// Processes.
    pub processes: u32,
    /// Bytes to and from disks since it was opened; absent where that can't be read.
    pub io: Option<Io>,
}

/// Reads the usage of one cell. Cloneable; gives the last reading where the cell is gone.
#[derive(Clone)]
pub struct Meter {
    cpu: Arc<dyn Fn() -> Duration + Send + Sync>,
    peak: Arc<dyn Fn() -> u64 + Send + Sync>,
    held: Arc<dyn Fn() -> Held + Send + Sync>,
}

impl Meter {
    /// A meter that reads processor time by `cpu` and peak memory by `peak`, neither of which may block.
    pub fn new(
        cpu: impl Fn() -> Duration + Send + Sync + 'static,
        peak: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { cpu: Arc::new(cpu), peak: Arc::new(peak), held: Arc::new(Held::default) }
    }
    /// The same meter, which reads by `held` what the cell holds now. It may not block either.
    #[must_use]
    pub fn holding(mut self, held: impl Fn() -> Held + Send + Sync + 'static) -> Self {
        self.held = Arc::new(held);
        self
    }
    /// What the cell holds now; nothing where its tier does not read that.
    pub fn held(&self) -> Held {
        (self.held)()
    }
    /// Processor time so far. Cheap enough to be read often.
    pub fn cpu(&self) -> Duration {
        (self.cpu)()
    }
    /// Both readings.
    pub fn read(&self) -> CellUsage {
        CellUsage { cpu: self.cpu(), peak_memory: (self.peak)() }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}
