//! One session: its grant, its cell, and what is remembered of it between snippets.
//!
//! Answers to: the front doors. Must not: hand its cell to anyone, or outlive its limits.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ringfence_analysis::Program;
use ringfence_audit::event::{Killed, SessionClosed, Snapshot, TierChosen};
use ringfence_audit::{AuditError, Event, Scope, sha256_hex};
use ringfence_bridge::Bridge;
use ringfence_egress::Serving;
use ringfence_policy::{Grant, MountMode};
use ringfence_tier::{Cell, Differ, Event as CellEvent, Meter, Tier, TierFault, Turn};
use ringfence_types::{
    Changes, Command, Engine as Interpreter, FileEntry, FileFault, FileOp, FileReply, GuestPath, LimitHit, LimitKind,
    Outcome, SessionId, Source, Status, Strength, TierName,
};
use tokio::time::Instant;

use crate::changes::{self, Destination};
use crate::choose::{Candidate, Choice, Reach, Wish, choose};
use crate::engine::{Engine, Shared, scope_of};
use crate::error::{RunError, SessionError};
use crate::ice::Ice;
use crate::kill::{KillSwitch, Killing, Target};
use crate::mounts;
use crate::network::Network;
use crate::opening;
use crate::replay::History;
use crate::run::{self, Paused, Watch, Work};
use crate::seal::{self, Bound};

const CLOSED: &str = "closed by the caller";

/// What a session is made with, beside its grant.
pub(crate) struct Opening {
    pub bridge: Arc<Bridge>,
    pub engine: Option<Interpreter>,
    pub switch: Arc<KillSwitch>,
    pub ice: Arc<Ice>,
}

/// One user's line of work in one cell. State persists between the snippets that it is fed.
pub struct Session {
    pub(crate) engine: Engine,
    pub(crate) grant: Grant,
    pub(crate) scope: Scope,
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) switch: Arc<KillSwitch>,
    pub(crate) ice: Arc<Ice>,
    pub(crate) wanted: Option<Interpreter>,
    pub(crate) choice: Choice,
    pub(crate) open: Option<Open>,
    pub(crate) history: History,
    pub(crate) restoring: Option<(Interpreter, Vec<u8>)>,
    pub(crate) ended: Option<Ended>,
    /// Names that inputs and snippets have set so far.
    pub(crate) names: BTreeSet<String>,
    staged: Vec<FileOp>,
    /// Reads what it changed in copy-on-write mounts, also when its cell is gone.
    pub(crate) differ: Option<Differ>,
    lifetime_end: Instant,
    /// In the session's own time.
    idle_since: Duration,
    pub(crate) runs: u64,
}

/// The open cell.
pub(crate) struct Open {
    pub cell: Box<dyn Cell>,
    pub meter: Meter,
    pub home: Arc<dyn Tier>,
    pub tier: TierName,
    pub engine: Option<Interpreter>,
    pub strength: Strength,
    /// Its network, where it has one.
    pub _serving: Option<Serving>,
}

/// What a cell is opened for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// Nothing is known yet of what will run.
    Unknown,
    /// This program.
    Program(&'a Program),
    /// A command.
    Command,
}

/// How a session that can't go on came to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    pub status: Status,
    pub limit: Option<LimitHit>,
    pub reason: String,
    recorded: bool,
}

/// What came of choosing a tier and opening a cell.
pub(crate) struct Chosen {
    /// The number of the record of the choice; absent where the session was ended before there was one.
    pub record: Option<u64>,
    pub opened: Result<(), SessionError>,
}

/// Ends a session from any thread, also while it runs.
#[derive(Clone)]
pub struct Handle {
    session: SessionId,
    switch: Arc<KillSwitch>,
    /// Whoever has a handle does not keep the engine, and its log, open.
    engine: Weak<Shared>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Handle {
    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }
    /// Ends the session: the run under way gets an outcome `killed`.
    pub fn kill(&self, by: impl Into<Killing>) {
        self.switch.kill(by);
    }
    /// Makes the session stand still from now on, also while it runs. Recorded. Blocks for moments.
    pub fn freeze(&self) -> Result<(), SessionError> {
        self.stand_still(true)
    }
    /// Lets it go on. Recorded.
    pub fn thaw(&self) -> Result<(), SessionError> {
        self.stand_still(false)
    }
    fn stand_still(&self, still: bool) -> Result<(), SessionError> {
        let gone = || SessionError::Ended("its engine is gone".to_owned());
        let engine = Engine(self.engine.upgrade().ok_or_else(gone)?);
        let done = engine.freeze(&Target::Session(self.session.clone()), still, "the caller")?;
        done.faults.into_iter().next().map_or(Ok(()), |why| Err(SessionError::Unsupported(why)))
    }
    /// Gives the run under way up and ends the session: the run gets an outcome `cancelled`, with all it did so far.
    pub fn cancel(&self) {
        self.switch.give_up();
    }
}

impl Session {
    pub(crate) fn new(engine: Engine, grant: Grant, opening: Opening) -> Self {
        let now = Instant::now();
        Self {
            scope: scope_of(&grant),
            lifetime_end: now + grant.limits().lifetime.duration(),
            engine,
            grant,
            bridge: opening.bridge,
            switch: opening.switch,
            idle_since: opening.ice.now(),
            ice: opening.ice,
            wanted: opening.engine,
            choice: Choice::default(),
            open: None,
            history: History::default(),
            restoring: None,
            ended: None,
            names: BTreeSet::new(),
            staged: Vec::new(),
            differ: None,
            runs: 0,
        }
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        self.grant.session()
    }

    /// What it was granted.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Ends it from elsewhere.
    pub fn handle(&self) -> Handle {
        Handle { session: self.id().clone(), switch: Arc::clone(&self.switch), engine: Arc::downgrade(&self.engine.0) }
    }

    /// Makes it stand still from now on: its cell uses no processor, and its wall and idle clocks stand. A run waits until
    /// it is thawed, and files can't be reached meanwhile. Recorded.
    pub fn freeze(&self) -> Result<(), SessionError> {
        self.handle().freeze()
    }

    /// Lets it go on. Recorded.
    pub fn thaw(&self) -> Result<(), SessionError> {
        self.handle().thaw()
    }

    /// Runs one snippet. Dropping the future cancels the run and ends the session.
    pub async fn run(&mut self, source: Source, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
        Ok(run::run(self, Work::Feed(source), None, watch).await?.into_outcome())
    }

    /// Runs a command, which shares the session's files and limits. Its output is what it writes, its end the outcome's
    /// `exit_code`. What it starts and leaves behind lives on to the end of the session.
    pub async fn exec(&mut self, command: Command, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
        Ok(run::run(self, Work::Exec(command), None, watch).await?.into_outcome())
    }

    /// Runs one snippet up to the first call of `function`, and writes the session down there instead of calling.
    pub async fn run_until(
        &mut self,
        source: Source,
        function: &str,
        watch: &mut dyn Watch,
    ) -> Result<Paused, RunError> {
        run::run(self, Work::Feed(source), Some(function), watch).await
    }

    /// Goes on with the run in whose middle the snapshot was taken.
    pub async fn resume(&mut self, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
        Ok(run::run(self, Work::Resume, None, watch).await?.into_outcome())
    }

    /// Writes the state down, between snippets. The bytes are under seal.
    pub async fn snapshot(&mut self) -> Result<Vec<u8>, SessionError> {
        self.usable()?;
        let Some(open) = self.open.as_ref() else {
            return Err(SessionError::Unsupported("a session that ran nothing has no state to write down".to_owned()));
        };
        let Some(engine) = open.engine else { return Err(self.lacks("snapshots")) };
        match self.step(Turn::Snapshot).await? {
            CellEvent::Snapshotted(state) => Ok(self.sealed(engine, false, &state)?),
            CellEvent::Unsupported(feature, _) => Err(self.lacks(&feature)),
            _ => Err(self.broken("it answered a snapshot with something else")),
        }
    }

    /// That the cell can't do something; where that is to be written down, which engines of its tier can.
    pub(crate) fn lacks(&self, feature: &str) -> SessionError {
        let feature = run::plain(feature);
        let Some(open) = &self.open else { return SessionError::Unsupported(feature) };
        let Some(engine) = open.engine else {
            return SessionError::Unsupported(format!("the `{}` tier has no {feature}", open.tier));
        };
        let mut text = format!("the engine `{}` has no {feature}", engine.as_str());
        let engines = &open.home.capabilities().engines;
        let snapshots = |wanted: bool| engines.iter().filter(move |info| info.snapshot == wanted);
        if snapshots(false).any(|info| info.engine == engine)
            && let Some(other) = snapshots(true).next()
        {
            text.push_str(&format!("; open the session with the engine `{}`", other.engine.as_str()));
        }
        SessionError::Unsupported(text)
    }

    pub(crate) fn sealed(&self, engine: Interpreter, mid_run: bool, state: &[u8]) -> Result<Vec<u8>, RunError> {
        let (tenant, policy) = (self.grant.tenant().clone(), self.grant.policy_hash());
        let bytes = seal::seal(&self.engine.0.key, &Bound { engine, mid_run, tenant, policy }, state);
        let taken = Snapshot { sha256: sha256_hex(&bytes), bytes: bytes.len() as u64 };
        self.engine.record(&self.scope, Event::SnapshotTaken(taken))?;
        Ok(bytes)
    }

    /// Takes up a state whose seal was found whole.
    pub(crate) async fn take_up(&mut self, bound: Bound, state: Vec<u8>) -> Result<(), SessionError> {
        self.history.give_up();
        let scope = self.scope.clone();
        self.choose_and_open(&scope, Purpose::Unknown).await?.opened?;
        if bound.mid_run {
            self.restoring = Some((bound.engine, state));
            return Ok(());
        }
        match self.step(Turn::Restore(bound.engine, state)).await? {
            CellEvent::Restored => Ok(()),
            CellEvent::Unsupported(feature, _) => Err(self.lacks(&feature)),
            _ => Err(self.broken("it answered a restore with something else")),
        }
    }

    /// Writes a file into the session; its folders are made.
    pub async fn put_file(&mut self, path: GuestPath, content: Vec<u8>) -> Result<(), SessionError> {
        let mut mounts = self.grant.mounts().iter().filter(|mount| mount.mode != MountMode::Ro);
        let is_own = self.grant.workspace().is_some() && path.is_under("/workspace");
        let read_only = !is_own && !mounts.any(|mount| path.is_under(mount.at.as_str()));
        // What can't have room is refused here: a frame that large would cost the worker.
        if let Some(quota) = self.grant.workspace().filter(|_| path.is_under("/workspace"))
            && content.len() as u64 > quota.bytes()
        {
            return Err(FileFault::NoSpace(path.to_string()).into());
        }
        let op = FileOp::Put { path, content, read_only };
        self.usable()?;
        if self.open.is_none() {
            self.staged.push(op);
            return Ok(());
        }
        self.history.give_up();
        self.file(op).await.map(drop)
    }

    /// Reads a file of the session.
    pub async fn get_file(&mut self, path: GuestPath) -> Result<Vec<u8>, SessionError> {
        match self.file(FileOp::Get { path }).await? {
            FileReply::Content(content) => Ok(content),
            _ => Err(self.broken("it answered a read with something else")),
        }
    }

    /// Lists a folder of the session.
    pub async fn list_files(&mut self, path: GuestPath) -> Result<Vec<FileEntry>, SessionError> {
        match self.file(FileOp::List { path }).await? {
            FileReply::Entries(entries) => Ok(entries),
            _ => Err(self.broken("it answered a listing with something else")),
        }
    }

    /// Removes a file or folder of the session.
    pub async fn remove_file(&mut self, path: GuestPath) -> Result<(), SessionError> {
        self.history.give_up();
        self.file(FileOp::Remove { path }).await.map(drop)
    }

    /// What differs from the host's folders in copy-on-write mounts. Also once the session has ended. Recorded.
    pub async fn changes(&mut self) -> Result<Changes, SessionError> {
        let changes = match self.differ()? {
            Some(differ) => blocking(move || differ.changes().map_err(SessionError::Changes)).await?,
            None => Changes { complete: true, ..Changes::default() },
        };
        self.engine.record(&self.scope, Event::ChangesCollected(changes::record(&changes)))?;
        Ok(changes)
    }

    /// As [`Session::changes`], with the content of added and changed files written to a folder of the caller's.
    pub async fn save_changes(&mut self, to: Destination) -> Result<Changes, SessionError> {
        let mut changes = self.changes().await?;
        let Some(differ) = self.differ()? else { return Ok(changes) };
        blocking(move || to.save(&differ, &mut changes).map(|()| changes).map_err(SessionError::Save)).await
    }

    /// Ends its cell: nothing runs in it any more, and what it changed can still be read.
    pub fn shut(&mut self) {
        self.end(Status::Cancelled, None, CLOSED.to_owned());
    }

    /// A file that the session added or changed in a copy-on-write mount, whole. Also once the session has ended.
    pub async fn changed_file(&mut self, path: GuestPath) -> Result<Vec<u8>, SessionError> {
        let Some(differ) = self.differ()? else { return Err(FileFault::NotFound(path.to_string()).into()) };
        let most = self.grant.limits().disk.bytes().max(changes::SMALL);
        blocking(move || changes::read(differ.file(&path)?, most).map_err(SessionError::Changes)).await
    }

    /// Reads what it changed in copy-on-write mounts; `None` where it was never opened.
    pub fn differ(&self) -> Result<Option<Differ>, SessionError> {
        if !self.grant.needs().mounts_cow {
            let why = "the policy mounts no folder copy-on-write; write `mode = \"cow\"` at one of `filesystem.mounts`";
            return Err(SessionError::Unsupported(why.to_owned()));
        }
        Ok(self.differ.clone())
    }

    async fn file(&mut self, op: FileOp) -> Result<FileReply, SessionError> {
        self.usable()?;
        if self.open.is_none() {
            let scope = self.scope.clone();
            self.choose_and_open(&scope, Purpose::Unknown).await?.opened?;
        }
        match self.step(Turn::Files(op)).await? {
            CellEvent::Filed(FileReply::Fault(fault)) => Err(fault.into()),
            CellEvent::Filed(reply) => Ok(reply),
            CellEvent::Unsupported(feature, _) => Err(self.lacks(&feature)),
            _ => Err(self.broken("it answered a file operation with something else")),
        }
    }

    /// Chooses a tier for this purpose, records the choice, and opens a cell there.
    pub(crate) async fn choose_and_open(&mut self, scope: &Scope, purpose: Purpose<'_>) -> Result<Chosen, AuditError> {
        let (program, command) = match purpose {
            Purpose::Unknown => (None, false),
            Purpose::Program(program) => (Some(program), false),
            Purpose::Command => (None, true),
        };
        let wish = Wish { grant: &self.grant, program, engine: self.wanted, command, staged: &self.staged };
        let choosing = choose(&self.engine.0.tiers, wish, Reach::FirstFit);
        let Some(choice) = self.switch.unless_pulled(choosing).await else {
            return Ok(Chosen { record: None, opened: Err(self.over()) });
        };
        self.choice = choice;
        let candidate = self.choice.candidates.first().cloned();
        let chosen = TierChosen {
            tier: candidate.as_ref().map(|candidate| candidate.tier.name()),
            engine: candidate.as_ref().and_then(|candidate| candidate.engine).map(|engine| engine.as_str().to_owned()),
            considered: self.choice.considered.clone(),
        };
        let record = Some(self.engine.record(scope, Event::TierChosen(chosen))?);
        let Some(candidate) = candidate else {
            let what = match purpose {
                Purpose::Unknown => "be used",
                Purpose::Program(_) => "run the program",
                Purpose::Command => "run the command",
            };
            let why = format!("no allowed tier can {what} ({})", self.choice.reasons());
            return Ok(Chosen { record, opened: Err(SessionError::Unsupported(why)) });
        };
        match self.open(&candidate).await {
            Err(SessionError::Audit(error)) => Err(error),
            opened => Ok(Chosen { record, opened }),
        }
    }

    /// Opens a cell in place of the one there is, records what holds in it, and puts the files in. Where that fails no
    /// cell is left: a half-filled one is no place to run in.
    pub(crate) async fn open(&mut self, candidate: &Candidate) -> Result<(), SessionError> {
        self.open = None;
        let network = Network::prepare(&self.engine, &self.grant)?;
        let Some(cell) = opening::open(candidate, &self.grant, &self.switch).await else { return Err(self.over()) };
        let (mut cell, tier) = (cell?, candidate.tier.name());
        let enforced = cell.enforced().clone();
        self.switch.arm(cell.killer());
        self.differ = cell.differ();
        self.ice.arm(cell.freezer());
        self.engine.record(&self.scope, opening::record(tier, &enforced))?;
        let serving = match network {
            Some(network) => Some(network.serve(cell.as_mut(), tier).await?),
            None => None,
        };
        let mut open = Open {
            meter: cell.meter(),
            home: Arc::clone(&candidate.tier),
            tier,
            engine: candidate.engine,
            strength: enforced.strength,
            _serving: serving,
            cell,
        };
        self.fill(&mut open).await?;
        if open.home.capabilities().acts_outside_the_bridge(self.grant.needs()) {
            self.history.give_up();
        }
        self.engine.0.table.set_tier(self.id(), tier, open.meter.clone());
        self.open = Some(open);
        Ok(())
    }

    /// Puts mounts and staged files into a fresh cell.
    async fn fill(&mut self, open: &mut Open) -> Result<(), SessionError> {
        let bound = open.home.capabilities().mounts_bound;
        let mut files = if bound { Vec::new() } else { mounts::read(&self.grant)? };
        files.extend(self.staged.iter().cloned());
        let patience = self.grant.limits().wall.duration();
        for op in files {
            match answered(open, Turn::Files(op), patience).await {
                Ok(CellEvent::Filed(FileReply::Done)) => {}
                Ok(CellEvent::Filed(FileReply::Fault(fault))) => return Err(fault.into()),
                Ok(CellEvent::Unsupported(feature, _)) => {
                    let why = format!("the `{}` tier has no {}", open.tier, run::plain(&feature));
                    return Err(SessionError::Unsupported(why));
                }
                Ok(_) => {
                    let why = "it answered a file operation with something else".to_owned();
                    return Err(TierFault::Protocol { tier: open.tier, why }.into());
                }
                Err(_) if self.switch.is_killed() => return Err(self.over()),
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(())
    }

    /// A turn outside a run, such as a file operation: answered at once, or the cell is not trusted any more.
    pub(crate) async fn step(&mut self, turn: Turn) -> Result<CellEvent, SessionError> {
        if self.ice.is_frozen() {
            return Err(SessionError::Frozen);
        }
        let patience = self.grant.limits().wall.duration();
        let Some(open) = self.open.as_mut() else { return Err(SessionError::Ended("it has no cell".to_owned())) };
        let fault = match answered(open, turn, patience).await {
            Ok(CellEvent::Limit(kind, reached)) => return Err(self.limited(kind, reached)),
            Ok(event) => return Ok(event),
            Err(fault) => fault,
        };
        Err(self.after(fault))
    }

    /// The session can't go on after this, or was killed meanwhile.
    pub(crate) fn after(&mut self, fault: TierFault) -> SessionError {
        if self.switch.is_killed() {
            return self.over();
        }
        self.end(Status::Crashed, None, fault.to_string());
        fault.into()
    }

    /// A limit that the cell names, and whether the cell is gone; `None` where its tier does not declare it.
    pub(crate) fn inner_limit(&self, kind: LimitKind, reached: u64) -> Option<(LimitHit, bool)> {
        let declared = self.open.as_ref()?.home.capabilities().inner_limits;
        let limit = declared.iter().find(|limit| limit.kind == kind)?;
        let allowed = run::allowed(self.grant.limits(), kind);
        Some((LimitHit { kind, allowed, reached: reached.max(allowed) }, limit.fatal))
    }

    fn limited(&mut self, kind: LimitKind, reached: u64) -> SessionError {
        let Some((hit, fatal)) = self.inner_limit(kind, reached) else {
            return self.broken("it named a limit that it does not keep");
        };
        let why = run::limit_text(&hit);
        if !fatal {
            return SessionError::Unsupported(why);
        }
        self.end(Status::Limited, Some(hit), why.clone());
        SessionError::Ended(why)
    }

    pub(crate) fn broken(&mut self, why: &str) -> SessionError {
        let tier = self.open.as_ref().map_or(TierName::Embedded, |open| open.tier);
        let fault = TierFault::Protocol { tier, why: why.to_owned() };
        self.end(Status::Crashed, None, fault.to_string());
        fault.into()
    }

    /// The session can't go on: its cell is destroyed.
    pub(crate) fn end(&mut self, status: Status, limit: Option<LimitHit>, reason: String) {
        self.open = None;
        self.ice.disarm();
        self.engine.0.table.has_no_cell(self.id());
        self.ended.get_or_insert(Ended { status, limit, reason, recorded: false });
    }

    /// What is still to be recorded of the session's end: the kill or the limit, once.
    pub(crate) fn end_to_record(&mut self) -> Option<Event> {
        let ended = self.ended.as_mut().filter(|ended| !ended.recorded)?;
        ended.recorded = true;
        match ended.status {
            Status::Killed => {
                let Killing { by, reason } = self.switch.by();
                Some(Event::Killed(Killed { by, reason }))
            }
            Status::Limited => ended.limit.map(Event::LimitStruck),
            _ => None,
        }
    }

    fn record_end(&mut self) -> Result<(), AuditError> {
        match self.end_to_record() {
            Some(event) => self.engine.record(&self.scope, event).map(drop),
            None => Ok(()),
        }
    }

    /// The error of a session whose switch was pulled.
    fn over(&mut self) -> SessionError {
        self.expire();
        let reason = self.ended.as_ref().map_or_else(|| self.switch.by().to_string(), |ended| ended.reason.clone());
        SessionError::Ended(reason)
    }

    pub(crate) fn usable(&mut self) -> Result<(), SessionError> {
        self.expire();
        self.record_end()?;
        match &self.ended {
            Some(ended) => Err(SessionError::Ended(ended.reason.clone())),
            None => Ok(()),
        }
    }

    /// Ends a session that was killed, that nobody fed for too long, or that is too old.
    pub(crate) fn expire(&mut self) {
        let limits = self.grant.limits().clone();
        let idle = self.ice.now().saturating_sub(self.idle_since);
        if self.ended.is_some() {
        } else if self.switch.is_given_up() {
            self.end(Status::Cancelled, None, run::GIVEN_UP.to_owned());
        } else if self.switch.is_killed() {
            self.end(Status::Killed, None, self.switch.by().to_string());
        } else if idle >= limits.idle.duration() {
            // It struck then, however late somebody asks.
            let allowed = limits.idle.millis();
            let hit = LimitHit { kind: LimitKind::Idle, allowed, reached: allowed };
            self.end(Status::Limited, Some(hit), "nobody fed the session for too long".to_owned());
        } else if Instant::now() >= self.lifetime_end {
            let allowed = limits.lifetime.millis();
            let hit = LimitHit { kind: LimitKind::Lifetime, allowed, reached: allowed };
            self.end(Status::Limited, Some(hit), "the session reached the end of its lifetime".to_owned());
        }
    }

    pub(crate) fn lifetime_end(&self) -> Instant {
        self.lifetime_end
    }

    /// A run begins: the session is not idle.
    pub(crate) fn busy(&mut self) {
        self.engine.0.resting.end(self.id());
    }

    /// A run is over: the cell is ended when nobody feeds it in time.
    pub(crate) fn rest(&mut self) {
        self.idle_since = self.ice.now();
        let Some(open) = &self.open else { return };
        let killer = open.cell.killer();
        let idle = Instant::now() + self.grant.limits().idle.duration();
        self.engine.0.resting.begin(self.id(), idle.into_std(), self.lifetime_end.into_std(), killer);
        if self.ice.is_frozen() {
            self.engine.0.resting.stand_still(self.id(), true);
        }
    }
}

impl Drop for Session {
    /// The cell goes first; the record says how many runs there were.
    fn drop(&mut self) {
        self.busy();
        self.open = None;
        self.engine.0.table.remove(self.grant.session());
        if self.switch.is_killed() {
            self.expire();
        }
        let reason = self.ended.as_ref().map_or_else(|| CLOSED.to_owned(), |ended| ended.reason.clone());
        // A log that can't be written has failed for good; every later run says so.
        let _ = self.record_end();
        let _ = self.engine.record(&self.scope, Event::SessionClosed(SessionClosed { reason, runs: self.runs }));
    }
}

/// What comes of work that takes its time, away from the event loop.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SessionError> + Send + 'static,
) -> Result<T, SessionError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(SessionError::Changes(std::io::Error::other(error))))
}

/// A turn outside a run, which is answered soon or not at all.
async fn answered(open: &mut Open, turn: Turn, patience: Duration) -> Result<CellEvent, TierFault> {
    tokio::time::timeout(patience, open.cell.step(turn))
        .await
        .unwrap_or_else(|_| Err(TierFault::Protocol { tier: open.tier, why: "it did not answer in time".to_owned() }))
}
