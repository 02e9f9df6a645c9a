//! The init of a jail: builds the jail that its plan describes, starts the interpreter's zygote in it, and stays as
//! its first process, so that the end of either ends everything inside.
//!
//! Answers to: `tier-process`, over the control socket on standard input. Must not: read a byte from a guest, or go on
//! where a step of the plan could not be carried out: there is no weaker jail.

mod cow;
mod errand;
mod filter;
mod init;
mod lock_only;
mod network;
mod root;
mod rules;
mod start;
mod sys;

pub use init::serve;
use ringfence_wire::jail::NO_WALLS;

/// A step that could not be carried out: what it was, and the kernel's reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

impl Failed {
    fn new(what: String) -> Self {
        Self(what)
    }

    /// Says that it is this machine that does not let a wall be built.
    fn no_walls(self) -> Self {
        Self(format!("{NO_WALLS}{}", self.0))
    }
}

trait Step<T> {
    /// Says what could not be done.
    fn step(self, what: impl FnOnce() -> String) -> Result<T, Failed>;
}

impl<T> Step<T> for std::io::Result<T> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, Failed> {
        self.map_err(|error| Failed(format!("{}: {error}", what())))
    }
}
