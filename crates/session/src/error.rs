//! How a session or a run fails where there can be no outcome.
//!
//! Answers to: the front doors, which have one table for all of it. Must not: carry text of the guest's.

use ringfence_audit::AuditError;
use ringfence_bridge::{BridgeFault, HoldTarget};
use ringfence_policy::{Denial, SchemaFault};
use ringfence_tier::TierFault;
use ringfence_types::FileFault;

use crate::changes::SaveError;
use crate::environment::EnvironmentError;
use crate::mounts::MountError;
use crate::network::NetworkError;
use crate::seal::SnapshotError;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The policy says no.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// A kill switch is set.
    #[error("a kill switch is set on `{0}`; `ringfence resume {0}` releases it")]
    Held(HoldTarget),
    /// A declaration's schema is none.
    #[error(transparent)]
    Schema(#[from] SchemaFault),
    /// The audit log can't be written: nothing may happen.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The bytes are not taken up.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// No tier can take up or write down this state.
    #[error("{0}")]
    Unsupported(String),
    /// The tier failed.
    #[error(transparent)]
    Tier(#[from] TierFault),
    /// A file operation was refused.
    #[error(transparent)]
    File(#[from] FileFault),
    /// A mount can't be put into the cell.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A secret or the proxy is not to be had.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The host can't read what a session changed in copy-on-write mounts.
    #[error("what the session changed can't be read: {0}")]
    Changes(std::io::Error),
    /// What a session changed can't be written to the caller's folder.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// The environment that the policy names can't be used.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// So many branches are not made at once.
    #[error("a fork makes 1 to {most} sessions, and not {0}", most = crate::fork::MOST_BRANCHES)]
    Branches(usize),
    /// The session stands still.
    #[error("the session is frozen; thaw it first")]
    Frozen,
    /// The session has ended.
    #[error("the session has ended: {0}; open a new one")]
    Ended(String),
    /// The system gave no random bits.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

/// Why a run has no outcome: there is one for everything else.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The audit log can't be written: the run was ended, and no outcome may leave.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The tier that was chosen opens no cell: nothing of the run began, and the session stays.
    #[error(transparent)]
    Tier(#[from] TierFault),
    /// A file that the caller put in is not taken: nothing of the run began, and the session stays.
    #[error(transparent)]
    File(#[from] FileFault),
    /// A mount can't be put into the cell: nothing of the run began, and the session stays.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A secret or the proxy is not to be had: nothing of the run began, and the session stays.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

impl From<BridgeFault> for RunError {
    fn from(fault: BridgeFault) -> Self {
        match fault {
            BridgeFault::Audit(error) => Self::Audit(error),
        }
    }
}
impl From<RunError> for SessionError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Audit(error) => Self::Audit(error),
            RunError::Tier(fault) => Self::Tier(fault),
            RunError::File(fault) => Self::File(fault),
            RunError::Mount(error) => Self::Mount(error),
            RunError::Network(error) => Self::Network(error),
        }
    }
}
