//! Asking a person before a call goes ahead.
//!
//! Answers to: the bridge. Must not: say yes where nobody was asked.

use ringfence_types::{SessionId, Tenant, Value};

use crate::function::Boxed;

/// What a person is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// Whose work it is.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The host function.
    pub function: String,
    /// The arguments by name.
    pub arguments: Vec<(String, Value)>,
}

/// What the person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Go ahead; who said so, where it is known.
    Approve {
        /// Who.
        by: Option<String>,
    },
    /// Don't; why, where it is known.
    Deny {
        /// Why.
        reason: Option<String>,
    },
}

/// The caller's way of asking.
pub trait Approve: Send + Sync {
    /// Asks, and waits for the answer.
    fn ask(&self, request: ApprovalRequest) -> Boxed<'_, Verdict>;
}
