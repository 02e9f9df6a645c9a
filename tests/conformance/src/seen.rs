//! What one case did, and whether that is a verdict that was expected.
//!
//! Answers to: `kinds`, which fill it, and `oracle`, which checks it. Must not: be lenient: a refusal needs evidence.

use std::path::PathBuf;
use std::time::Duration;

use ringfence_audit::Record;
use ringfence_types::{FileEntry, LimitKind, Outcome, Status};

use crate::case::Evidence;

/// What one case did.
#[derive(Debug, Default)]
pub struct Seen {
    /// One outcome for each snippet.
    pub outcomes: Vec<Outcome>,
    /// Verdicts that the steps themselves gave.
    pub verdicts: Vec<String>,
    /// What is wrong whatever was expected.
    pub faults: Vec<String>,
    /// Records of the session.
    pub records: Vec<Record>,
    /// The lines of the log as they stand in the file.
    pub lines: String,
    /// Real time of the first snippet.
    pub wall: Duration,
    /// How much the host's memory grew, in bytes.
    pub host_growth: u64,
    /// How much the host's files grew, in bytes.
    pub disk_growth: u64,
    /// Processes left after the session was closed.
    pub residual: usize,
    /// Calls that reached a host function's body.
    pub calls: Vec<crate::tools::Called>,
    /// The session's files after the run, with their content.
    pub files: Vec<(FileEntry, Vec<u8>)>,
    /// What became of fetching each special file that a case may make: its length, or the refusal.
    pub fetched: Vec<(&'static str, Result<usize, String>)>,
    /// Files put in before the run.
    pub uploads: Vec<String>,
    /// When output came, counted from the start.
    pub events: Vec<Duration>,
    /// Queries at the name server's place.
    pub dns_queries: usize,
    /// The log.
    pub log: PathBuf,
}

impl Seen {
    /// The outcome of the last snippet that counts.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcomes.first()
    }

    /// The verdict in one word, for the table.
    pub fn verdict(&self) -> String {
        if let Some(first) = self.verdicts.first() {
            return first.clone();
        }
        let Some(outcome) = self.outcome() else { return "nothing".to_owned() };
        match (outcome.status, outcome.limit) {
            (Status::Limited, Some(hit)) => format!("limit:{}", limit_name(hit.kind)),
            (Status::Crashed, _) => "crash-contained".to_owned(),
            (Status::Denied, _) => "deny".to_owned(),
            (Status::Raised, _) => format!("raised {}", self.exception()),
            (status, _) => status.as_str().to_owned(),
        }
    }

    fn exception(&self) -> &str {
        self.outcome().and_then(|outcome| outcome.exception.as_ref()).map_or("", |exception| exception.kind.as_str())
    }

    /// Whether this verdict is what was seen. A refusal, and an attack that leads nowhere, count only with the evidence
    /// that the case names: a driver that fails everything refuses nothing.
    pub fn is(&self, verdict: &str, evidence: &Evidence) -> bool {
        if !self.verdicts.is_empty() {
            return self.verdicts.iter().all(|seen| seen == verdict);
        }
        let Some(outcome) = self.outcome() else { return false };
        match verdict {
            "ok" => outcome.status == Status::Completed,
            "contain" => evidence.is_in(outcome),
            "deny" => outcome.status == Status::Denied || evidence.is_in(outcome),
            "unsupported" => outcome.status == Status::Unsupported,
            "crash-contained" => outcome.status == Status::Crashed,
            "limit:calls" => self.limit_is("calls") || self.rule_struck(".max_calls"),
            "limit:rate" => self.rule_struck(".rate"),
            limit => limit.strip_prefix("limit:").is_some_and(|name| self.limit_is(name)),
        }
    }

    /// The cases set one span of time; it is given to both clocks, and either may strike first.
    fn limit_is(&self, name: &str) -> bool {
        let Some(hit) = self.outcome().and_then(|outcome| outcome.limit) else { return false };
        let struck = limit_name(hit.kind);
        struck == name || (name == "cpu" && struck == "wall") || (name == "wall" && struck == "cpu")
    }

    fn rule_struck(&self, end: &str) -> bool {
        self.records.iter().any(|record| {
            let rule = record.detail.get("rule").and_then(serde_json::Value::as_str);
            record.event == "call_denied" && rule.is_some_and(|rule| rule.ends_with(end))
        })
    }
}

/// The word of the cases for a limit.
pub fn limit_name(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::HostCalls => "calls",
        LimitKind::Processes => "pids",
        LimitKind::OpenFiles => "fds",
        other => other.as_str(),
    }
}
