//! Why a command of `cargo xtask` can't go on.
//!
//! Answers to: every module here. Must not: say that something failed without saying what to do next.

use std::io;
use std::path::PathBuf;

/// What stops a command.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// A program that is needed is not there.
    #[error("`{tool}` is needed and can't be started: {why}; {remedy}")]
    Missing {
        /// The program.
        tool: String,
        /// What the system said.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// A program that was started did not succeed.
    #[error("`{0}` failed; its output above says why")]
    Failed(String),
    /// A program printed something that can't be understood.
    #[error("`{program}` printed no {expected}")]
    Unclear {
        /// The program.
        program: String,
        /// What was looked for.
        expected: &'static str,
    },
    /// A file can't be read or written.
    #[error("`{path}` can't be {verb}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        verb: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl Fault {
    /// The exit code: 2 where the command line is wrong.
    pub fn exit(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Missing { .. } | Self::Failed(_) | Self::Unclear { .. } | Self::File { .. } => 1,
        }
    }

    /// For `map_err` on reading a file.
    pub fn reading(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, verb: "read", source }
    }

    /// For `map_err` on writing a file.
    pub fn writing(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, verb: "written", source }
    }
}
