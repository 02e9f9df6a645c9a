//! A session in monty as bytes, idle or stopped at a host call.
//!
//! Answers to: the engine and the worker, through [`Pause`]. Must not: read bytes that the host has not checked the
//! seal of: monty may panic on damaged ones. The format: [`FORMAT`], then `postcard`.
//! The session's files belong to the worker and are not in here.

use monty::{Dump, MontyRepl, ReplProgress, SessionRef};
use serde::{Deserialize, Serialize};

use super::{Declared, Deferred};
use crate::engine::{Pause, Unsupported};

/// Raised whenever what follows changes.
const FORMAT: u8 = 1;

/// What the engine knows beside monty's own state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Session {
    pub functions: Vec<Declared>,
    /// Whether the functions are names of the session yet.
    pub functions_set: bool,
    /// The file name of each snippet, by its number in monty.
    pub files: Vec<String>,
    /// Calls the host has not answered yet.
    pub deferred: Vec<Deferred>,
}

/// The session where it stands now, inside a host call.
pub(super) struct Here<'a> {
    pub session: &'a Session,
    pub progress: &'a ReplProgress,
}

impl Pause for Here<'_> {
    fn dump(&self) -> Result<Vec<u8>, Unsupported> {
        write(self.session, SessionRef::Suspended(self.progress))
    }
}

/// The bytes of an idle session.
pub(super) fn idle(session: &Session, repl: &MontyRepl) -> Result<Vec<u8>, Unsupported> {
    write(session, SessionRef::Idle(repl))
}

/// The session that `bytes` hold.
pub(super) fn read(bytes: &[u8]) -> Result<(Session, monty::Session), Unsupported> {
    let (version, rest) = bytes.split_first().ok_or_else(|| unreadable("it is empty"))?;
    if *version != FORMAT {
        return Err(unreadable(&format!("its format is {version}, this engine reads {FORMAT}")));
    }
    let (session, dump) = postcard::take_from_bytes(rest).map_err(|error| unreadable(&error.to_string()))?;
    let dump = Dump::load(dump).map_err(|error| unreadable(&error.to_string()))?;
    Ok((session, dump.state))
}

fn write(session: &Session, state: SessionRef<'_>) -> Result<Vec<u8>, Unsupported> {
    let refuse = |error: postcard::Error| Unsupported { feature: format!("a snapshot here: {error}"), line: None };
    let head = postcard::to_allocvec(session).map_err(refuse)?;
    let dump = monty::dump("main.py", None, state).map_err(refuse)?;
    let mut bytes = Vec::with_capacity(1 + head.len() + dump.len());
    bytes.push(FORMAT);
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(&dump);
    Ok(bytes)
}

/// A snapshot that this engine can't take up, and why.
pub(super) fn unreadable(why: &str) -> Unsupported {
    Unsupported { feature: format!("this snapshot: {why}"), line: None }
}
