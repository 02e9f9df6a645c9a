//! The result of one run, the same shape for every tier.

use serde::Serialize;

use crate::call::{GuestException, MimeBundle};
use crate::changes::Changes;
use crate::id::{RunId, SessionId};
use crate::limits::LimitKind;
use crate::strength::{Strength, TierName};
use crate::value::Value;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The program ran to its end.
    Completed,
    /// The program raised an exception.
    Raised,
    /// The policy refused it before anything ran.
    Denied,
    /// A limit struck; the outcome names it.
    Limited,
    /// No allowed tier can run the program.
    Unsupported,
    /// A kill switch or `kill` ended it.
    Killed,
    /// The worker died.
    Crashed,
    /// The caller gave it up.
    Cancelled,
}

impl Status {
    /// Every status, in the order of the documents.
    pub const ALL: [Self; 8] = [
        Self::Completed,
        Self::Raised,
        Self::Denied,
        Self::Limited,
        Self::Unsupported,
        Self::Killed,
        Self::Crashed,
        Self::Cancelled,
    ];

    /// The name as it appears in outcomes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Raised => "raised",
            Self::Denied => "denied",
            Self::Limited => "limited",
            Self::Unsupported => "unsupported",
            Self::Killed => "killed",
            Self::Crashed => "crashed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A limit that struck: what was allowed and what was reached, in bytes, milliseconds or calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct LimitHit {
    /// Which limit.
    pub kind: LimitKind,
    /// What was allowed.
    pub allowed: u64,
    /// What was reached, where it is known; at least `allowed`.
    pub reached: u64,
}

/// What a run used. Every number is taken by the host.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// Real time, in milliseconds, host calls included.
    pub wall_ms: f64,
    /// Processor time of the guest, in milliseconds.
    pub cpu_ms: f64,
    /// Highest resident memory of the guest's processes, in bytes.
    pub peak_memory: u64,
    /// Host-function calls, refused ones too.
    pub host_calls: u32,
    /// Bytes printed in all, dropped ones too.
    pub output_bytes: u64,
}

/// Bytes of output that were not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Dropped {
    /// Of standard output.
    pub stdout: u64,
    /// Of standard error.
    pub stderr: u64,
}

/// One tier that was looked at, and why it was taken or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Considered {
    /// The tier.
    pub tier: TierName,
    /// Whether it was found to satisfy the policy and to be able to run the program.
    pub fit: bool,
    /// The reason, in one line.
    pub why: String,
}

/// The records of the audit log that belong to a run: first and last sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct AuditSpan {
    /// Sequence number of its first record.
    pub first: u64,
    /// Sequence number of its closing record.
    pub last: u64,
}

/// A rich result that the program showed.
pub type Shown = MimeBundle;

/// The result of one run. There is always one: a guest that hangs, floods, lies or dies gets one too.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session: SessionId,
    /// The tier it ran in; absent where nothing was opened.
    pub tier: Option<TierName>,
    /// The strength that the tier really reached.
    pub strength: Option<Strength>,
    /// The engine inside the tier, where it has several.
    pub engine: Option<String>,
    /// How it ended.
    pub status: Status,
    /// The last expression's value, as in a notebook.
    pub value: Option<Value>,
    /// Rich results in order.
    pub shown: Vec<Shown>,
    /// Standard output, head and tail where it was cut.
    pub stdout: String,
    /// Standard error, head and tail where it was cut.
    pub stderr: String,
    /// What was cut.
    pub dropped: Dropped,
    /// How a command ended: its exit code, or 128 and the number of the signal that ended it. Absent for programs.
    pub exit_code: Option<i32>,
    /// The exception, for `raised`.
    pub exception: Option<GuestException>,
    /// The limit, for `limited`.
    pub limit: Option<LimitHit>,
    /// One line for `denied`, `unsupported`, `killed`, `crashed` and `cancelled`: who must act, and the next step.
    pub reason: Option<String>,
    /// What it used.
    pub usage: Usage,
    /// Every tier that was looked at.
    pub chosen: Vec<Considered>,
    /// Where it stands in the audit log.
    pub audit: Option<AuditSpan>,
    /// What the session changed in copy-on-write mounts so far, where a front door asked.
    pub changes: Option<Changes>,
}
