//! What the composition root hands to the command line: how an engine is built here.
//!
//! Answers to: `main`. Must not: know a tier; the root alone knows which tiers this build has.

use std::path::PathBuf;

use ringfence_audit::AuditError;
use ringfence_session::Engine;
use ringfence_types::Engine as Interpreter;

use crate::folders;

/// What the composition root gives.
#[derive(Debug, Clone, Copy)]
pub struct Root {
    /// Builds an engine of the tiers in this build.
    pub build: fn(EngineOptions) -> Result<Engine, BuildError>,
    /// The version of the program.
    pub version: &'static str,
}

/// What a command wants of its engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where the audit log goes; `None` keeps it in memory.
    pub audit: Option<PathBuf>,
    /// The key that seals snapshots; `None` draws one that nobody else has.
    pub snapshot_key: Option<[u8; 32]>,
    /// How many workers of an engine are kept ready.
    pub warm: usize,
    /// Engines that are started at once, not at first need.
    pub warm_up: Vec<Interpreter>,
    /// The CPython of the process tier, where a policy names none; `None`: the `python3` that is found.
    pub python: Option<String>,
    /// The folder of locked environments.
    pub environments: Option<PathBuf>,
}

impl EngineOptions {
    /// An engine for one session whose log nobody reads.
    pub fn in_memory() -> Self {
        Self {
            audit: None,
            snapshot_key: None,
            warm: 1,
            warm_up: Vec::new(),
            python: None,
            environments: folders::environments().ok(),
        }
    }
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The audit log can't be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The system gave no random bits.
    #[error("the system gives no random numbers: {0}; check its random source")]
    Random(String),
}
