//! How a tier fails: typed, and saying who must act.
//!
//! Answers to: `session`, which turns each into an outcome. Must not: carry text from the guest.

use ringfence_types::TierName;

/// Why a cell could not be opened or went away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TierFault {
    /// The tier does not work here.
    #[error("the {tier} tier can't be used here: {why}")]
    Unusable {
        /// Which tier.
        tier: TierName,
        /// Why.
        why: String,
        /// The operator's next step.
        remedy: String,
    },
    /// No cell could be made now.
    #[error("the {tier} tier could not open a cell: {why}")]
    Open {
        /// Which tier.
        tier: TierName,
        /// Why.
        why: String,
    },
    /// The cell died: the program crashed its interpreter, or something killed it.
    #[error("the {tier} worker died in mid-run")]
    Died {
        /// Which tier.
        tier: TierName,
    },
    /// The cell was ended by its killer.
    #[error("the {tier} worker was ended")]
    Killed {
        /// Which tier.
        tier: TierName,
    },
    /// The cell sent something that is no frame, or not in its turn: it is not trusted any further.
    #[error("the {tier} worker broke the protocol: {why}")]
    Protocol {
        /// Which tier.
        tier: TierName,
        /// What it broke.
        why: String,
    },
    /// Something the cell wanted to send was too large.
    #[error("the {tier} worker wanted to send {length} bytes, over the limit of {allowed}")]
    TooLarge {
        /// Which tier.
        tier: TierName,
        /// How much it wanted to send.
        length: usize,
        /// What is allowed.
        allowed: usize,
    },
}

impl TierFault {
    /// The operator's next step, where there is one.
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Unusable { remedy, .. } => Some(remedy),
            Self::Open { .. } => Some("`ringfence doctor` tries every tier and tells what to do"),
            Self::Died { .. } | Self::Killed { .. } | Self::Protocol { .. } | Self::TooLarge { .. } => None,
        }
    }
}
