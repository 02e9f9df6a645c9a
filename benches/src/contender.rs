//! What takes part, and why a measurement ends.
//!
//! Answers to: `main`. Must not: know any contender.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Something that can be measured again and again.
pub trait Contender {
    /// Its name in the table.
    fn name(&self) -> String;
    /// It takes part in every n-th round.
    fn every(&self) -> usize {
        1
    }
    /// Samples taken one after the other when its turn comes. A pool serves a stream of sessions: one session between
    /// two other programs would measure the processor's caches.
    fn in_a_row(&self) -> usize {
        1
    }
    /// One sample; its result was checked.
    fn sample(&mut self) -> Result<Duration, Fault>;
}

/// Why a measurement ends.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The command line.
    #[error("`{0}` is not understood; run `cargo xtask bench`")]
    Usage(String),
    /// No place for the audit log.
    #[error("no temporary folder can be made: {0}")]
    Folder(io::Error),
    /// No threads.
    #[error("the async runtime can't be started: {0}")]
    Runtime(io::Error),
    /// The results file.
    #[error("`{0}` can't be written: {1}")]
    Results(PathBuf, io::Error),
    /// A peer.
    #[error("`{0}` can't be measured: {1}")]
    Peer(String, io::Error),
    /// A peer that answers wrongly.
    #[error("`{0}` gave `{1}`")]
    Answer(String, String),
    /// The engine.
    #[error(transparent)]
    Build(#[from] ringfence::BuildError),
    /// A session.
    #[error(transparent)]
    Session(#[from] ringfence::SessionError),
    /// A run.
    #[error(transparent)]
    Run(#[from] ringfence::RunError),
    /// A policy.
    #[error(transparent)]
    Policy(#[from] ringfence::PolicyErrors),
}
