//! What is asked and answered over a control socket: one line of JSON each way.
//!
//! Answers to: `listener` and `client`. Must not: be without bound.

use std::str::FromStr;

use ringfence_bridge::Hold;
use ringfence_session::{Running, Target};
use ringfence_types::{Io, Measure, RunId, SessionId, Tenant};
use serde::{Deserialize, Serialize};

/// The longest line that is read.
pub const LINE_MAX: u64 = 1 << 20;

/// What is asked of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Which sessions there are.
    List,
    /// End sessions; with a hold, nothing new begins either.
    Kill {
        /// Which.
        target: Wanted,
        /// Who asks, for the outcomes and the log.
        by: String,
        /// Why, in one line.
        reason: Option<String>,
        /// The kill switch that stays set.
        hold: Option<Hold>,
    },
    /// Make sessions stand still, or go on.
    Freeze {
        /// Which.
        target: Wanted,
        /// Whether they are to stand still.
        still: bool,
        /// Who asks, for the log.
        by: String,
        /// Why, in one line.
        reason: Option<String>,
    },
    /// Release a kill switch.
    Release {
        /// Which.
        hold: Hold,
    },
}

/// What a process answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// Its sessions.
    Sessions {
        /// Oldest first.
        sessions: Vec<SessionRow>,
    },
    /// How many sessions were ended.
    Killed {
        /// How many.
        count: usize,
    },
    /// How many sessions stand still, or go on, that did not before.
    Frozen {
        /// How many.
        count: usize,
        /// Why others do not, each with its session.
        faults: Vec<String>,
    },
    /// Done.
    Done,
    /// Not done, and why.
    Failed {
        /// Why.
        why: String,
    },
}

/// Which sessions are meant: `all`, `tenant:NAME`, `function:NAME`, a run or a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Wanted(pub Target);

/// Text that names no sessions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a run (`run_…`) nor a session (`ses_…`); `ringfence ps` lists them")]
pub struct NotWanted(String);

impl FromStr for Wanted {
    type Err = NotWanted;
    fn from_str(text: &str) -> Result<Self, NotWanted> {
        let bad = || NotWanted(ringfence_audit::escape(text, 80));
        let target = match text.split_once(':') {
            Some(("tenant", name)) => Target::Tenant(name.parse::<Tenant>().map_err(|_| bad())?),
            Some(("function", name)) if !name.is_empty() => Target::Function(name.to_owned()),
            None if text == "all" => Target::All,
            None if text.starts_with("run_") => Target::Run(text.parse::<RunId>().map_err(|_| bad())?),
            None if text.starts_with("ses_") => Target::Session(text.parse::<SessionId>().map_err(|_| bad())?),
            _ => return Err(bad()),
        };
        Ok(Self(target))
    }
}
impl TryFrom<String> for Wanted {
    type Error = NotWanted;
    fn try_from(text: String) -> Result<Self, NotWanted> {
        text.parse()
    }
}
impl From<Wanted> for String {
    fn from(wanted: Wanted) -> Self {
        match wanted.0 {
            Target::All => "all".to_owned(),
            Target::Tenant(tenant) => format!("tenant:{tenant}"),
            Target::Function(function) => format!("function:{function}"),
            Target::Run(run) => run.into(),
            Target::Session(session) => session.into(),
        }
    }
}

/// One session of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The session.
    pub session: SessionId,
    /// The run under way, if one is.
    pub run: Option<RunId>,
    /// Whose it is.
    pub tenant: Tenant,
    /// Where it runs, once that is chosen.
    pub tier: Option<ringfence_types::TierName>,
    /// Host functions that are being called.
    pub calls: Vec<String>,
    /// How long it has existed, in milliseconds.
    pub age_ms: u64,
    /// Processor time of its cell so far, in milliseconds.
    #[serde(default)]
    pub cpu_ms: Option<u64>,
    /// Memory of its cell now, in bytes.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Processes of its cell now.
    #[serde(default)]
    pub processes: Option<u32>,
    /// Bytes that its cell read from and wrote to disks; absent where that can't be read.
    #[serde(default)]
    pub io: Option<Io>,
    /// Of what its run uses more than a threshold of its policy's.
    #[serde(default)]
    pub crossed: Vec<Measure>,
    /// Whether it stands still.
    #[serde(default)]
    pub frozen: bool,
}

impl From<Running> for SessionRow {
    fn from(row: Running) -> Self {
        Self {
            session: row.session,
            run: row.run,
            tenant: row.tenant,
            tier: row.tier,
            calls: row.calls,
            age_ms: u64::try_from(row.age.as_millis()).unwrap_or(u64::MAX),
            cpu_ms: row.usage.map(|(used, _)| u64::try_from(used.cpu.as_millis()).unwrap_or(u64::MAX)),
            memory: row.usage.map(|(_, held)| held.memory),
            processes: row.usage.map(|(_, held)| held.processes),
            io: row.usage.and_then(|(_, held)| held.io),
            crossed: row.crossed,
            frozen: row.frozen,
        }
    }
}
