//! Verifies a log line by line in bounded memory, and names what is wrong.
//!
//! Answers to: `ringfence audit verify`, and any third party. Must not: write, or trust a single
//! byte of what it reads. After a fault it goes on from the next good record, so that one edit is
//! one finding and not a thousand.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::chain::Hash;
use crate::error::AuditError;
use crate::event::{CheckpointReason, Event, Recovered};
use crate::file_sink::{Beside, lock, read_small};
use crate::key::{Head, PublicKey};
use crate::record::{Framed, LINE_MAX, Link, Record};
use crate::report::{FindingKind as Kind, Report};

/// Ranges of missing records that are remembered while looking for them further down.
const GAPS_MAX: usize = 1000;

/// What a log is held against.
#[derive(Debug, Clone, Default)]
pub struct Against {
    /// The key that must have signed it. Without one signatures are not checked.
    pub key: Option<PublicKey>,
    /// The signed head that it must reach.
    pub head: Option<Head>,
}

/// Verifies a log without its head: it is at best unanchored, since a cut at its end can't be seen.
pub fn verify(log: impl BufRead, key: Option<PublicKey>) -> io::Result<Report> {
    verify_against(log, Against { key, head: None })
}

/// Verifies a log.
pub fn verify_against(mut log: impl BufRead, against: Against) -> io::Result<Report> {
    let mut checker = Checker::new(against);
    let mut line = Vec::new();
    loop {
        line.clear();
        match read_line(&mut log, &mut line)? {
            LineEnd::Nothing => break,
            LineEnd::TooLong => {
                checker.number += 1;
                let terminated = checker.skip_long(&mut log, &line)?;
                checker.open_ended = !terminated;
            }
            LineEnd::Newline => checker.line(&line, true),
            LineEnd::EndOfFile => checker.line(&line, false),
        }
    }
    Ok(checker.finish())
}

/// Verifies a log file with its head, and with the public key beside it unless one is pinned. A log whose key is known
/// and whose head is gone is broken: its writer always leaves one.
pub fn verify_file(path: &Path, pinned: Option<PublicKey>) -> Result<Report, AuditError> {
    let mut report = verify_file_unanchored(path, pinned)?;
    if report.key_checked && !report.head_checked && !report.has(Kind::BadHead) {
        let message = "the file of the head is missing or unreadable, so records may be cut from the end".to_owned();
        report.add(0, None, Kind::BadHead, message);
    }
    Ok(report)
}

/// The same for a log whose head may be gone: a part that was handed on, or a copy without the files beside it. What
/// is there is verified; without a head the verdict is at best [`Unanchored`](crate::Verdict::Unanchored).
pub fn verify_file_unanchored(path: &Path, pinned: Option<PublicKey>) -> Result<Report, AuditError> {
    let beside = Beside::of(path);
    let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let key = match (pinned, read_small(&beside.public_key)) {
        (Some(key), _) => Some(key),
        (None, Ok(text)) => Some(text.parse().map_err(|_| AuditError::BadKey { path: beside.public_key })?),
        (None, Err(error)) if absent(&error) => None,
        (None, Err(cause)) => return Err(AuditError::Open { path: beside.public_key, cause }),
    };
    // The head first: the log only grows, so it reaches at least an older head.
    let head = match read_small(&beside.head) {
        Ok(text) => Head::parse(&text),
        Err(error) if absent(&error) => None,
        Err(cause) => return Err(AuditError::Open { path: beside.head, cause }),
    };
    let file = File::open(path).map_err(AuditError::open(path))?;
    // Between two turns of the writers, so that half a line of a writer at work is not seen.
    lock(path, || file.try_lock_shared())?;
    let size = file.metadata().map_err(AuditError::open(path))?.len();
    file.unlock().map_err(AuditError::open(path))?;
    let log = BufReader::with_capacity(256 << 10, file.take(size));
    verify_against(log, Against { key, head }).map_err(AuditError::open(path))
}

enum LineEnd {
    Newline,
    EndOfFile,
    TooLong,
    Nothing,
}

/// Reads one line without its newline, at most [`LINE_MAX`] bytes and one.
fn read_line(log: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<LineEnd> {
    log.take(LINE_MAX as u64 + 1).read_until(b'\n', line)?;
    Ok(match line.pop() {
        None => LineEnd::Nothing,
        Some(b'\n') => LineEnd::Newline,
        Some(other) => {
            line.push(other);
            if line.len() > LINE_MAX { LineEnd::TooLong } else { LineEnd::EndOfFile }
        }
    })
}

struct Checker {
    against: Against,
    report: Report,
    /// Number of the line at hand.
    number: u64,
    /// The last record in order.
    last: Link,
    /// How far `last` may be trusted to be what the next record names.
    trust: Trust,
    gaps: Vec<Gap>,
    remains: Option<Remains>,
    /// The last line had no newline.
    open_ended: bool,
}

enum Trust {
    /// Its hash is right.
    Right,
    /// It was already reported as edited.
    Reported,
}

struct Gap {
    first: u64,
    last: u64,
    line: u64,
}

/// Lines behind one another that are no records, until the next record says whether it knew.
struct Remains {
    first_line: u64,
    lines: u64,
    bytes: u64,
    too_long: bool,
    hasher: Sha256,
}

impl Checker {
    fn new(mut against: Against) -> Self {
        let mut report = Report {
            records: 0,
            last: Link::START,
            signed_to: 0,
            closed: false,
            key_checked: against.key.is_some(),
            head_checked: false,
            findings: Vec::new(),
            unlisted: 0,
            faulty: false,
        };
        // A head that nobody vouches for says nothing.
        match (&against.key, &against.head) {
            (Some(key), Some(head)) if key.signed_head(head) => report.head_checked = true,
            (Some(_), Some(_)) => {
                report.add(0, None, Kind::BadHead, "the head is not signed by the key of the log".to_owned());
                against.head = None;
            }
            _ => against.head = None,
        }
        let (gaps, remains) = (Vec::new(), None);
        Self { against, report, number: 0, last: Link::START, trust: Trust::Right, gaps, remains, open_ended: false }
    }

    fn line(&mut self, line: &[u8], terminated: bool) {
        self.number += 1;
        self.open_ended = !terminated;
        match (Record::parse(line), Framed::split(line)) {
            (None, _) => self.remain(line),
            (Some(_), None) => {
                self.settle(None);
                self.edited_in_place("record {} does not end in a hash".to_owned(), Hash::NONE);
            }
            (Some(record), Some(framed)) => self.record(&record, &framed),
        }
    }

    fn record(&mut self, record: &Record, framed: &Framed<'_>) {
        self.report.records += 1;
        if framed.computed() != framed.hash {
            self.settle(None);
            return self.edited_in_place("record {} does not have the hash it names".to_owned(), framed.hash);
        }
        self.settle(Some(record));
        let expected = self.last.seq.saturating_add(1);
        if record.seq < expected {
            return self.late(record.seq);
        }
        if record.seq > expected {
            self.gap(expected, record.seq - 1);
        } else if record.prev != self.last.hash.to_string() && matches!(self.trust, Trust::Right) {
            self.unlinked(record.seq);
        }
        self.last = Link { seq: record.seq, hash: framed.hash };
        self.trust = Trust::Right;
        self.marks(record, framed);
    }

    /// A record that its own hash gives the lie: its number is not believed either.
    fn edited_in_place(&mut self, message: String, hash: Hash) {
        let seq = self.last.seq.saturating_add(1);
        self.report.add(self.number, Some(seq), Kind::Edited, message.replace("{}", &seq.to_string()));
        self.last = Link { seq, hash };
        self.trust = Trust::Reported;
        self.report.closed = false;
    }

    /// The record before this one has a hash of its own, but not the one that this one names.
    fn unlinked(&mut self, seq: u64) {
        let (line, before) = (self.number, seq - 1);
        let (line, seq, message) = if before == 0 {
            (line, 1, "record 1 names a record before it".to_owned())
        } else {
            (line - 1, before, format!("record {seq} names another hash for record {before}"))
        };
        self.report.add(line, Some(seq), Kind::Edited, message);
    }

    fn late(&mut self, seq: u64) {
        let Some(index) = self.gaps.iter().position(|gap| (gap.first..=gap.last).contains(&seq)) else {
            let message = format!("record {seq} stands here again");
            return self.report.add(self.number, Some(seq), Kind::Duplicated, message);
        };
        let Gap { first, last, line } = self.gaps.swap_remove(index);
        let halves = [Gap { first, last: seq - 1, line }, Gap { first: seq + 1, last, line }];
        self.gaps.extend(halves.into_iter().filter(|gap| gap.first <= gap.last));
        let message = format!("record {seq} stands behind record {}", self.last.seq);
        self.report.add(self.number, Some(seq), Kind::Reordered, message);
    }

    fn gap(&mut self, first: u64, last: u64) {
        let gap = Gap { first, last, line: self.number };
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
        } else {
            self.missing(&gap);
        }
    }

    fn missing(&mut self, gap: &Gap) {
        let message = if gap.first == gap.last {
            format!("record {} is missing", gap.first)
        } else {
            format!("records {} to {} are missing", gap.first, gap.last)
        };
        self.report.add(gap.line, Some(gap.first), Kind::Missing, message);
    }

    /// Signatures, closings and the head, for a record that is in its place.
    fn marks(&mut self, record: &Record, framed: &Framed<'_>) {
        let seq = record.seq;
        let event = matches!(record.event.as_str(), "log_opened" | "checkpoint").then(|| record.typed()).flatten();
        let opened = matches!(event, Some(Event::LogOpened(_)));
        if self.report.closed && !opened {
            let message = format!("record {seq} was added after the log was closed");
            self.report.add(self.number, Some(seq), Kind::Appended, message);
        }
        let closing =
            |event: &Event| matches!(event, Event::Checkpoint(mark) if mark.reason == CheckpointReason::Closed);
        self.report.closed = event.as_ref().is_some_and(closing);
        let must_sign = matches!(record.event.as_str(), "log_opened" | "checkpoint");
        if let Some(key) = self.against.key.filter(|_| must_sign || framed.signature.is_some()) {
            self.signature(seq, framed, key);
        }
        if self.against.head.as_ref().is_some_and(|head| head.seq == seq && head.hash != framed.hash) {
            let message = format!("record {seq} is not the one that the head was signed for");
            self.report.add(self.number, Some(seq), Kind::Edited, message);
        }
    }

    fn signature(&mut self, seq: u64, framed: &Framed<'_>, key: PublicKey) {
        let message = match framed.signature {
            Some(signature) if key.signed_record(&framed.hash, signature) => {
                self.report.signed_to = seq;
                return;
            }
            Some(_) => {
                let from = self.report.signed_to + 1;
                format!(
                    "the signature of record {seq} does not fit: one of records {from} to {seq} was changed, or another key signed"
                )
            }
            None => format!("record {seq} has no signature"),
        };
        self.report.add(self.number, Some(seq), Kind::BadSignature, message);
    }

    fn remain(&mut self, line: &[u8]) {
        let number = self.number;
        let remains = self.remains.get_or_insert_with(|| Remains::new(number));
        remains.start_line();
        remains.push(line);
    }

    /// Passes over the rest of a line that is too long to be a record. Whether it had a newline.
    fn skip_long(&mut self, log: &mut impl BufRead, start: &[u8]) -> io::Result<bool> {
        self.remain(start);
        loop {
            let chunk = log.fill_buf()?;
            let newline = chunk.iter().position(|byte| *byte == b'\n');
            let (taken, used) = newline.map_or((chunk, chunk.len()), |at| (chunk.get(..at).unwrap_or(chunk), at + 1));
            if let Some(remains) = &mut self.remains {
                remains.push(taken);
                remains.too_long = true;
            }
            log.consume(used);
            if newline.is_some() || used == 0 {
                return Ok(newline.is_some());
            }
        }
    }

    /// Decides what the lines before this record were, now that it is known.
    fn settle(&mut self, record: Option<&Record>) {
        let told = record.filter(|record| record.event == "log_opened").and_then(Record::typed);
        let told = match told {
            Some(Event::LogOpened(opened)) => opened.recovered,
            _ => None,
        };
        match (self.remains.take(), told) {
            (None, None) => {}
            (Some(remains), Some(told)) if remains.is(&told) => {
                let message = format!("{} bytes of an incomplete record, accounted for by the next writer", told.bytes);
                self.report.add(remains.first_line, None, Kind::Recovered, message);
            }
            (remains, told) => {
                if told.is_some() {
                    let seq = self.last.seq.saturating_add(1);
                    let message = format!("what stood incomplete before record {seq} was changed or removed");
                    self.report.add(self.number, Some(seq), Kind::Edited, message);
                }
                if let Some(remains) = remains {
                    self.not_records(&remains, record.map(|record| record.seq));
                }
            }
        }
    }

    /// Lines that are no records take the place of records that are gone, as far as any are.
    fn not_records(&mut self, remains: &Remains, next: Option<u64>) {
        for line in remains.first_line..remains.first_line + remains.lines.min(GAPS_MAX as u64) {
            let seq = self.last.seq.saturating_add(1);
            let replaces = next.is_none_or(|next| seq < next);
            let kind = if remains.too_long { Kind::TooLong } else { Kind::NotARecord };
            let message = if replaces {
                format!("this is not a record, where record {seq} was")
            } else {
                "this is not a record".to_owned()
            };
            self.report.add(line, replaces.then_some(seq), kind, message);
            if replaces {
                self.last = Link { seq, hash: Hash::NONE };
                self.trust = Trust::Reported;
            }
        }
    }

    fn finish(mut self) -> Report {
        let complete = self.last.seq;
        match self.remains.take() {
            Some(remains) if self.open_ended => {
                let message = format!("record {} is incomplete: {} bytes of it are there", complete + 1, remains.bytes);
                self.report.add(remains.first_line, Some(complete + 1), Kind::Incomplete, message);
                self.report.closed = false;
            }
            Some(remains) => {
                self.not_records(&remains, None);
                self.report.closed = false;
            }
            None if self.open_ended => {
                let message = format!("record {complete} is whole, but its newline is missing");
                self.report.add(self.number, Some(complete), Kind::Incomplete, message);
            }
            None => {}
        }
        for gap in std::mem::take(&mut self.gaps) {
            self.missing(&gap);
        }
        if let Some(head) = self.against.head.as_ref().filter(|head| head.seq > complete) {
            let message = format!("the log ends after record {complete}, but it reached record {}", head.seq);
            self.report.add(self.number + 1, Some(complete + 1), Kind::Truncated, message);
        }
        self.report.last = self.last;
        self.report.findings.sort_by_key(|finding| finding.line);
        self.report
    }
}

impl Remains {
    fn new(first_line: u64) -> Self {
        Self { first_line, lines: 0, bytes: 0, too_long: false, hasher: Sha256::new() }
    }

    fn start_line(&mut self) {
        if self.lines > 0 {
            self.push(b"\n");
        }
        self.lines += 1;
    }

    fn push(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    fn is(&self, told: &Recovered) -> bool {
        self.bytes == told.bytes && Hash::finish(self.hasher.clone()).to_string() == told.sha256
    }
}
