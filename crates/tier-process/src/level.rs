//! How much of a jail this machine lets be built: level A has namespaces and control groups, B namespaces, C neither of
//! the walls but the lock (Landlock, filters and resource limits), D nothing.
//!
//! Answers to: the tier. Must not: take a weaker level where a stronger one was not tried first.

use std::sync::OnceLock;

use ringfence_tier::{Capabilities, InnerLimit};
use ringfence_types::{LimitKind, Strength, TierName};

/// What stands around a session beside its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Walls {
    /// Namespaces.
    Namespaces,
    /// Nothing.
    None,
}

/// The level that was found to work here.
#[derive(Debug)]
pub struct Level {
    found: OnceLock<Walls>,
    with_walls: Capabilities,
    without: Capabilities,
}

/// What ends a run from inside: the kernel's memory killer, and frames that are too large.
const INNER_LIMITS: [InnerLimit; 2] = [InnerLimit::fatal(LimitKind::Memory), InnerLimit::fatal(LimitKind::Size)];

impl Level {
    /// Nothing was tried yet.
    pub fn new() -> Self {
        let without = Capabilities {
            packages: true,
            no_exec: true,
            measures_io: true,
            inner_limits: &INNER_LIMITS,
            ..Capabilities::closed(TierName::Process, 3, Strength::Language)
        };
        let with_walls = Capabilities {
            strength: Strength::Process,
            workspace: true,
            mounts_ro: true,
            mounts_rw: true,
            mounts_cow: true,
            freeze: true,
            fork: true,
            commands: true,
            mounts_bound: true,
            network: true,
            at_best: "level A: namespaces, Landlock, filters and control groups",
            ..without.clone()
        };
        Self { found: OnceLock::new(), with_walls, without }
    }

    /// What the tier can do where nothing is missing.
    pub fn declared(&self) -> &Capabilities {
        &self.with_walls
    }

    /// What it can do here, as far as it was tried.
    pub fn here(&self) -> &Capabilities {
        match self.walls() {
            Walls::Namespaces => &self.with_walls,
            Walls::None => &self.without,
        }
    }

    /// What is built around sessions: namespaces, unless only the lock was found to work.
    pub fn walls(&self) -> Walls {
        self.found.get().copied().unwrap_or(Walls::Namespaces)
    }

    /// This was seen to work.
    pub fn found(&self, walls: Walls) {
        // The first finding stands: it does not change while the host runs.
        let _ = self.found.set(walls);
    }
}
