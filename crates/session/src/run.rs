//! One run, from the snippet to the outcome. The line that every request takes is written down only here.
//!
//! Answers to: `session`. Must not: let an outcome leave before the closing record is written.

use ringfence_analysis::{MAX_SOURCE, Program, SourceFault, analyze_in};
use ringfence_audit::event::{RunClosed, RunStarted, ThresholdCrossed};
use ringfence_audit::{Event, Scope};
use ringfence_bridge::{Over, over};
use ringfence_tier::TierFault;
use ringfence_types::{
    AuditSpan, Call, Command, Engine, GuestException, LimitHit, LimitKind, Limits, MimeBundle, Outcome, RunId, Source,
    Status, Stream, Strength, TierName, TraceFrame, Usage, Value, ValueBudget,
};

use crate::deadline::Deadline;
use crate::drive::Drive;
use crate::engine::random;
use crate::error::{RunError, SessionError};
use crate::exception::bounded;
use crate::output::Output;
use crate::session::{Ended, Open, Purpose, Session};

/// Who watches a run while it goes on.
pub trait Watch: Send {
    /// The guest printed this; it may end in the middle of a character.
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {}
    /// The guest showed a rich result.
    fn shown(&mut self, _bundle: &MimeBundle) {}
    /// It uses more than a threshold of its policy's.
    fn crossed(&mut self, _threshold: &ThresholdCrossed) {}
}

impl Watch for () {}

/// A run that was to stop at a call.
#[derive(Debug)]
pub enum Paused {
    /// It ended before.
    Finished(Outcome),
    /// It came to the call, and was written down there.
    AtCall {
        /// The call; it is asked again when the snapshot is resumed.
        call: Call,
        /// The session, under seal.
        snapshot: Vec<u8>,
        /// The outcome so far, with the status `cancelled`: this session is over.
        outcome: Outcome,
    },
}

impl Paused {
    /// The outcome, whichever it is.
    pub fn into_outcome(self) -> Outcome {
        match self {
            Self::Finished(outcome) | Self::AtCall { outcome, .. } => outcome,
        }
    }
}

pub(crate) const GIVEN_UP: &str = "the caller gave the run up";

/// What a run is to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// Run a snippet.
    Feed(Source),
    /// Run a command.
    Exec(Command),
    /// Go on with the run whose state was taken up.
    Resume,
}

/// How a run came to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Done(Value),
    NoValue(String),
    Raised(GuestException),
    Exited(i32),
    Denied(String),
    Limited(LimitHit),
    /// A limit that the session outlives: a program too large to be looked at, or one that the cell keeps by itself.
    Refused(LimitHit, String),
    /// The session ended before this run began.
    Over(Ended),
    Unsupported(String),
    Killed(String),
    Cancelled(String),
    Crashed(String),
    Paused(Call, Vec<u8>),
}

/// The line: request, choose, open, drive, close.
pub(crate) async fn run(
    session: &mut Session,
    work: Work,
    pause_at: Option<&str>,
    watch: &mut dyn Watch,
) -> Result<Paused, RunError> {
    let mut run = Run::begin(session)?;
    let end = match run.ready(&work).await {
        Err(NotReady::End(end)) => end,
        Err(NotReady::Error(error)) => return Err(run.fail(error)),
        Ok(()) => {
            run.record(Event::RunStarted(started(&work, run.session)))?;
            Drive::new(&mut run, pause_at, watch).go(work).await?
        }
    };
    run.close(end)
}

fn started(work: &Work, session: &Session) -> RunStarted {
    let mut source = match work {
        Work::Feed(source) => source.clone(),
        Work::Exec(command) => return RunStarted::of_command(command),
        Work::Resume => Source { file: "snapshot".to_owned(), ..Source::new("") },
    };
    source.engine = session.open.as_ref().and_then(|open| open.engine);
    RunStarted::of(&source)
}

/// Why nothing of a run began.
enum NotReady {
    End(End),
    Error(RunError),
}

impl From<RunError> for NotReady {
    fn from(error: RunError) -> Self {
        Self::Error(error)
    }
}
impl From<End> for NotReady {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

/// Where a program ran.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub tier: TierName,
    engine: Option<Engine>,
    strength: Strength,
}

impl Place {
    pub fn of(open: &Open) -> Self {
        Self { tier: open.tier, engine: open.engine, strength: open.strength }
    }
}

/// One run under way. Dropped before its end, it is cancelled.
pub(crate) struct Run<'a> {
    pub session: &'a mut Session,
    pub id: RunId,
    pub scope: Scope,
    pub output: Output,
    pub deadline: Option<Deadline>,
    pub shown: Vec<MimeBundle>,
    pub calls: u32,
    pub program: Option<Program>,
    /// Where it runs; it stays what it was where a move comes to nothing.
    pub place: Option<Place>,
    first: Option<u64>,
    last: Option<u64>,
    closed: bool,
}

impl<'a> Run<'a> {
    fn begin(session: &'a mut Session) -> Result<Self, RunError> {
        // Without random bits there is no session either, so this can't fail here for the first time.
        let id = RunId::from_random(random().unwrap_or_default());
        session.busy();
        session.runs += 1;
        session.engine.0.table.set_run(session.grant.session(), Some(id.clone()));
        let scope = session.scope.in_run(id.clone());
        let output = Output::new(session.grant.limits().output.bytes());
        Ok(Self {
            session,
            id,
            scope,
            output,
            deadline: None,
            shown: Vec::new(),
            calls: 0,
            program: None,
            place: None,
            first: None,
            last: None,
            closed: false,
        })
    }

    pub fn record(&mut self, event: Event) -> Result<(), RunError> {
        let number = self.session.engine.record(&self.scope, event)?;
        self.recorded(number);
        Ok(())
    }

    fn recorded(&mut self, number: u64) {
        self.first.get_or_insert(number);
        self.last = Some(number);
    }

    /// Everything before the first turn: the session may run, a tier is chosen, a cell is open.
    async fn ready(&mut self, work: &Work) -> Result<(), NotReady> {
        self.session.expire();
        if let Some(ended) = self.session.ended.clone() {
            return Err(End::Over(ended).into());
        }
        if let Some(target) = self.session.engine.holds().on_tenant(self.session.grant.tenant()) {
            return Err(End::Denied(format!("a kill switch is set on `{target}`")).into());
        }
        if matches!(work, Work::Exec(_)) && !self.session.grant.may_exec() {
            return Err(End::Denied(no_programs(self.session.grant.policy_name())).into());
        }
        match work {
            Work::Feed(source) => {
                let program = program(source, self.session)?;
                if self.session.open.is_none() {
                    self.choose_and_open(Purpose::Program(&program)).await?;
                }
                self.program = Some(program);
            }
            Work::Exec(_) => match &self.session.open {
                None => self.choose_and_open(Purpose::Command).await?,
                Some(open) if open.home.here().commands => {}
                Some(open) => return Err(End::Unsupported(no_commands(open.tier)).into()),
            },
            Work::Resume if self.session.restoring.is_some() => {}
            Work::Resume => return Err(End::Denied("there is no run to go on with".to_owned()).into()),
        }
        self.place = self.session.open.as_ref().map(Place::of);
        Ok(())
    }

    async fn choose_and_open(&mut self, purpose: Purpose<'_>) -> Result<(), NotReady> {
        let chosen = self.session.choose_and_open(&self.scope, purpose).await.map_err(RunError::from)?;
        if let Some(number) = chosen.record {
            self.recorded(number);
        }
        chosen.opened.map_err(|error| match error {
            SessionError::Unsupported(why) => End::Unsupported(why).into(),
            SessionError::Tier(fault @ (TierFault::Unusable { .. } | TierFault::Open { .. })) => {
                RunError::Tier(fault).into()
            }
            SessionError::File(fault) => RunError::File(fault).into(),
            SessionError::Mount(error) => RunError::Mount(error).into(),
            SessionError::Network(error) => RunError::Network(error).into(),
            SessionError::Audit(error) => RunError::Audit(error).into(),
            _ if self.session.switch.is_killed() => self.killed().into(),
            other => End::Crashed(other.to_string()).into(),
        })
    }

    /// Closes a run of which nothing began, and of which there is no outcome.
    fn fail(mut self, error: RunError) -> RunError {
        if matches!(error, RunError::Audit(_)) {
            return error;
        }
        let (usage, reason) = (Usage::default(), Some(error.to_string()));
        let detail =
            RunClosed { status: Status::Unsupported, usage, limit: None, exception: None, exit_code: None, reason };
        match self.record(Event::RunClosed(detail)) {
            Ok(()) => {
                self.closed = true;
                error
            }
            Err(unwritable) => unwritable,
        }
    }

    /// The end of a run whose switch was pulled.
    pub fn killed(&self) -> End {
        if self.session.switch.is_given_up() {
            return End::Cancelled(GIVEN_UP.to_owned());
        }
        End::Killed(self.session.switch.by().to_string())
    }

    /// Writes the closing record, then gives the outcome.
    fn close(mut self, end: End) -> Result<Paused, RunError> {
        let usage = self.usage();
        let mut outcome = self.outcome(&end, usage);
        if matches!(end, End::Limited(_) | End::Killed(_) | End::Cancelled(_) | End::Crashed(_) | End::Paused(..)) {
            let why =
                outcome.reason.clone().unwrap_or_else(|| format!("an earlier run was {}", outcome.status.as_str()));
            self.session.end(outcome.status, outcome.limit, why);
        }
        if let End::Refused(hit, _) = &end {
            self.record(Event::LimitStruck(*hit))?;
        }
        if let Some(event) = self.session.end_to_record() {
            self.record(event)?;
        }
        self.record(Event::RunClosed(closed(&outcome)))?;
        self.closed = true;
        outcome.audit = self.first.zip(self.last).map(|(first, last)| AuditSpan { first, last });
        Ok(match end {
            End::Paused(call, snapshot) => Paused::AtCall { call, snapshot, outcome },
            _ => Paused::Finished(outcome),
        })
    }

    /// What the cell is short of, where the program says that it raised for that, and the host finds it so.
    fn short_of(&self, exception: &GuestException) -> Option<(LimitHit, String)> {
        let says_so = exception.kind == "OSError" && exception.message.contains("No space left on device");
        self.session.open.as_ref().filter(|_| says_so)?.cell.short_of()
    }

    fn usage(&self) -> Usage {
        let (wall, cells) = self.deadline.as_ref().map(Deadline::used).unwrap_or_default();
        Usage {
            wall_ms: wall.as_secs_f64() * 1e3,
            cpu_ms: cells.cpu.as_secs_f64() * 1e3,
            peak_memory: cells.peak_memory,
            host_calls: self.calls,
            output_bytes: self.output.total(),
        }
    }

    fn outcome(&mut self, end: &End, usage: Usage) -> Outcome {
        let output = std::mem::replace(&mut self.output, Output::new(0));
        let (stdout, stderr, dropped) = output.finish();
        let place = self.place;
        let mut outcome = Outcome {
            run_id: self.id.clone(),
            session: self.session.grant.session().clone(),
            tier: place.map(|place| place.tier),
            strength: place.map(|place| place.strength),
            engine: place.and_then(|place| place.engine).map(|engine| engine.as_str().to_owned()),
            status: Status::Completed,
            value: None,
            shown: std::mem::take(&mut self.shown),
            stdout,
            stderr,
            dropped,
            exit_code: None,
            exception: None,
            limit: None,
            reason: None,
            usage,
            chosen: self.session.choice.considered.clone(),
            audit: None,
            changes: None,
        };
        let (status, reason) = match end {
            End::Done(value) => {
                outcome.value = Some(value.clone());
                (Status::Completed, None)
            }
            End::NoValue(why) => (Status::Completed, Some(why.clone())),
            End::Exited(code) => {
                outcome.exit_code = Some(*code);
                (Status::Completed, None)
            }
            End::Raised(exception) => {
                outcome.exception = Some(bounded(exception.clone(), self.session.grant.limits().output.bytes()));
                let short = self.short_of(exception).unzip();
                outcome.limit = short.0;
                (Status::Raised, short.1)
            }
            End::Limited(hit) => {
                outcome.limit = Some(*hit);
                (Status::Limited, Some(limit_text(hit)))
            }
            End::Refused(hit, why) => {
                outcome.limit = Some(*hit);
                (Status::Limited, Some(why.clone()))
            }
            End::Over(ended) => {
                outcome.limit = ended.limit;
                (ended.status, Some(format!("the session has ended: {}; open a new one", ended.reason)))
            }
            End::Denied(why) => (Status::Denied, Some(why.clone())),
            End::Unsupported(why) => (Status::Unsupported, Some(why.clone())),
            End::Killed(why) => (Status::Killed, Some(why.clone())),
            End::Cancelled(why) => (Status::Cancelled, Some(why.clone())),
            End::Crashed(why) => (Status::Crashed, Some(why.clone())),
            End::Paused(call, _) => {
                let why = format!("paused at a call of `{}`; the snapshot goes on from there", call.function);
                (Status::Cancelled, Some(why))
            }
        };
        Outcome { status, reason, ..outcome }
    }
}

fn no_programs(policy: &str) -> String {
    format!("the policy `{policy}` lets no program be started; take `exec = false` out of its `[isolation]`")
}

fn no_commands(tier: TierName) -> String {
    format!(
        "this session is in the `{tier}` tier, which runs Python only, no commands; begin the session with the command, \
         or name `process` alone in `[isolation] tiers` of its policy"
    )
}

/// What the policy allows of one kind.
pub(crate) fn allowed(limits: &Limits, kind: LimitKind) -> u64 {
    match kind {
        LimitKind::Wall => limits.wall.millis(),
        LimitKind::Cpu => limits.cpu.millis(),
        LimitKind::Memory => limits.memory.bytes(),
        LimitKind::Output => limits.output.bytes(),
        LimitKind::Processes => limits.processes.into(),
        LimitKind::OpenFiles => limits.open_files.into(),
        LimitKind::Disk => limits.disk.bytes(),
        LimitKind::HostCalls => limits.host_calls.into(),
        LimitKind::Idle => limits.idle.millis(),
        LimitKind::Lifetime => limits.lifetime.millis(),
        LimitKind::Size => ValueBudget::DEFAULT.bytes as u64,
    }
}

/// One line that names the limit, what was allowed, and where it is set.
pub(crate) fn limit_text(hit: &LimitHit) -> String {
    let unit = match hit.kind {
        LimitKind::Wall | LimitKind::Cpu | LimitKind::Idle | LimitKind::Lifetime => " ms",
        LimitKind::Memory | LimitKind::Output | LimitKind::Disk | LimitKind::Size => " bytes",
        LimitKind::Processes | LimitKind::OpenFiles | LimitKind::HostCalls => "",
    };
    format!("the limit on {} struck: {}{unit} allowed", hit.kind, hit.allowed)
}

/// What a guest calls something, made fit to be shown: no control characters, and short.
pub(crate) fn plain(feature: &str) -> String {
    feature.chars().filter(|c| !c.is_control()).take(200).collect()
}

fn closed(outcome: &Outcome) -> RunClosed {
    RunClosed {
        status: outcome.status,
        usage: outcome.usage,
        limit: outcome.limit,
        exception: outcome.exception.as_ref().map(|exception| exception.kind.clone()),
        exit_code: outcome.exit_code,
        reason: outcome.reason.clone(),
    }
}

/// What the inputs of a run may weigh together. With the largest source they fit into one frame.
const INPUTS: ValueBudget = ValueBudget { bytes: 12 << 20, ..ValueBudget::DEFAULT };

/// What the program needs, found before anything of it runs.
fn program(source: &Source, session: &mut Session) -> Result<Program, End> {
    let inputs = source.inputs.iter().map(|(_, value)| value);
    if let Some(Over { what, allowed, reached }) = over(inputs, INPUTS) {
        let hit = LimitHit { kind: LimitKind::Size, allowed, reached };
        let why = format!("the inputs have {reached} {what}, at most {allowed} cross; pass large data as a file");
        return Err(End::Refused(hit, why));
    }
    session.names.extend(source.inputs.iter().map(|(name, _)| name.clone()));
    let known: Vec<&str> = session.names.iter().map(String::as_str).collect();
    let analyzed = analyze_in(&source.code, &known);
    if let Ok(program) = &analyzed {
        session.names.extend(program.names_set.iter().cloned());
    }
    analyzed.map_err(|fault| match fault {
        SourceFault::TooLarge { bytes } => {
            let hit = LimitHit { kind: LimitKind::Size, allowed: MAX_SOURCE as u64, reached: bytes as u64 };
            End::Refused(hit, fault.to_string())
        }
        // As CPython does: the program learns of it as of any other fault of its syntax.
        SourceFault::TooDeep(deep) => End::Raised(GuestException {
            kind: "SyntaxError".to_owned(),
            message: deep.to_string(),
            frames: vec![TraceFrame {
                file: source.file.clone(),
                line: deep.line,
                function: "<module>".to_owned(),
                source: None,
            }],
            cause: None,
            notes: Vec::new(),
            exit_code: None,
        }),
    })
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let session = self.session.grant.session().clone();
        self.session.engine.0.table.set_run(&session, None);
        if self.closed {
            self.session.rest();
            return;
        }
        // The caller gave the run up, or the log failed: nothing of it may go on.
        self.session.end(Status::Cancelled, None, GIVEN_UP.to_owned());
        let usage = self.usage();
        let reason = Some(GIVEN_UP.to_owned());
        let detail =
            RunClosed { status: Status::Cancelled, usage, limit: None, exception: None, exit_code: None, reason };
        let _ = self.session.engine.record(&self.scope, Event::RunClosed(detail));
    }
}
