//! What a tier declares of itself, and what a probe finds.
//!
//! Answers to: choosing a tier, `explain` and `doctor`. Must not: depend on the machine; that is the probe's part.

use ringfence_types::{Engine, Strength, TierName};

/// What a tier can do: declared, constant, and shown in the documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The tier.
    pub tier: TierName,
    /// Its place in the order of cost: the lowest that fits is taken.
    pub cost: u8,
    /// The strength it reaches where nothing is missing.
    pub strength: Strength,
    /// The engines it can run, in order of preference; empty where it runs CPython itself.
    pub engines: Vec<EngineInfo>,
    /// A private writable workspace.
    pub workspace: bool,
    /// Read-only mounts.
    pub mounts_ro: bool,
    /// Writable mounts.
    pub mounts_rw: bool,
    /// Filtered network.
    pub network: bool,
    /// Packages that need native code or a CPython environment.
    pub packages: bool,
}

/// One engine of a tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// Which.
    pub engine: Engine,
    /// Its version.
    pub version: &'static str,
    /// Whether its state can be written down.
    pub snapshot: bool,
}

/// Whether a tier works on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It works, and reached this strength.
    Ready(Strength),
    /// It works, but something does not hold: the strength it reached, what is missing, and the remedy.
    Degraded {
        /// What it still reaches.
        strength: Strength,
        /// What does not hold.
        missing: String,
        /// What the operator can do.
        remedy: String,
    },
    /// It does not work: why, and the remedy.
    Unusable {
        /// Why not.
        why: String,
        /// What the operator can do.
        remedy: String,
    },
}

impl Probe {
    /// The strength that was reached; `None` where the tier can't be used.
    pub fn strength(&self) -> Option<Strength> {
        match self {
            Self::Ready(strength) | Self::Degraded { strength, .. } => Some(*strength),
            Self::Unusable { .. } => None,
        }
    }
}
