//! The process tier: a native CPython with any package, in a jail of namespaces, Landlock and system-call filters.
//!
//! Answers to: `session`, through the traits of `tier`. Must not: execute a host function, read a policy beyond the
//! grant, hand a used session out again, or build a jail that is weaker than its plan.

mod cell;
mod changes;
mod disk;
mod errand;
mod freeze;
mod group;
mod hold;
mod interpreter;
mod jail;
mod level;
mod place;
mod plan;
mod pool;
mod probe;
mod remains;
mod users;
mod way_out;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_policy::{Ask, Grant, Needs, Policy};
use ringfence_tier::{Boxed, Capabilities, Cell, Probe, Tier, TierFault};
use ringfence_types::{Engine, SessionId, Tenant, TierName};
use ringfence_wire::Setup;
use ringfence_worker::Executable;
use tokio::sync::OnceCell;

pub use interpreter::{Interpreter, NoInterpreter};

use crate::cell::{Has, ProcessCell};
use crate::level::{Level, Walls};
use crate::pool::{Pools, Taken};

/// How the tier gets its interpreters and sessions.
#[derive(Debug, Clone)]
pub struct Config {
    /// The executable that builds jails; `None`: this very program.
    pub worker: Option<PathBuf>,
    /// The CPython that is used where a policy names no virtual environment.
    pub python: String,
    /// Sessions kept ready for each interpreter, policy and tenant.
    pub warm: usize,
}

impl Default for Config {
    /// This very program, the `python3` that is found, two sessions ahead.
    fn default() -> Self {
        Self { worker: None, python: "python3".to_owned(), warm: 2 }
    }
}

/// The process tier. Its processes start at first need and end when it is dropped.
#[derive(Debug)]
pub struct ProcessTier {
    level: Level,
    python: String,
    pools: Pools,
    known: Mutex<Vec<Known>>,
    probed: OnceCell<Probe>,
}

#[derive(Debug)]
struct Known {
    path: String,
    packages: Vec<String>,
    interpreter: Arc<Interpreter>,
}

impl ProcessTier {
    /// A tier that starts its processes at first need.
    pub fn new(config: Config) -> Self {
        let executable = Executable::new(config.worker);
        group::sweep();
        Self {
            level: Level::new(),
            python: config.python,
            pools: Pools::new(executable, config.warm),
            known: Mutex::default(),
            probed: OnceCell::new(),
        }
    }

    /// The interpreter of a grant, asked once for each set of packages.
    async fn interpreter(&self, grant: &Grant) -> Result<Arc<Interpreter>, NoInterpreter> {
        let path = grant.venv().map_or_else(|| self.python.clone(), |venv| format!("{venv}/bin/python"));
        let packages = grant.packages().to_vec();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().iter().find(|known| known.path == path && known.packages == packages) {
            return Ok(Arc::clone(&found.interpreter));
        }
        let (asked, wanted) = (path.clone(), packages.clone());
        let found = tokio::task::spawn_blocking(move || Interpreter::find(&asked, &wanted)).await;
        let found = found.map_err(|error| NoInterpreter::Strange { path: path.clone(), said: error.to_string() })??;
        let interpreter = Arc::new(found);
        known().push(Known { path, packages, interpreter: Arc::clone(&interpreter) });
        Ok(interpreter)
    }

    async fn try_it(&self) -> Probe {
        let session = SessionId::from_random([0; 16]);
        let ask = Ask { tenant: Tenant::local(), session, functions: Vec::new() };
        let Ok(grant) = Policy::closed().decide(&ask) else { return never() };
        match self.interpreter(&grant).await {
            Ok(interpreter) => self.try_with(&grant, &interpreter).await,
            Err(error) => Probe::Unusable { why: error.to_string(), remedy: INSTALL.to_owned() },
        }
    }

    /// With walls first, and where this machine lets none be built, with the lock alone.
    async fn try_with(&self, grant: &Grant, interpreter: &Interpreter) -> Probe {
        let fault = match self.pools.take(grant, interpreter, Walls::Namespaces).await {
            // The session lives until it was looked at.
            Ok(Taken { session: ready, .. }) => return self.judged(Walls::Namespaces, probe::judge(&ready)),
            Err(fault) => fault,
        };
        let Some(why) = fault.walls() else { return probe::failed(&fault) };
        match self.pools.take(grant, interpreter, Walls::None).await {
            Ok(Taken { session: ready, .. }) => self.judged(Walls::None, probe::judge_lock(&ready, why)),
            Err(fault) => probe::failed_both(why, &fault),
        }
    }

    fn judged(&self, walls: Walls, probe: Probe) -> Probe {
        if probe.strength().is_some() {
            self.level.found(walls);
        }
        probe
    }
}

/// What an operator who has no interpreter can do.
const INSTALL: &str = "install Python 3.9 or newer, or name one by `--python`";

fn never() -> Probe {
    Probe::Unusable { why: "the closed policy grants nothing".to_owned(), remedy: "report this".to_owned() }
}

/// What of a grant only walls can hold. It is asked before a tier is taken; this is for whoever does not ask.
fn needs_walls(needs: Needs) -> Option<&'static str> {
    let asked = [
        (needs.workspace, "a workspace"),
        (needs.mounts_ro || needs.mounts_rw || needs.mounts_cow, "a mount"),
        (needs.network || needs.secrets, "a filtered network"),
    ];
    asked.into_iter().find(|(asked, _)| *asked).map(|(_, what)| what)
}

impl Tier for ProcessTier {
    fn name(&self) -> TierName {
        TierName::Process
    }

    fn capabilities(&self) -> &Capabilities {
        self.level.declared()
    }

    fn here(&self) -> &Capabilities {
        self.level.here()
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async {
            if let Some(probe) = self.probed.get() {
                return probe.clone();
            }
            let probe = self.try_it().await;
            // What does not work is tried again: it may have been mended.
            if probe.strength().is_some() {
                let _ = self.probed.set(probe.clone());
            }
            probe
        })
    }

    fn missing<'a>(&'a self, grant: &'a Grant, packages: &'a [&'a str]) -> Boxed<'a, Option<String>> {
        Box::pin(async move {
            let interpreter = match self.interpreter(grant).await {
                Ok(interpreter) => interpreter,
                Err(error) => return Some(error.to_string()),
            };
            let missing = packages.iter().find(|name| !interpreter.importable.contains(**name))?;
            Some(format!("package `{missing}` is not in the interpreter `{}`", interpreter.executable))
        })
    }

    fn open<'a>(&'a self, grant: &'a Grant, _engine: Option<Engine>) -> Boxed<'a, Result<Box<dyn Cell>, TierFault>> {
        Box::pin(async move {
            let interpreter = self.interpreter(grant).await.map_err(cannot_open)?;
            let missing = interpreter.missing(grant.packages());
            if !missing.is_empty() {
                return Err(cannot_open(format!("`{}` does not have {}", interpreter.executable, missing.join(", "))));
            }
            let walls = self.level.walls();
            if let (Walls::None, Some(what)) = (walls, needs_walls(grant.needs())) {
                return Err(cannot_open(format!("{what} needs namespaces, which can't be made here")));
            }
            let taken = self.pools.take(grant, &interpreter, walls).await.map_err(cannot_open)?;
            let Taken { session: mut ready, refill, at_work } = taken;
            let setup = Setup {
                version: ringfence_wire::VERSION,
                memory: grant.limits().memory.bytes(),
                workspace: grant.workspace().map_or(0, |quota| quota.bytes()),
                functions: grant.functions().to_vec(),
            };
            let changes = ready.changes.take().map(Arc::new);
            let differ = changes.clone().map(|held| changes::differ(grant, held, plan::scratch(grant))).transpose();
            let has = Has {
                enforcement: probe::enforcement(walls, ready.group.is_some(), grant),
                differ: differ.map_err(cannot_open)?,
                changes,
                at_work,
            };
            Ok(Box::new(ProcessCell::open(ready, refill, &setup, has)) as Box<dyn Cell>)
        })
    }
}

fn cannot_open(why: impl std::fmt::Display) -> TierFault {
    TierFault::Open { tier: TierName::Process, why: why.to_string() }
}

impl Drop for ProcessTier {
    /// No process and no control group is left when the tier is gone, where the kernel lets go of them in time.
    fn drop(&mut self) {
        self.pools.end();
        remains::settle();
    }
}
