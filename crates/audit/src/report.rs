//! What a verifier found.

use std::fmt;

use serde::Serialize;

use crate::record::Link;

/// Findings that are listed; what is over it is counted only.
pub const FINDINGS_MAX: usize = 1000;

/// What is wrong at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The record is not the one that was written.
    Edited,
    /// Records are gone from the middle.
    Missing,
    /// A record stands at another place than it was written.
    Reordered,
    /// A record stands there twice.
    Duplicated,
    /// Records are gone from the end.
    Truncated,
    /// A signature is missing or does not fit.
    BadSignature,
    /// A line that is no record.
    NotARecord,
    /// A line over the longest that is ever written.
    TooLong,
    /// A record behind a closed log.
    Appended,
    /// The head is missing, or not signed by the key of the log.
    BadHead,
    /// The last record is not complete: the writer was killed, or is at work. Not a fault.
    Incomplete,
    /// A killed writer's incomplete record, which the next writer accounted for. Not a fault.
    Recovered,
}

impl FindingKind {
    /// Whether it shows that somebody changed the log.
    pub fn is_fault(self) -> bool {
        !matches!(self, Self::Incomplete | Self::Recovered)
    }

    /// The name as printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Missing => "missing",
            Self::Reordered => "reordered",
            Self::Duplicated => "duplicated",
            Self::Truncated => "truncated",
            Self::BadSignature => "bad signature",
            Self::NotARecord => "not a record",
            Self::TooLong => "too long",
            Self::Appended => "appended",
            Self::BadHead => "bad head",
            Self::Incomplete => "incomplete",
            Self::Recovered => "recovered",
        }
    }
}

/// One thing that was found. Its message holds no text of the log's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The line, from 1; where records are gone, the line behind them.
    pub line: u64,
    /// The record's number, where one can be named.
    pub seq: Option<u64>,
    /// What it is.
    pub kind: FindingKind,
    /// In one sentence.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.kind.as_str(), self.message)
    }
}

/// The verifier's answer in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing was changed, and the log was closed.
    Intact,
    /// Nothing was changed up to the last complete record; a writer is at work, or was killed.
    Unfinished,
    /// What is there holds together, but no signed head vouches for its length: records may be gone from the end.
    Unanchored,
    /// Something was changed.
    Broken,
}

/// What a verifier found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Complete records.
    pub records: u64,
    /// The last record in order. Compare it with one that was kept elsewhere.
    pub last: Link,
    /// Up to here a signature vouches for the records; 0 where none does.
    pub signed_to: u64,
    /// Whether the log ends as a log that was closed.
    pub closed: bool,
    /// Whether there was a key to check signatures with.
    pub key_checked: bool,
    /// Whether there was a signed head to compare the end with.
    pub head_checked: bool,
    /// What was found, by line, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Findings over that.
    pub unlisted: u64,
    #[serde(skip)]
    pub(crate) faulty: bool,
}

impl Report {
    /// The answer in a word.
    pub fn verdict(&self) -> Verdict {
        match (self.faulty, self.head_checked, self.closed) {
            (true, ..) => Verdict::Broken,
            (false, false, _) => Verdict::Unanchored,
            (false, true, true) => Verdict::Intact,
            (false, true, false) => Verdict::Unfinished,
        }
    }

    /// Whether there are lines, and not one of them is a record: another file than a log, or one that was overwritten.
    pub fn is_no_log(&self) -> bool {
        let line = |finding: &Finding| {
            matches!(finding.kind, FindingKind::NotARecord | FindingKind::TooLong | FindingKind::Incomplete)
        };
        self.records == 0 && self.findings.iter().any(line)
    }

    pub(crate) fn has(&self, kind: FindingKind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }

    pub(crate) fn add(&mut self, line: u64, seq: Option<u64>, kind: FindingKind, message: String) {
        self.faulty |= kind.is_fault();
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { line, seq, kind, message });
        } else {
            self.unlisted += 1;
        }
    }
}

/// The summary in one line: how far the log holds, and what could not be checked.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.seq;
        match self.verdict() {
            Verdict::Broken => {
                let faults = self.findings.iter().filter(|finding| finding.kind.is_fault()).count() as u64;
                write!(f, "broken: {} faults in {} records", faults + self.unlisted, self.records)?;
            }
            Verdict::Intact => write!(f, "intact: {} records, closed", self.records)?,
            Verdict::Unfinished => write!(f, "verified up to record {last}: the log was not closed")?,
            Verdict::Unanchored => {
                let records = self.records;
                write!(f, "not anchored: nothing proves that this is the whole log; {records} records hold together")?;
            }
        }
        if !self.key_checked {
            write!(f, "; signatures not checked, no public key given")
        } else if self.signed_to < last {
            write!(f, "; records {} to {last} are chained but not signed yet", self.signed_to + 1)
        } else {
            Ok(())
        }
    }
}
