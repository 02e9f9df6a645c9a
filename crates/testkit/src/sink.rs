//! A sink that traces each record and fails where the test wants it to.
//!
//! Answers to: tests of the ordering laws. Must not: pretend that a record was written when it was not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence_audit::{Record, Sink};

use crate::Trace;

/// Adds `record EVENT` to the trace for each record, up to the one that fails.
#[derive(Debug, Clone)]
pub struct TraceSink {
    trace: Trace,
    left: Arc<AtomicUsize>,
}

impl TraceSink {
    /// A sink that takes everything.
    pub fn new(trace: &Trace) -> Self {
        Self::failing_after(trace, usize::MAX)
    }

    /// A sink that takes so many appends and fails at the next one, and at each after it.
    pub fn failing_after(trace: &Trace, appends: usize) -> Self {
        Self { trace: trace.clone(), left: Arc::new(AtomicUsize::new(appends)) }
    }
}

impl Sink for TraceSink {
    fn name(&self) -> String {
        "in a test".to_owned()
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let take_one = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_err() {
            self.trace.add("record refused");
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let event = Record::parse(line.trim_ascii_end()).map_or_else(|| "?".to_owned(), |record| record.event);
            self.trace.add(format!("record {event}"));
        }
        Ok(())
    }
}
