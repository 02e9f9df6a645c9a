//! What is recorded: one closed enum of events, each with a typed detail.
//!
//! Answers to: whoever decides or does something that must be provable later.
//! Must not: hold a value that was not redacted yet, or decide anything. Whether an event is an
//! allowance or a denial follows from the event itself, so that a record can't contradict itself.

use ringfence_types::{
    Considered, EnvironmentName, Io, LimitHit, Limits, Measure, MonitorAction, RunId, SessionId, Status, Strength,
    Tenant, TierName, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// Whom a record is about. What is absent is written as `null`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Whose work it is.
    pub tenant: Option<Tenant>,
    /// The session.
    pub session: Option<SessionId>,
    /// The run inside the session.
    pub run: Option<RunId>,
}

impl Scope {
    /// The host itself: no tenant, no session.
    pub fn host() -> Self {
        Self::default()
    }

    /// A session of a tenant, outside any run.
    pub fn session(tenant: Tenant, session: SessionId) -> Self {
        Self { tenant: Some(tenant), session: Some(session), run: None }
    }

    /// The same session, inside a run.
    pub fn in_run(&self, run: RunId) -> Self {
        Self { run: Some(run), ..self.clone() }
    }
}

/// One thing to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Whom it is about.
    pub scope: Scope,
    /// What happened.
    pub event: Event,
}

impl Entry {
    /// An event about a scope.
    pub fn new(scope: &Scope, event: Event) -> Self {
        Self { scope: scope.clone(), event }
    }
}

/// What a record says about permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Something was permitted.
    Allowed,
    /// Something was refused.
    Denied,
    /// The record is about an effect or an end, not about permission.
    None,
}

impl Decision {
    /// The word as written in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::None => "none",
        }
    }
}

/// Everything that is recorded. Matched without `_`: a new event must be given its OCSF class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "detail", rename_all = "snake_case")]
pub enum Event {
    /// A writer opened the log. Signed; written by [`crate::Log`] only.
    LogOpened(LogOpened),
    /// A session is forked from another. The first record of the new one.
    SessionForked(SessionForked),
    /// The policy granted a session.
    Granted(Box<Granted>),
    /// The policy refused a session.
    GrantDenied(GrantDenied),
    /// A tier was chosen for a session.
    TierChosen(TierChosen),
    /// A program moved to another tier or engine.
    TierMoved(TierMoved),
    /// A cell is open.
    CellOpened(CellOpened),
    /// A snippet is about to run.
    RunStarted(RunStarted),
    /// What a running cell uses.
    Sampled(Sampled),
    /// A host-function call may go ahead. Written before the function runs.
    CallPermitted(CallPermitted),
    /// A host-function call was refused.
    CallDenied(CallDenied),
    /// A host function came back.
    CallAnswered(CallAnswered),
    /// A person or hook was asked whether a call may go ahead.
    ApprovalAsked(ApprovalAsked),
    /// The answer to that.
    ApprovalAnswered(ApprovalAnswered),
    /// A connection or request through the egress proxy may go out. Written before anything does.
    ConnectionPermitted(ConnectionPermitted),
    /// A connection or request was refused.
    ConnectionDenied(ConnectionDenied),
    /// One that was permitted is over.
    ConnectionEnded(ConnectionEnded),
    /// The guest read a file of the host's.
    FileRead(FileAccess),
    /// The guest wrote or removed a file of the host's.
    FileWritten(FileAccess),
    /// What a session changed in copy-on-write mounts was looked at.
    ChangesCollected(ChangesCollected),
    /// A running cell uses more than a threshold of its policy's.
    ThresholdCrossed(ThresholdCrossed),
    /// A limit struck.
    LimitStruck(LimitHit),
    /// A session was written to bytes.
    SnapshotTaken(Snapshot),
    /// A session was made from bytes.
    SnapshotRestored(Snapshot),
    /// A run or session was ended from outside.
    Killed(Killed),
    /// A session stands still from now on.
    SessionFrozen(Killed),
    /// A session that stood still goes on.
    SessionThawed(Killed),
    /// A kill switch was set and stays set.
    HoldSet(Hold),
    /// A kill switch was released.
    HoldReleased(Hold),
    /// A run came to its end. Written before its outcome leaves.
    RunClosed(RunClosed),
    /// A session came to its end.
    SessionClosed(SessionClosed),
    /// A signed mark of the chain. Written by [`crate::Log`] only.
    Checkpoint(Checkpoint),
}

impl Event {
    /// The event's name as written in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LogOpened(_) => "log_opened",
            Self::SessionForked(_) => "session_forked",
            Self::Granted(_) => "granted",
            Self::GrantDenied(_) => "grant_denied",
            Self::TierChosen(_) => "tier_chosen",
            Self::TierMoved(_) => "tier_moved",
            Self::CellOpened(_) => "cell_opened",
            Self::RunStarted(_) => "run_started",
            Self::Sampled(_) => "sampled",
            Self::CallPermitted(_) => "call_permitted",
            Self::CallDenied(_) => "call_denied",
            Self::CallAnswered(_) => "call_answered",
            Self::ApprovalAsked(_) => "approval_asked",
            Self::ApprovalAnswered(_) => "approval_answered",
            Self::ConnectionPermitted(_) => "connection_permitted",
            Self::ConnectionDenied(_) => "connection_denied",
            Self::ConnectionEnded(_) => "connection_ended",
            Self::FileRead(_) => "file_read",
            Self::FileWritten(_) => "file_written",
            Self::ChangesCollected(_) => "changes_collected",
            Self::ThresholdCrossed(_) => "threshold_crossed",
            Self::LimitStruck(_) => "limit_struck",
            Self::SnapshotTaken(_) => "snapshot_taken",
            Self::SnapshotRestored(_) => "snapshot_restored",
            Self::Killed(_) => "killed",
            Self::SessionFrozen(_) => "session_frozen",
            Self::SessionThawed(_) => "session_thawed",
            Self::HoldSet(_) => "hold_set",
            Self::HoldReleased(_) => "hold_released",
            Self::RunClosed(_) => "run_closed",
            Self::SessionClosed(_) => "session_closed",
            Self::Checkpoint(_) => "checkpoint",
        }
    }

    /// Whether it permits, refuses, or neither.
    pub fn decision(&self) -> Decision {
        let allowed = |yes: bool| if yes { Decision::Allowed } else { Decision::Denied };
        match self {
            Self::Granted(_) | Self::CallPermitted(_) | Self::ConnectionPermitted(_) => Decision::Allowed,
            Self::GrantDenied(_) | Self::CallDenied(_) | Self::ConnectionDenied(_) => Decision::Denied,
            Self::ApprovalAnswered(answer) => allowed(answer.approved),
            Self::FileRead(access) | Self::FileWritten(access) => allowed(access.refused.is_none()),
            Self::LogOpened(_)
            | Self::SessionForked(_)
            | Self::TierChosen(_)
            | Self::TierMoved(_)
            | Self::CellOpened(_)
            | Self::RunStarted(_)
            | Self::Sampled(_)
            | Self::CallAnswered(_)
            | Self::ApprovalAsked(_)
            | Self::ConnectionEnded(_)
            | Self::ChangesCollected(_)
            | Self::ThresholdCrossed(_)
            | Self::LimitStruck(_)
            | Self::SnapshotTaken(_)
            | Self::SnapshotRestored(_)
            | Self::Killed(_)
            | Self::SessionFrozen(_)
            | Self::SessionThawed(_)
            | Self::HoldSet(_)
            | Self::HoldReleased(_)
            | Self::RunClosed(_)
            | Self::SessionClosed(_)
            | Self::Checkpoint(_) => Decision::None,
        }
    }

    /// The detail as JSON, as its author gave it: not yet scrubbed, cut or escaped.
    pub(crate) fn detail(&self) -> Result<Json, serde_json::Error> {
        match self {
            Self::LogOpened(detail) => serde_json::to_value(detail),
            Self::SessionForked(detail) => serde_json::to_value(detail),
            Self::Granted(detail) => serde_json::to_value(detail),
            Self::GrantDenied(detail) => serde_json::to_value(detail),
            Self::TierChosen(detail) => serde_json::to_value(detail),
            Self::TierMoved(detail) => serde_json::to_value(detail),
            Self::CellOpened(detail) => serde_json::to_value(detail),
            Self::RunStarted(detail) => serde_json::to_value(detail),
            Self::Sampled(detail) => serde_json::to_value(detail),
            Self::CallPermitted(detail) => serde_json::to_value(detail),
            Self::CallDenied(detail) => serde_json::to_value(detail),
            Self::CallAnswered(detail) => serde_json::to_value(detail),
            Self::ApprovalAsked(detail) => serde_json::to_value(detail),
            Self::ApprovalAnswered(detail) => serde_json::to_value(detail),
            Self::ConnectionPermitted(detail) => serde_json::to_value(detail),
            Self::ConnectionDenied(detail) => serde_json::to_value(detail),
            Self::ConnectionEnded(detail) => serde_json::to_value(detail),
            Self::FileRead(detail) | Self::FileWritten(detail) => serde_json::to_value(detail),
            Self::ChangesCollected(detail) => serde_json::to_value(detail),
            Self::ThresholdCrossed(detail) => serde_json::to_value(detail),
            Self::LimitStruck(detail) => serde_json::to_value(detail),
            Self::SnapshotTaken(detail) | Self::SnapshotRestored(detail) => serde_json::to_value(detail),
            Self::Killed(detail) | Self::SessionFrozen(detail) | Self::SessionThawed(detail) => {
                serde_json::to_value(detail)
            }
            Self::HoldSet(detail) | Self::HoldReleased(detail) => serde_json::to_value(detail),
            Self::RunClosed(detail) => serde_json::to_value(detail),
            Self::SessionClosed(detail) => serde_json::to_value(detail),
            Self::Checkpoint(detail) => serde_json::to_value(detail),
        }
    }
}

/// A writer opened the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogOpened {
    /// Version of the log's format: 1.
    pub format: u32,
    /// Which program writes, with its version.
    pub writer: String,
    /// The public key that signs, in hexadecimal.
    pub key: Option<String>,
    /// No other writer had the log open.
    pub alone: bool,
    /// What a killed writer left behind after its last complete record.
    pub recovered: Option<Recovered>,
}

/// The bytes of an incomplete record. They stay in the file; the chain goes on behind them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// How many.
    pub bytes: u64,
    /// Their SHA-256.
    pub sha256: String,
}

/// A session is forked from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionForked {
    /// The session whose state it has.
    pub from: SessionId,
    /// Runs that went before, in that session.
    pub runs: u64,
}

/// The policy granted a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The policy's name.
    pub policy: String,
    /// SHA-256 of the resolved policy.
    pub policy_sha256: String,
    /// The least strength it takes.
    pub floor: Strength,
    /// The host functions that may be called.
    pub functions: Vec<String>,
    /// The limits.
    pub limits: Limits,
    /// The locked environment that its CPython has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Locked>,
}

/// A locked environment, by what was installed in it when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// Its name.
    pub name: EnvironmentName,
    /// SHA-256 of its lock file, its interpreter's version and every installed file.
    pub sha256: String,
}

/// The policy refused a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantDenied {
    /// The policy's name.
    pub policy: String,
    /// Why, in one line.
    pub reason: String,
}

/// A tier was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierChosen {
    /// The tier; absent where none fits.
    pub tier: Option<TierName>,
    /// The engine inside it, where it has several.
    pub engine: Option<String>,
    /// Every tier that was looked at.
    pub considered: Vec<Considered>,
}

/// A program moved to another tier or engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierMoved {
    /// Where it was.
    pub from: TierName,
    /// Where it goes on.
    pub to: TierName,
    /// The engine it was in, where the tier has several.
    pub from_engine: Option<String>,
    /// The engine it goes on in, where the tier has several.
    pub to_engine: Option<String>,
    /// Why, in one line.
    pub why: String,
}

/// A cell is open, and what really holds in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellOpened {
    /// The tier.
    pub tier: TierName,
    /// The strength that it really reached here.
    pub strength: Strength,
    /// Line by line, what is enforced.
    pub enforcement: Vec<EnforcementLine>,
}

/// One thing that is enforced, and how far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcementLine {
    /// What: `network`, `syscalls`, `memory` …
    pub what: String,
    /// How far.
    pub level: EnforcementLevel,
    /// Why not fully.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How far something is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnforcementLevel {
    /// All of it.
    Full,
    /// Some of it.
    Partial,
    /// Not at all.
    None,
}

/// A snippet is about to run. Its text is not kept, only what identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// SHA-256 of the source.
    pub sha256: String,
    /// Size of the source in bytes.
    pub bytes: u64,
    /// The file name that tracebacks show.
    pub file: String,
    /// The engine, where the tier has several.
    pub engine: Option<String>,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// A command, not a program: what was named to be run. Its arguments count towards the hash and are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl RunStarted {
    /// What identifies this source.
    pub fn of(source: &ringfence_types::Source) -> Self {
        Self {
            sha256: crate::chain::sha256_hex(source.code.as_bytes()),
            bytes: source.code.len() as u64,
            file: source.file.clone(),
            engine: source.engine.map(|engine| engine.as_str().to_owned()),
            inputs: source.inputs.iter().map(|(name, _)| name.clone()).collect(),
            command: None,
        }
    }

    /// What identifies this command: the hash is over its arguments, each with a NUL behind it.
    pub fn of_command(command: &ringfence_types::Command) -> Self {
        let text: String = command.arguments().iter().flat_map(|argument| [argument.as_str(), "\0"]).collect();
        Self {
            sha256: crate::chain::sha256_hex(text.as_bytes()),
            bytes: text.len() as u64,
            file: "command".to_owned(),
            engine: None,
            inputs: Vec::new(),
            command: Some(command.program().to_owned()),
        }
    }
}

/// What a running cell uses, read from outside. Written again and again while a run lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Processor time since the last sample or the start, in percent of one processor.
    pub cpu_percent: u32,
    /// Memory now, in bytes.
    pub memory: u64,
    /// Processes now.
    pub processes: u32,
    /// Bytes that it read from and wrote to disks since its cell was opened; absent where that can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
}

/// A running cell uses more than a threshold of its policy's, `monitor.ACTION.MEASURE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdCrossed {
    /// What is done about it.
    pub action: MonitorAction,
    /// Of what it uses too much.
    pub measure: Measure,
    /// The threshold: bytes, percent of one processor, or processes.
    pub threshold: u64,
    /// What was found.
    pub reached: u64,
}

/// What a session changed in copy-on-write mounts, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesCollected {
    /// Paths that the host does not have.
    pub added: u64,
    /// Files with another content than the host's.
    pub changed: u64,
    /// Paths of the host's that are gone.
    pub removed: u64,
    /// What is not collected.
    pub skipped: u64,
    /// Bytes of the added and changed files.
    pub bytes: u64,
    /// Whether everything was looked at.
    pub complete: bool,
    /// SHA-256 of the list as JSON.
    pub sha256: String,
}

/// A host-function call may go ahead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallPermitted {
    /// The call's number in its session.
    pub call: u64,
    /// The host function.
    pub function: String,
    /// The arguments by name, already redacted.
    pub arguments: Json,
}

/// A host-function call was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallDenied {
    /// The call's number in its session.
    pub call: u64,
    /// The name that the guest gave.
    pub function: String,
    /// The arguments as the guest gave them, already redacted.
    pub arguments: Json,
    /// Why, in one line.
    pub reason: String,
    /// Where the policy says so, such as `functions.send_email.rate`.
    pub rule: Option<String>,
}

/// A host function came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAnswered {
    /// The call's number in its session.
    pub call: u64,
    /// The host function.
    pub function: String,
    /// How it went.
    pub outcome: CallOutcome,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// Size of the encoded result.
    pub result_bytes: u64,
}

/// How a host-function call went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// It returned.
    Ok,
    /// It failed.
    Error {
        /// The exception's type as the guest sees it; `timeout` where it did not answer in time and was given up.
        #[serde(rename = "type")]
        kind: String,
    },
    /// It was given up: the run ended first.
    Cancelled,
}

/// Someone was asked whether a call may go ahead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAsked {
    /// The call's number in its session.
    pub call: u64,
    /// The host function.
    pub function: String,
    /// The arguments that were shown, already redacted.
    pub arguments: Json,
}

/// The answer to an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswered {
    /// The call's number in its session.
    pub call: u64,
    /// The host function.
    pub function: String,
    /// Whether the call may go ahead.
    pub approved: bool,
    /// Who answered, where it is known.
    pub by: Option<String>,
    /// Why, in one line.
    pub reason: Option<String>,
}

/// What a connection or request through the egress proxy is about. Guest text, cut and escaped; never a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The number of the cell's connection to the proxy; several requests may share one.
    pub connection: u64,
    /// The host; empty where the request could not be read that far.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
    /// `CONNECT` for a tunnel, else the request's method.
    pub method: Option<String>,
    /// The path without its query, where it can be seen.
    pub path: Option<String>,
}

/// A connection or request may go out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionPermitted {
    /// What it is about.
    #[serde(flatten)]
    pub to: Connection,
    /// Where the policy says so, such as `network.allow[0]`.
    pub rule: Option<String>,
    /// Names of the secrets that were put in.
    pub secrets: Vec<String>,
    /// The checked address that it goes to.
    pub address: Option<String>,
}

/// A connection or request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionDenied {
    /// What it is about.
    #[serde(flatten)]
    pub to: Connection,
    /// Why, in one line.
    pub reason: String,
}

/// A connection or request that was permitted is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEnded {
    /// What it is about.
    #[serde(flatten)]
    pub to: Connection,
    /// Bytes to the host, as they crossed the network.
    pub bytes_up: u64,
    /// Bytes from the host.
    pub bytes_down: u64,
    /// From the permit to the end, in microseconds.
    pub duration_us: u64,
    /// Why it ended early.
    pub fault: Option<String>,
}

/// The guest reached for a file of the host's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAccess {
    /// The path as the guest gave it.
    pub path: String,
    /// Bytes read or written.
    pub bytes: u64,
    /// Why it was refused; absent where it was allowed.
    pub refused: Option<String>,
}

/// A session as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// SHA-256 of the bytes.
    pub sha256: String,
    /// How many.
    pub bytes: u64,
}

/// A run or session was ended from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// Who asked: `cancel`, `kill`, `hold`, `anomaly` …
    pub by: String,
    /// Why, in one line.
    pub reason: Option<String>,
}

/// A kill switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// What it holds: `all`, `tenant:NAME` or `function:NAME`.
    pub target: String,
    /// Who set or released it.
    pub by: String,
    /// Why, in one line.
    pub reason: Option<String>,
}

/// A run came to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunClosed {
    /// How it ended.
    pub status: Status,
    /// What it used.
    pub usage: Usage,
    /// The limit, for `limited`.
    pub limit: Option<LimitHit>,
    /// The exception's type, for `raised`.
    pub exception: Option<String>,
    /// How a command ended; absent for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// One line for the other ends.
    pub reason: Option<String>,
}

/// A session came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClosed {
    /// Why: `closed`, `idle`, `lifetime`, `killed` …
    pub reason: String,
    /// How many runs it had.
    pub runs: u64,
}

/// A signed mark of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// What made the log write it.
    pub reason: CheckpointReason,
    /// The public key that signs, in hexadecimal; absent where the log has no key.
    pub key: Option<String>,
}

/// What made the log write a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointReason {
    /// So many records since the last one.
    Interval,
    /// The host asked for one.
    Asked,
    /// This writer closed the log; others still have it open.
    Left,
    /// The last writer closed the log. Only a signed `log_opened` may follow.
    Closed,
}
