//! Building an engine from its parts: tiers, audit log, keys.
//!
//! Answers to: Rust programs and the command line. Must not: decide anything that a policy decides.

use std::path::PathBuf;
use std::sync::Arc;

use ringfence_audit::{AuditError, Keypair, Log, LogOptions, MemorySink, check_file};
use ringfence_session::{Outbound, Parts, SnapshotKey};
use ringfence_tier::Tier;
use ringfence_tier_embedded::{Config, Embedded};
use ringfence_tier_process::ProcessTier;
use ringfence_types::Engine as Interpreter;

use crate::Engine;

/// Where the audit log goes.
#[derive(Debug, Clone)]
pub enum AuditTo {
    /// The newest 4 MiB in memory.
    Memory,
    /// A file, appended to and shared by processes, signed with a key beside it.
    File(PathBuf),
}

/// Why an engine can't be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The audit log can't be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The system gave no random bits.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

/// Builds an [`Engine`].
pub struct Builder {
    audit: AuditTo,
    embedded: Config,
    process: ringfence_tier_process::Config,
    snapshot_key: Option<[u8; 32]>,
    tiers: Vec<Arc<dyn Tier>>,
    warm_up: Vec<Interpreter>,
    outbound: Outbound,
    environments: Option<PathBuf>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            audit: AuditTo::Memory,
            embedded: Config::default(),
            process: ringfence_tier_process::Config::default(),
            snapshot_key: None,
            tiers: Vec::new(),
            warm_up: Vec::new(),
            outbound: Outbound::default(),
            environments: None,
        }
    }
}

impl Builder {
    /// Where the audit log goes; in memory where nothing is said.
    #[must_use]
    pub fn audit(mut self, to: AuditTo) -> Self {
        self.audit = to;
        self
    }

    /// The executable that workers are made of, where this program does not call
    /// [`become_worker_if_asked`](crate::become_worker_if_asked).
    #[must_use]
    pub fn worker(mut self, executable: impl Into<PathBuf>) -> Self {
        let executable = executable.into();
        self.embedded.worker = Some(executable.clone());
        self.process.worker = Some(executable);
        self
    }

    /// How many workers of each engine, and sessions of each jail, are kept ready. With 0 each is made when it is asked
    /// for.
    #[must_use]
    pub fn warm(mut self, workers: usize) -> Self {
        self.embedded.warm = workers;
        self.process.warm = workers;
        self
    }

    /// For a host that opens one session and ends: one worker ahead, and no imports before the program asks for them.
    #[must_use]
    pub fn one_shot(mut self) -> Self {
        self.embedded.warm = 1;
        self.process.warm = 1;
        self.embedded.lean = true;
        self
    }

    /// The CPython of the process tier, where a policy names no virtual environment; `python3` where nothing is said.
    #[must_use]
    pub fn python(mut self, interpreter: impl Into<String>) -> Self {
        self.process.python = interpreter.into();
        self
    }

    /// The folder of the locked environments that policies name; without one there are none. `ringfence env` makes them in
    /// `environments` of its state folder.
    #[must_use]
    pub fn environments(mut self, folder: impl Into<PathBuf>) -> Self {
        self.environments = Some(folder.into());
        self
    }

    /// Starts the workers of an engine when the engine is built, not at first need.
    #[must_use]
    pub fn warm_up(mut self, engine: Interpreter) -> Self {
        self.warm_up.push(engine);
        self
    }

    /// The key that seals snapshots: whoever has it can make the host run any state. Without one, snapshots can be
    /// taken up by this engine only.
    #[must_use]
    pub fn snapshot_key(mut self, secret: [u8; 32]) -> Self {
        self.snapshot_key = Some(secret);
        self
    }

    /// How sessions reach the hosts that their policies allow: the resolver, the addresses that may be reached at all,
    /// and whom to trust. Where nothing is said, the host's own resolver and certificates, and public addresses only.
    #[must_use]
    pub fn outbound(mut self, outbound: Outbound) -> Self {
        self.outbound = outbound;
        self
    }

    /// One more tier, beside those of this build.
    #[must_use]
    pub fn tier(mut self, tier: Arc<dyn Tier>) -> Self {
        self.tiers.push(tier);
        self
    }

    /// The engine.
    pub fn build(self) -> Result<Engine, BuildError> {
        let key = match self.snapshot_key {
            Some(secret) => secret,
            None => {
                let mut secret = [0; 32];
                getrandom::fill(&mut secret).map_err(BuildError::Random)?;
                secret
            }
        };
        let log = open_log(&self.audit)?;
        let embedded = Embedded::new(self.embedded);
        self.warm_up.into_iter().for_each(|engine| embedded.warm_up_engine(engine));
        let mut tiers: Vec<Arc<dyn Tier>> = vec![Arc::new(embedded), Arc::new(ProcessTier::new(self.process))];
        tiers.extend(self.tiers);
        let (snapshot_key, environments) = (SnapshotKey::new(key), self.environments);
        let parts = Parts { tiers, log: Arc::new(log), snapshot_key, environments };
        Ok(Engine::new(ringfence_session::Engine::with_outbound(parts, self.outbound)))
    }
}

fn open_log(to: &AuditTo) -> Result<Log, AuditError> {
    match to {
        AuditTo::Memory => Log::open(Box::new(MemorySink::newest(4 << 20)), LogOptions::default()),
        AuditTo::File(path) => {
            check_file(path)?;
            let key = Keypair::load_or_create(&path.with_extension("key"))?;
            Log::open_file(path, LogOptions { key: Some(key), ..LogOptions::default() })
        }
    }
}
