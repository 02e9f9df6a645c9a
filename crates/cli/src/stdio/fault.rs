//! An error as the client gets it: code, message, hint.
//!
//! Answers to: every request. Must not: have codes of its own; they are those of `ringfence_api`'s one table.

use ringfence_api::Code;
use ringfence_policy::PolicyErrors;
use ringfence_session::{RunError, SessionError};
use ringfence_tier::TierFault;
use ringfence_types::FileFault;
use serde::Serialize;

/// No message is longer than this many characters.
const LONGEST: usize = 4000;

/// An error answer.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Fault {
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Fault {
    fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST) {
            message.truncate(end);
        }
        Self { code: code.row().name, message, hint: None }
    }

    /// The request is wrong.
    pub fn request(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }

    /// The policy is wrong.
    pub fn policy(message: impl Into<String>) -> Self {
        Self::new(Code::BadPolicy, message)
    }

    /// There is no such session.
    pub fn no_session(session: &str) -> Self {
        let session: String = session.chars().take(80).collect();
        Self::new(Code::NoSession, format!("there is no session `{session}`")).hint("open a new one")
    }

    /// A fault of Ringfence itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Adds the next step.
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
}

impl From<PolicyErrors> for Fault {
    fn from(errors: PolicyErrors) -> Self {
        Self::policy(errors.to_string())
    }
}
impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        let fault = Self::new(Code::of_session(&error), error.to_string());
        match &error {
            SessionError::Denied(denial) => fault.hint(denial.hint()),
            SessionError::Tier(tier) => fault.hint_of(tier),
            _ => fault,
        }
    }
}
impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        let fault = Self::new(Code::of_run(&error), error.to_string());
        match &error {
            RunError::Tier(tier) => fault.hint_of(tier),
            RunError::Audit(_) | RunError::File(_) | RunError::Mount(_) | RunError::Network(_) => fault,
        }
    }
}
impl From<FileFault> for Fault {
    fn from(fault: FileFault) -> Self {
        SessionError::from(fault).into()
    }
}
