//! Why a command fails: one clear line, a hint, and the exit code of the one table.
//!
//! Answers to: every command. Must not: hold more than one exit code table; that is in `api`.

use std::fmt;
use std::path::Path;

use ringfence_api::{Code, exit_code_of_status};
use ringfence_audit::AuditError;
use ringfence_policy::PolicyErrors;
use ringfence_session::{RunError, SessionError};
use ringfence_tier::TierFault;
use ringfence_types::{Span, Status};

use crate::root::BuildError;

/// A command that can't be carried out.
#[derive(Debug)]
pub struct Fault {
    exit: u8,
    message: String,
    hint: Option<String>,
}

impl Fault {
    /// A fault with a code of the table.
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { exit: code.row().exit, message: message.to_string(), hint: None }
    }

    /// What was to be made ready took longer than it may.
    pub fn too_slow(what: &str, limit: Span) -> Self {
        let fault = Self::ended(Status::Limited, format!("{what} took longer than {limit}"));
        fault.hint("give `--load` a longer time, such as `--load 2min`")
    }

    /// The caller gave it up before anything ran.
    pub fn given_up(what: &str) -> Self {
        Self::ended(Status::Cancelled, format!("{what} was given up by the caller"))
    }

    fn ended(status: Status, message: String) -> Self {
        Self { exit: exit_code_of_status(status), message, hint: None }
    }

    /// The command or its input is wrong.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Code::BadRequest, message)
    }

    /// A file can't be used.
    pub fn file(path: &Path, doing: &str, cause: &std::io::Error) -> Self {
        Self::usage(format!("`{}` can't be {doing}: {}", path.display(), plain(cause)))
    }

    /// Adds the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the remedy that a tier names.
    fn hint_of(self, fault: &TierFault) -> Self {
        match fault.remedy() {
            Some(remedy) => self.hint(remedy),
            None => self,
        }
    }

    /// The exit code.
    pub fn exit(&self) -> u8 {
        self.exit
    }

    /// The next step, where there is one.
    pub fn next_step(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Fault {}

/// What the system said, without the number of the error.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

impl From<PolicyErrors> for Fault {
    fn from(errors: PolicyErrors) -> Self {
        Self::new(Code::BadPolicy, errors)
    }
}
impl From<AuditError> for Fault {
    fn from(error: AuditError) -> Self {
        Self::new(Code::AuditFailed, error)
    }
}
impl From<BuildError> for Fault {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Audit(error) => error.into(),
            BuildError::Random(_) => Self::new(Code::Internal, error),
        }
    }
}
impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        let fault = Self::new(Code::of_session(&error), &error);
        match &error {
            SessionError::Denied(denial) => fault.hint(denial.hint()),
            SessionError::Tier(tier) => fault.hint_of(tier),
            _ => fault,
        }
    }
}
impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        let fault = Self::new(Code::of_run(&error), &error);
        match &error {
            RunError::Tier(tier) => fault.hint_of(tier),
            RunError::Audit(_) | RunError::File(_) | RunError::Mount(_) | RunError::Network(_) => fault,
        }
    }
}
