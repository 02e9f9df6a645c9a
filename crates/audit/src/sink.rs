//! Where the lines of a log go: the trait, and the sink in memory.
//!
//! There is no sink that drops records: what can't be recorded doesn't happen.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::AuditError;
use crate::event::Recovered;
use crate::key::Head;
use crate::record::Link;

/// Where a log that others may have written to ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// Its last complete record.
    pub link: Link,
    /// An incomplete record behind that.
    pub torn: Option<Recovered>,
    /// Whether the next line needs a newline in front.
    pub needs_newline: bool,
}

impl Tail {
    /// The end of an empty log.
    pub const EMPTY: Self = Self { link: Link::START, torn: None, needs_newline: false };
}

/// How soon a head must be safe on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// In the background; a failure fails the next record.
    Soon,
    /// Before the call returns.
    Now,
}

/// Takes the lines of one log. Only `append` has to be written; the rest is for sinks that are
/// shared between processes or survive them.
pub trait Sink: Send {
    /// What the sink is called in error messages.
    fn name(&self) -> String;

    /// Writes whole lines in one go. When it returns the bytes must be out of this process.
    fn append(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Keeps other writers out until `release`. Gives the end of the log where it is not the
    /// end that this sink itself wrote last.
    fn acquire(&mut self) -> Result<Option<Tail>, AuditError> {
        Ok(None)
    }

    /// Lets other writers in again.
    fn release(&mut self) {}

    /// Counts this writer in. Called once, between `acquire` and `release`. Whether it is alone.
    fn enter(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Counts this writer out. Called once, between `acquire` and `release`. Whether it was the last.
    fn leave(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Brings everything appended so far to the disk.
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Does what `sync` does, and then keeps the head where a verifier finds it.
    fn seal(&mut self, head: Option<Head>, how: Seal) -> io::Result<()> {
        let _ = (head, how);
        self.sync()
    }
}

/// Keeps a log in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemorySink(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    limit: Option<usize>,
    head: Option<Head>,
}

impl MemorySink {
    /// Keeps everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the newest lines, at most so many bytes: for a process that lives long. A verifier
    /// reports the dropped ones as missing.
    pub fn newest(bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Kept { limit: Some(bytes), ..Kept::default() })))
    }

    /// The log so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.kept(|kept| kept.lines.iter().flatten().copied().collect())
    }

    /// The log so far, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The last signed head.
    pub fn head(&self) -> Option<Head> {
        self.kept(|kept| kept.head.clone())
    }

    fn kept<T>(&self, read: impl FnOnce(&mut Kept) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for MemorySink {
    fn name(&self) -> String {
        "in memory".to_owned()
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.kept(|kept| {
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                kept.bytes += line.len();
                kept.lines.push_back(line.to_vec());
            }
            while kept.limit.is_some_and(|limit| kept.bytes > limit) {
                match kept.lines.pop_front() {
                    Some(line) => kept.bytes -= line.len(),
                    None => break,
                }
            }
        });
        Ok(())
    }

    fn seal(&mut self, head: Option<Head>, _: Seal) -> io::Result<()> {
        self.kept(|kept| kept.head = head);
        Ok(())
    }
}
