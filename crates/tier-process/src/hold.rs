//! What ends a session with everything in it: its place, or, where there are no namespaces, the leash of its keeper.
//!
//! Answers to: `cell` and `jail`. Must not: wait for the end; whoever drops a session has other things to do.

use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_worker::Process;

use crate::place::Member;
use crate::remains;

/// Ends the session when it is dropped.
#[derive(Debug)]
pub enum Hold {
    /// A part in process 1 of the session's namespaces: the kernel ends all that is in them with it.
    Place(Member),
    /// A process outside of the session's reach waits for this line to be let go.
    Leash(Leash),
}

impl Hold {
    /// In a place of its own.
    pub fn in_place(place: Process) -> Self {
        Self::Place(Member::alone(place))
    }

    /// Ends the session now; `own`: where others are in the same place, what is its alone.
    pub fn kill(&self, own: impl FnOnce(&Member)) {
        match self {
            Self::Place(member) => member.end(own),
            Self::Leash(leash) => leash.let_go(),
        }
    }

    /// Its part in a place; `None` where there are no namespaces.
    pub fn member(&self) -> Option<&Member> {
        match self {
            Self::Place(member) => Some(member),
            Self::Leash(_) => None,
        }
    }

    /// Whether it was this handle that ended it.
    pub fn is_killed(&self) -> bool {
        match self {
            Self::Place(member) => member.is_ended(),
            Self::Leash(leash) => leash.gone.load(Ordering::Relaxed),
        }
    }

    /// Its part in a place; an error where there are no namespaces.
    pub fn as_member(&self) -> std::io::Result<&Member> {
        self.member().ok_or_else(|| std::io::ErrorKind::Unsupported.into())
    }

    /// A handle on the place, where there is one.
    pub fn place(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Place(member) => Some(member.place().handle()),
            Self::Leash(_) => None,
        }
    }
}

/// The host's end of a keeper's line. The keeper closes its own when everything is gone.
#[derive(Debug)]
pub struct Leash {
    line: Option<UnixStream>,
    gone: AtomicBool,
}

impl Leash {
    /// A leash, and the keeper's end of it.
    pub fn new() -> std::io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((Self { line: Some(ours), gone: AtomicBool::new(false) }, theirs))
    }

    fn let_go(&self) {
        self.gone.store(true, Ordering::Relaxed);
        if let Some(line) = &self.line {
            // A keeper that is gone already is what was wanted.
            let _ = line.shutdown(Shutdown::Write);
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.let_go();
        if let Some(line) = self.line.take() {
            remains::wait_later(line);
        }
    }
}
