//! What a tier declares of itself, and what a probe finds.
//!
//! Answers to: choosing a tier, `explain` and `doctor`. Must not: depend on the machine; that is the probe's part.

use ringfence_policy::Needs;
use ringfence_types::{Engine, LimitKind, Strength, TierName};

/// What a tier can do: declared, constant, and shown in the documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The tier.
    pub tier: TierName,
    /// Its place in the order of cost: the lowest that fits is taken.
    pub cost: u8,
    /// The strength it reaches where nothing is missing.
    pub strength: Strength,
    /// The engines it can run, in order of preference, the fullest last; empty where it runs CPython itself.
    pub engines: Vec<EngineInfo>,
    /// A private writable workspace.
    pub workspace: bool,
    /// Read-only mounts.
    pub mounts_ro: bool,
    /// Writable mounts.
    pub mounts_rw: bool,
    /// Copy-on-write mounts, whose difference [`crate::Cell::differ`] reads.
    pub mounts_cow: bool,
    /// Keeps programs from starting others, or has no way to start one.
    pub no_exec: bool,
    /// Filtered network.
    pub network: bool,
    /// Packages that need native code or a CPython environment.
    pub packages: bool,
    /// Programs that are not Python, by [`crate::Turn::Exec`].
    pub commands: bool,
    /// What its cells read from and write to disks, in [`crate::Held::io`].
    pub measures_io: bool,
    /// Cells can be made to stand still, by [`crate::Cell::freezer`].
    pub freeze: bool,
    /// Cells can be forked, by [`crate::Cell::fork`].
    pub fork: bool,
    /// Mounts are bound by the tier itself, so that the host copies nothing into the cell.
    pub mounts_bound: bool,
    /// What holds where nothing is missing, in words for `doctor`; empty where there is but one way to be ready.
    pub at_best: &'static str,
    /// The limits that a cell keeps itself: no other may be named in [`crate::Event::Limit`].
    pub inner_limits: &'static [InnerLimit],
}

/// A limit that a cell keeps itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerLimit {
    /// Which.
    pub kind: LimitKind,
    /// Whether the cell is gone when it strikes; if not, the session goes on.
    pub fatal: bool,
}

impl InnerLimit {
    /// A limit that takes the cell with it.
    pub const fn fatal(kind: LimitKind) -> Self {
        Self { kind, fatal: true }
    }
    /// A limit that ends the run only.
    pub const fn survived(kind: LimitKind) -> Self {
        Self { kind, fatal: false }
    }
}

impl Capabilities {
    /// What a tier can do that declares nothing: no engine, no files, no network, no packages, no limit of its own.
    pub const fn closed(tier: TierName, cost: u8, strength: Strength) -> Self {
        Self {
            tier,
            cost,
            strength,
            engines: Vec::new(),
            workspace: false,
            mounts_ro: false,
            mounts_rw: false,
            mounts_cow: false,
            no_exec: false,
            network: false,
            packages: false,
            commands: false,
            measures_io: false,
            freeze: false,
            fork: false,
            mounts_bound: false,
            at_best: "",
            inner_limits: &[],
        }
    }

    /// Whether a cell with these needs can change something that the bridge does not see. Such a run can't be repeated:
    /// what it did outside would be done twice.
    pub fn acts_outside_the_bridge(&self, needs: Needs) -> bool {
        (self.network && (needs.network || needs.secrets)) || (self.mounts_rw && needs.mounts_rw)
    }
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
