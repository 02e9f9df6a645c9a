//! One table that maps each status and error code to what every front door says.
//!
//! Answers to: the command line's exit code, the HTTP status, the MCP error and the Python exception class.
//! Must not: have a second copy anywhere; the documents' table is generated from this one.

use ringfence_session::{RunError, SessionError};
use ringfence_tier::TierFault;
use ringfence_types::Status;

/// What can go wrong where there is no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The command, the request or the policy is wrong.
    BadRequest,
    /// The policy file is wrong.
    BadPolicy,
    /// There is no such session.
    NoSession,
    /// The policy, or a kill switch, says no.
    Denied,
    /// No tier can do it.
    Unsupported,
    /// The tier that is needed does not work here.
    TierUnavailable,
    /// The audit log can't be written.
    AuditFailed,
    /// An audit log holds together, but nothing proves that it is whole.
    AuditUnanchored,
    /// Standard output can't be written, so that a result is lost.
    OutputFailed,
    /// The snapshot was refused.
    SnapshotRefused,
    /// A cell died or broke the protocol where there is no outcome to say so, such as in an operation on files.
    Crashed,
    /// A fault of Ringfence itself.
    Internal,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The status or code, as written in outcomes and errors.
    pub name: &'static str,
    /// Exit code of the command line.
    pub exit: u8,
    /// HTTP status.
    pub http: u16,
    /// JSON-RPC error code for MCP; 0 where the tool's result carries it.
    pub mcp: i32,
    /// Class of the Python package; empty where nothing is raised.
    pub python: &'static str,
}

const fn row(name: &'static str, exit: u8, http: u16, mcp: i32, python: &'static str) -> Row {
    Row { name, exit, http, mcp, python }
}

fn status_row(status: Status) -> Row {
    match status {
        Status::Completed => row("completed", 0, 200, 0, ""),
        Status::Raised => row("raised", 1, 200, 0, "GuestError"),
        Status::Denied => row("denied", 3, 403, 0, "Denied"),
        Status::Limited => row("limited", 4, 200, 0, "LimitExceeded"),
        Status::Unsupported => row("unsupported", 5, 422, 0, "Unsupported"),
        Status::Killed => row("killed", 130, 200, 0, "Killed"),
        Status::Crashed => row("crashed", 6, 200, 0, "Crashed"),
        Status::Cancelled => row("cancelled", 130, 200, 0, "Cancelled"),
    }
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 12] = [
        Self::BadRequest,
        Self::BadPolicy,
        Self::NoSession,
        Self::Denied,
        Self::Unsupported,
        Self::TierUnavailable,
        Self::AuditFailed,
        Self::AuditUnanchored,
        Self::OutputFailed,
        Self::SnapshotRefused,
        Self::Crashed,
        Self::Internal,
    ];

    /// Its row.
    pub fn row(self) -> Row {
        match self {
            Self::BadRequest => row("bad_request", 2, 400, -32602, "RequestError"),
            Self::BadPolicy => row("bad_policy", 2, 400, -32602, "PolicyError"),
            Self::NoSession => row("no_session", 2, 404, -32602, "SessionClosed"),
            Self::Denied => row("denied", 3, 403, -32001, "Denied"),
            Self::Unsupported => row("unsupported", 5, 422, -32002, "Unsupported"),
            Self::TierUnavailable => row("tier_unavailable", 5, 503, -32003, "TierUnavailable"),
            Self::AuditFailed => row("audit_failed", 7, 500, -32004, "AuditFailed"),
            Self::AuditUnanchored => row("audit_unanchored", 9, 409, -32004, ""),
            Self::OutputFailed => row("output_failed", 8, 500, -32603, ""),
            Self::SnapshotRefused => row("snapshot_refused", 2, 400, -32602, "SnapshotRefused"),
            Self::Crashed => row("crashed", 6, 500, -32603, "Crashed"),
            Self::Internal => row("internal", 6, 500, -32603, "RingfenceError"),
        }
    }

    /// The code of a session's error.
    pub fn of_session(error: &SessionError) -> Self {
        match error {
            SessionError::Denied(_) | SessionError::Held(_) | SessionError::Frozen => Self::Denied,
            SessionError::Schema(_)
            | SessionError::File(_)
            | SessionError::Mount(_)
            | SessionError::Network(_)
            | SessionError::Branches(_)
            | SessionError::Save(_) => Self::BadRequest,
            SessionError::Audit(_) => Self::AuditFailed,
            SessionError::Snapshot(_) => Self::SnapshotRefused,
            SessionError::Unsupported(_) | SessionError::Environment(_) => Self::Unsupported,
            SessionError::Tier(fault) => Self::of_tier(fault),
            SessionError::Ended(_) => Self::NoSession,
            SessionError::Random(_) | SessionError::Changes(_) => Self::Internal,
        }
    }

    /// The code of a run's error.
    pub fn of_run(error: &RunError) -> Self {
        match error {
            RunError::Audit(_) => Self::AuditFailed,
            RunError::Tier(fault) => Self::of_tier(fault),
            RunError::File(_) | RunError::Mount(_) | RunError::Network(_) => Self::BadRequest,
        }
    }

    /// The code of a tier's fault.
    pub fn of_tier(fault: &TierFault) -> Self {
        match fault {
            TierFault::Unusable { .. } | TierFault::Open { .. } => Self::TierUnavailable,
            TierFault::Killed { .. } => Self::NoSession,
            TierFault::Died { .. } | TierFault::Protocol { .. } | TierFault::TooLarge { .. } => Self::Crashed,
        }
    }
}

/// The exit code of an outcome.
pub fn exit_code_of_status(status: Status) -> u8 {
    status_row(status).exit
}

/// The whole table: statuses first, then codes.
pub fn rows() -> Vec<Row> {
    Status::ALL.into_iter().map(status_row).chain(Code::ALL.into_iter().map(Code::row)).collect()
}

#[cfg(test)]
mod tests {
    use ringfence_types::TierName;

    use super::*;

    #[test]
    fn each_fault_of_a_tier_has_its_code() {
        let (tier, text) = (TierName::Process, String::new);
        let rows = [
            (TierFault::Unusable { tier, why: text(), remedy: text() }, "tier_unavailable", 5),
            (TierFault::Open { tier, why: text() }, "tier_unavailable", 5),
            (TierFault::Killed { tier }, "no_session", 2),
            (TierFault::Died { tier }, "crashed", 6),
            (TierFault::Protocol { tier, why: text() }, "crashed", 6),
            (TierFault::TooLarge { tier, length: 2, allowed: 1 }, "crashed", 6),
        ];
        for (fault, name, exit) in rows {
            let row = Code::of_tier(&fault).row();
            assert_eq!((row.name, row.exit), (name, exit), "{fault:?}");
            assert_eq!(Code::of_session(&SessionError::Tier(fault.clone())), Code::of_tier(&fault));
            assert_eq!(Code::of_run(&RunError::Tier(fault.clone())), Code::of_tier(&fault));
        }
    }
}
