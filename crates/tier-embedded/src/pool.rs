//! Workers kept ready ahead of need, by a thread that forks the next one when one is done.
//!
//! Answers to: the tier. Must not: hand the same worker out twice; a worker goes one way, from the zygote to a cell.

use std::sync::OnceLock;
use std::time::Duration;

use ringfence_tier::TierFault;
use ringfence_types::Engine;
use ringfence_worker::{Executable, Line, Refill};

use crate::cannot_open;
use crate::zygote::{Worker, Zygote};

/// How long a zygote may take to start, and to fork: it is far under a second where the machine is not overloaded.
const PATIENCE: Duration = Duration::from_secs(20);

/// A zygote, the thread that asks it, and the workers that are ready.
#[derive(Debug)]
pub struct Pool {
    executable: Executable,
    engine: Engine,
    warm: usize,
    lean: bool,
    running: OnceLock<Result<Line<Worker, TierFault>, TierFault>>,
}

impl Pool {
    pub fn new(executable: Executable, engine: Engine, warm: usize, lean: bool) -> Self {
        Self { executable, engine, warm, lean, running: OnceLock::new() }
    }

    /// Starts the zygote, where it does not run yet. Does not wait for it.
    pub fn start(&self) {
        // Whoever takes a worker is told.
        let _ = self.running();
    }

    fn running(&self) -> Result<&Line<Worker, TierFault>, TierFault> {
        let started = self.running.get_or_init(|| {
            let (executable, engine, lean) = (self.executable.clone(), self.engine, self.lean);
            let mut zygote = None;
            // A zygote that dies is replaced.
            Line::start(format!("ringfence-{}", engine.as_str()), self.warm, move |_| {
                let current = match zygote.take() {
                    Some(current) => current,
                    None => Zygote::start(&executable, engine, lean, PATIENCE)?,
                };
                let worker = current.fork()?;
                zygote = Some(current);
                Ok(worker)
            })
            .map_err(|error| cannot_open(format!("the thread that starts workers can't be started: {error}")))
        });
        started.as_ref().map_err(Clone::clone)
    }

    /// A fresh worker: at once where one is ready. It is replaced when what comes with it is dropped.
    pub async fn take(&self) -> Result<(Worker, Refill), TierFault> {
        let line = self.running()?;
        let gone = || Err(cannot_open("the thread that starts workers is gone"));
        let worker = line.take().await.unwrap_or_else(gone)?;
        Ok((worker, line.refill()))
    }
}
