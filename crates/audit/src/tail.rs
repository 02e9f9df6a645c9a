//! Finds the end of a log that another process wrote, and tells a torn end from a changed one.
//!
//! Reads from the end backwards, so that opening a large log costs as much as opening a small one.
//! Must not: repair anything. What a killed writer left stays where it is.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::chain::Hash;
use crate::error::AuditError;
use crate::event::Recovered;
use crate::record::{Framed, LINE_MAX, Link, Record};
use crate::sink::Tail;

/// How a record begins: an incomplete one begins so too, or with zeros after a power cut.
const OPENING: &[u8] = b"{\"seq\":";
/// Torn lines behind one another: each would take one more kill in the moment of recovery.
const TORN_LINES_MAX: usize = 64;

/// Where the log in `file` ends.
pub(crate) fn read_tail(file: &File, path: &Path) -> Result<Tail, AuditError> {
    let mut scan = Scan { file, size: file.metadata().map_err(AuditError::open(path))?.len() };
    scan.find().map_err(AuditError::open(path))?.map_err(|what| AuditError::Tampered { path: path.to_owned(), what })
}

struct Scan<'a> {
    file: &'a File,
    size: u64,
}

impl Scan<'_> {
    /// Goes back line by line to the last complete record. The inner error says what was changed.
    fn find(&mut self) -> io::Result<Result<Tail, String>> {
        let open_ended = self.size > 0 && self.read(self.size - 1, 1)? != b"\n";
        let mut end = self.size - u64::from(self.size > 0 && !open_ended);
        let last_byte = end;
        for _ in 0..TORN_LINES_MAX {
            if end == 0 {
                return Ok(Ok(self.tail(Link::START, 0, last_byte, open_ended)?));
            }
            let start = self.start_of_line(end)?;
            let line = self.read(start, (end - start).min(LINE_MAX as u64 + 1))?;
            match classify(&line) {
                Line::Record(link) if end == last_byte => {
                    return Ok(Ok(Tail { link, torn: None, needs_newline: open_ended }));
                }
                Line::Record(link) => return Ok(Ok(self.tail(link, end + 1, last_byte, open_ended)?)),
                Line::Changed => return Ok(Err("its last complete record does not have the hash it names".to_owned())),
                Line::Foreign => return Ok(Err("it ends in a line that is no part of an audit log".to_owned())),
                Line::Torn => end = start.saturating_sub(1),
            }
            if start == 0 {
                return Ok(Ok(self.tail(Link::START, 0, last_byte, open_ended)?));
            }
        }
        Ok(Err(format!("its last {TORN_LINES_MAX} lines are all incomplete")))
    }

    /// The end of the log with what stands between the last record and it.
    fn tail(&mut self, link: Link, from: u64, to: u64, open_ended: bool) -> io::Result<Tail> {
        if from >= to {
            return Ok(Tail { link, torn: None, needs_newline: open_ended });
        }
        let mut hasher = Sha256::new();
        let mut at = from;
        while at < to {
            let chunk = self.read(at, (to - at).min(64 << 10))?;
            hasher.update(&chunk);
            at += chunk.len() as u64;
        }
        let torn = Recovered { bytes: to - from, sha256: Hash::finish(hasher).to_string() };
        Ok(Tail { link, torn: Some(torn), needs_newline: open_ended })
    }

    /// Where the line that ends before `end` starts.
    fn start_of_line(&mut self, end: u64) -> io::Result<u64> {
        let mut to = end;
        while to > 0 {
            let from = to.saturating_sub(16 << 10);
            let chunk = self.read(from, to - from)?;
            if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
                return Ok(from + at as u64 + 1);
            }
            to = from;
        }
        Ok(0)
    }

    fn read(&mut self, from: u64, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(count).map_err(io::Error::other)?];
        self.file.seek(SeekFrom::Start(from))?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

pub(crate) enum Line {
    /// A complete record, with the hash that it names.
    Record(Link),
    /// A complete record with another hash than it names.
    Changed,
    /// The beginning of a record.
    Torn,
    /// Anything else.
    Foreign,
}

pub(crate) fn classify(line: &[u8]) -> Line {
    match (Framed::split(line), Record::parse(line)) {
        (Some(framed), Some(record)) if framed.computed() == framed.hash => {
            Line::Record(Link { seq: record.seq, hash: framed.hash })
        }
        (_, Some(_)) => Line::Changed,
        _ if could_be_torn(line) => Line::Torn,
        _ => Line::Foreign,
    }
}

/// Whether a line begins as a record does, as far as it goes.
pub(crate) fn could_be_torn(line: &[u8]) -> bool {
    line.iter().zip(OPENING).all(|(is, want)| is == want) || line.first() == Some(&0)
}
