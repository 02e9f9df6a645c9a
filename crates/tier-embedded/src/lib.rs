//! The embedded tier: interpreters written in Rust, in locked worker processes that are forked ahead of need.
//!
//! Answers to: `session`, through the traits of `tier`. Must not: execute a host function, read a policy beyond the
//! grant, or hand a used worker out again.

mod cell;
mod pool;
mod probe;
mod zygote;

use std::future::Future;
use std::path::PathBuf;

use ringfence_policy::Grant;
use ringfence_tier::{Boxed, Capabilities, Cell, EngineInfo, InnerLimit, Probe, Tier, TierFault};
use ringfence_types::{Engine, LimitKind, Strength, TierName};
use ringfence_wire::Setup;
use ringfence_worker::Executable;
use tokio::sync::OnceCell;

use crate::cell::EmbeddedCell;
use crate::pool::Pool;

/// How the tier gets its workers.
#[derive(Debug, Clone)]
pub struct Config {
    /// The executable that is a worker when given [`ringfence_wire::launch::HIDDEN_ARGUMENT`]; `None`: this very program.
    pub worker: Option<PathBuf>,
    /// Workers kept ready for each engine.
    pub warm: usize,
    /// Import no more than is needed before the first fork: for a host that opens one session and ends.
    pub lean: bool,
}

impl Default for Config {
    /// This very program, four workers ahead.
    fn default() -> Self {
        Self { worker: None, warm: 4, lean: false }
    }
}

/// The embedded tier. Its processes start at first need and end when it is dropped.
#[derive(Debug)]
pub struct Embedded {
    capabilities: Capabilities,
    monty: Pool,
    rustpython: Pool,
    probed: OnceCell<Probe>,
}

impl Embedded {
    /// A tier that starts its processes at first need.
    pub fn new(config: Config) -> Self {
        let executable = Executable::new(config.worker);
        Self {
            capabilities: capabilities(),
            monty: Pool::new(executable.clone(), Engine::Monty, config.warm, config.lean),
            rustpython: Pool::new(executable, Engine::Rustpython, config.warm, config.lean),
            probed: OnceCell::new(),
        }
    }

    /// Starts the workers of one engine ahead of need.
    pub fn warm_up_engine(&self, engine: Engine) {
        self.pool(engine).start();
    }

    fn pool(&self, engine: Engine) -> &Pool {
        match engine {
            Engine::Monty => &self.monty,
            Engine::Rustpython => &self.rustpython,
        }
    }
}

/// What a worker ends itself for.
const INNER_LIMITS: [InnerLimit; 3] =
    [InnerLimit::fatal(LimitKind::Memory), InnerLimit::fatal(LimitKind::Cpu), InnerLimit::fatal(LimitKind::Size)];

fn capabilities() -> Capabilities {
    Capabilities {
        engines: vec![
            EngineInfo { engine: Engine::Monty, version: "0.0.23", snapshot: true },
            EngineInfo { engine: Engine::Rustpython, version: "0.5.0", snapshot: false },
        ],
        workspace: true,
        mounts_ro: true,
        freeze: true,
        inner_limits: &INNER_LIMITS,
        no_exec: true,
        ..Capabilities::closed(TierName::Embedded, 1, Strength::Process)
    }
}

/// What was found before, or is found now. Only success is remembered: what keeps a tier from working may pass.
async fn kept(found: &OnceCell<Probe>, look: impl Future<Output = Probe>) -> Probe {
    let usable = async {
        match look.await {
            unusable @ Probe::Unusable { .. } => Err(unusable),
            usable => Ok(usable),
        }
    };
    found.get_or_try_init(|| usable).await.cloned().unwrap_or_else(|unusable| unusable)
}

impl Tier for Embedded {
    fn name(&self) -> TierName {
        TierName::Embedded
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async { kept(&self.probed, probe::probe(&self.monty)).await })
    }

    fn warm_up(&self) {
        self.monty.start();
        self.rustpython.start();
    }

    /// Nothing that the analysis of the program does not know: what the engines lack is in its tables.
    fn missing<'a>(&'a self, _: &'a Grant, _: &'a [&'a str]) -> Boxed<'a, Option<String>> {
        Box::pin(async { None })
    }

    fn open<'a>(&'a self, grant: &'a Grant, engine: Option<Engine>) -> Boxed<'a, Result<Box<dyn Cell>, TierFault>> {
        Box::pin(async move {
            let (worker, refill) = self.pool(engine.unwrap_or(Engine::Rustpython)).take().await?;
            let setup = Setup {
                version: ringfence_wire::VERSION,
                memory: grant.limits().memory.bytes(),
                workspace: grant.workspace().map_or(0, |quota| quota.bytes()),
                functions: grant.functions().to_vec(),
            };
            Ok(Box::new(EmbeddedCell::open(worker, refill, &setup)) as Box<dyn Cell>)
        })
    }
}

pub(crate) fn cannot_open(why: impl std::fmt::Display) -> TierFault {
    TierFault::Open { tier: TierName::Embedded, why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_probe_is_not_remembered_and_a_good_one_is() {
        let found = OnceCell::new();
        let unusable = || Probe::Unusable { why: "x".to_owned(), remedy: "y".to_owned() };
        let ready = Probe::Ready(Strength::Process);
        assert_eq!(kept(&found, async { unusable() }).await, unusable());
        assert_eq!(kept(&found, async { ready.clone() }).await, ready);
        assert_eq!(kept(&found, async { unusable() }).await, ready);
    }
}
