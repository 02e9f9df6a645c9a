//! The log that the rest of the program writes to.
//!
//! Answers to: bridge and session, which record here before they act.
//! Must not: lose a record in silence. `record` returns after the bytes have left the process;
//! the first failure is returned, and every later call fails too (fail closed).

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::clock::{Clock, SystemClock};
use crate::error::AuditError;
use crate::event::{Checkpoint, CheckpointReason, Entry, Event, LogOpened, Recovered, Scope};
use crate::file_sink::FileSink;
use crate::key::Keypair;
use crate::record::{Content, Link, write_line};
use crate::scrub::SecretScrubber;
use crate::sink::{Seal, Sink};
use crate::text::{bounded_detail, tidy};

/// When a record must be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The system has it when `record` returns; the disk has it after the next checkpoint. A
    /// killed process loses nothing, a power cut may lose the last records.
    #[default]
    Flush,
    /// The disk has it when `record` returns. Costs milliseconds a record.
    EachRecord,
}

/// How a log is written.
#[derive(Clone)]
pub struct LogOptions {
    /// Signs openings, checkpoints and heads. Without one a rewritten log does not show.
    pub key: Option<Keypair>,
    /// When a record must be on the disk.
    pub durability: Durability,
    /// Records between two checkpoints, at least 1.
    pub checkpoint_every: u32,
    /// Which program writes, with its version.
    pub writer: String,
    /// Secrets to keep out.
    pub secrets: SecretScrubber,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
}

impl Default for LogOptions {
    /// No key, `Flush`, a checkpoint every 64 records, the machine's clock.
    fn default() -> Self {
        Self {
            key: None,
            durability: Durability::Flush,
            checkpoint_every: 64,
            writer: concat!("ringfence ", env!("CARGO_PKG_VERSION")).to_owned(),
            secrets: SecretScrubber::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// An open log. Share it by reference or `Arc`; every method takes `&self`.
pub struct Log {
    options: LogOptions,
    secrets: RwLock<SecretScrubber>,
    state: Mutex<State>,
}

struct State {
    sink: Box<dyn Sink>,
    link: Link,
    /// What a killed writer left incomplete behind `link`.
    torn: Option<Recovered>,
    since_checkpoint: u32,
    /// Lines of this turn, kept to spare an allocation a record.
    buffer: Vec<u8>,
    end: Option<End>,
}

enum End {
    Closed,
    Failed(String),
}

/// What is about to become a line.
struct Draft<'a> {
    scope: &'a Scope,
    event: &'a Event,
    detail: Vec<u8>,
}

impl Log {
    /// Opens a log on a sink: finds the end of the chain and records `log_opened`.
    pub fn open(sink: Box<dyn Sink>, options: LogOptions) -> Result<Self, AuditError> {
        let state = State { sink, link: Link::START, torn: None, since_checkpoint: 0, buffer: Vec::new(), end: None };
        let log = Self { secrets: RwLock::new(options.secrets.clone()), options, state: Mutex::new(state) };
        log.locked(|log, state| state.hold(|state| log.write_opening(state)))?;
        Ok(log)
    }

    /// Opens a log in a file, which any number of processes may share.
    pub fn open_file(path: &Path, options: LogOptions) -> Result<Self, AuditError> {
        let sink = FileSink::open(path, options.key.as_ref().map(Keypair::public))?;
        Self::open(Box::new(sink), options)
    }

    /// Records one event and gives its sequence number. What it permits may be done only after.
    pub fn record(&self, entry: Entry) -> Result<u64, AuditError> {
        if let Event::LogOpened(_) | Event::Checkpoint(_) = &entry.event {
            return Err(AuditError::Reserved { event: entry.event.name() });
        }
        let detail = self.detail(&entry.event)?;
        let draft = Draft { scope: &entry.scope, event: &entry.event, detail };
        self.locked(|log, state| state.hold(|state| log.write_record(state, &draft)))
    }

    /// Signs the chain as it stands, and gives the checkpoint's sequence number.
    pub fn checkpoint(&self) -> Result<u64, AuditError> {
        self.locked(|log, state| {
            state.hold(|state| {
                log.catch_up(state)?;
                log.push_checkpoint(state, CheckpointReason::Asked)?;
                log.flush(state)?;
                log.seal(state, Seal::Soon)
            })
        })
    }

    /// Signs the end and brings it to the disk. Later calls give [`AuditError::Closed`].
    pub fn close(&self) -> Result<u64, AuditError> {
        self.locked(|log, state| {
            let last = state.hold(|state| {
                log.catch_up(state)?;
                let last = state.sink.leave().map_err(|cause| state.write_error(cause))?;
                let reason = if last { CheckpointReason::Closed } else { CheckpointReason::Left };
                log.push_checkpoint(state, reason)?;
                log.flush(state)?;
                log.seal(state, Seal::Now)
            })?;
            state.end = Some(End::Closed);
            Ok(last)
        })
    }

    /// Keeps more secrets out of every record from now on.
    pub fn keep_out<T: AsRef<str>>(&self, secrets: impl IntoIterator<Item = T>) -> Result<(), AuditError> {
        let mut known = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        *known = known.with(secrets)?;
        Ok(())
    }

    /// The number of the last record that this writer knows of.
    pub fn last(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).link.seq
    }

    /// Runs one turn on the state. The first error stays: the log takes nothing after it.
    fn locked<T>(&self, turn: impl FnOnce(&Self, &mut State) -> Result<T, AuditError>) -> Result<T, AuditError> {
        // A panic in a turn leaves a poisoned lock: what it wrote is unknown, so the log has failed.
        let mut state = self.state.lock().map_err(|_| AuditError::Failed { first: "a writer panicked".to_owned() })?;
        match &state.end {
            Some(End::Closed) => return Err(AuditError::Closed),
            Some(End::Failed(first)) => return Err(AuditError::Failed { first: first.clone() }),
            None => {}
        }
        let result = turn(self, &mut state);
        if let Err(error) = &result {
            state.end = Some(End::Failed(error.to_string()));
        }
        result
    }

    fn detail(&self, event: &Event) -> Result<Vec<u8>, AuditError> {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let written = event.detail().and_then(|detail| bounded_detail(&tidy(detail, &secrets)));
        written.map_err(|error| AuditError::Write { sink: "record".to_owned(), cause: error.into() })
    }

    /// The first record of a writer. Names what a killed writer left incomplete.
    fn write_opening(&self, state: &mut State) -> Result<u64, AuditError> {
        let alone = state.sink.enter().map_err(|cause| state.write_error(cause))?;
        if state.link == Link::START {
            // Before the first record, so that a log without a head is always one that lost it.
            self.seal(state, Seal::Now)?;
        }
        let recovered = state.torn.take();
        let seq = self.push_opening(state, alone, recovered)?;
        self.flush(state)?;
        self.seal(state, Seal::Soon)?;
        Ok(seq)
    }

    fn write_record(&self, state: &mut State, draft: &Draft<'_>) -> Result<u64, AuditError> {
        self.catch_up(state)?;
        let seq = self.push(state, draft, false);
        state.since_checkpoint += 1;
        let due = state.since_checkpoint >= self.options.checkpoint_every.max(1);
        if due {
            self.push_checkpoint(state, CheckpointReason::Interval)?;
        }
        self.flush(state)?;
        if due {
            self.seal(state, Seal::Soon)?;
        }
        Ok(seq)
    }

    /// Another writer was killed in the middle of a record: say so before going on behind it.
    fn catch_up(&self, state: &mut State) -> Result<(), AuditError> {
        match state.torn.take() {
            Some(torn) => self.push_opening(state, false, Some(torn)).map(|_| ()),
            None => Ok(()),
        }
    }

    fn push_opening(&self, state: &mut State, alone: bool, recovered: Option<Recovered>) -> Result<u64, AuditError> {
        let event = Event::LogOpened(LogOpened {
            format: 1,
            writer: self.options.writer.clone(),
            key: self.public_key(),
            alone,
            recovered,
        });
        self.push_own(state, &event)
    }

    fn push_checkpoint(&self, state: &mut State, reason: CheckpointReason) -> Result<u64, AuditError> {
        state.since_checkpoint = 0;
        self.push_own(state, &Event::Checkpoint(Checkpoint { reason, key: self.public_key() }))
    }

    fn push_own(&self, state: &mut State, event: &Event) -> Result<u64, AuditError> {
        let detail = self.detail(event)?;
        Ok(self.push(state, &Draft { scope: &Scope::host(), event, detail }, true))
    }

    fn push(&self, state: &mut State, draft: &Draft<'_>, signed: bool) -> u64 {
        let content = Content {
            unix_millis: self.options.clock.unix_millis(),
            scope: draft.scope,
            event: draft.event.name(),
            decision: draft.event.decision(),
            detail: &draft.detail,
        };
        let signer = self.options.key.as_ref().filter(|_| signed);
        state.link = write_line(&mut state.buffer, state.link, &content, signer);
        state.link.seq
    }

    fn flush(&self, state: &mut State) -> Result<(), AuditError> {
        let written = state.sink.append(&state.buffer).and_then(|()| match self.options.durability {
            Durability::Flush => Ok(()),
            Durability::EachRecord => state.sink.sync(),
        });
        written.map_err(|cause| state.write_error(cause))
    }

    fn seal(&self, state: &mut State, how: Seal) -> Result<u64, AuditError> {
        let Link { seq, hash } = state.link;
        let head = self.options.key.as_ref().map(|key| key.sign_head(seq, hash));
        state.sink.seal(head, how).map_err(|cause| state.write_error(cause))?;
        Ok(seq)
    }

    fn public_key(&self) -> Option<String> {
        self.options.key.as_ref().map(|key| key.public().to_string())
    }
}

impl State {
    /// Runs a turn with other writers kept out, from the true end of the log.
    fn hold<T>(&mut self, turn: impl FnOnce(&mut Self) -> Result<T, AuditError>) -> Result<T, AuditError> {
        self.buffer.clear();
        if let Some(tail) = self.sink.acquire()? {
            self.link = tail.link;
            self.torn = tail.torn;
            if tail.needs_newline {
                self.buffer.push(b'\n');
            }
        }
        let result = turn(self);
        self.sink.release();
        result
    }

    fn write_error(&self, cause: std::io::Error) -> AuditError {
        AuditError::Write { sink: self.sink.name(), cause }
    }
}

impl Drop for Log {
    /// Closes the log as well as it can; call [`Log::close`] to learn of failures.
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}
