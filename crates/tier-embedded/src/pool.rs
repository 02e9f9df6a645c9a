//! Workers kept ready ahead of need, by a thread that forks the next one as soon as one is taken.
//!
//! Answers to: the tier. Must not: hand the same worker out twice; a worker goes one way, from the zygote to a cell.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ringfence_tier::TierFault;
use ringfence_types::Engine;
use ringfence_worker::Executable;
use tokio::sync::mpsc;

use crate::cannot_open;
use crate::zygote::{Worker, Zygote};

/// How long the next fork waits while there are workers enough.
const BREATH: Duration = Duration::from_millis(3);

/// A zygote, the thread that asks it, and the workers that are ready.
#[derive(Debug)]
pub struct Pool {
    executable: Executable,
    engine: Engine,
    warm: usize,
    lean: bool,
    running: OnceLock<Running>,
}

#[derive(Debug)]
struct Running {
    ready: tokio::sync::Mutex<mpsc::Receiver<Result<Worker, TierFault>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Pool {
    pub fn new(executable: Executable, engine: Engine, warm: usize, lean: bool) -> Self {
        Self { executable, engine, warm: warm.max(1), lean, running: OnceLock::new() }
    }

    /// Starts the zygote, where it does not run yet. Does not wait for it.
    pub fn start(&self) {
        self.running();
    }

    fn running(&self) -> &Running {
        self.running.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(self.warm);
            let (executable, engine, lean) = (self.executable.clone(), self.engine, self.lean);
            let thread = std::thread::Builder::new()
                .name(format!("ringfence-{}", engine.as_str()))
                .spawn(move || keep_filled(&executable, engine, lean, &sender));
            // Without a thread the channel is closed, and `take` says so.
            Running { ready: tokio::sync::Mutex::new(receiver), thread: Mutex::new(thread.ok()) }
        })
    }

    /// A fresh worker: at once where one is ready.
    pub async fn take(&self) -> Result<Worker, TierFault> {
        let mut ready = self.running().ready.lock().await;
        ready.recv().await.unwrap_or_else(|| Err(cannot_open("the thread that starts workers is gone")))
    }
}

/// Runs until the pool is dropped. A zygote that dies is replaced; one that can't start is reported to each taker.
fn keep_filled(executable: &Executable, engine: Engine, lean: bool, ready: &mpsc::Sender<Result<Worker, TierFault>>) {
    while !ready.is_closed() {
        let zygote = match Zygote::start(executable, engine, lean) {
            Ok(zygote) => zygote,
            Err(fault) => {
                if ready.blocking_send(Err(fault)).is_err() {
                    return;
                }
                continue;
            }
        };
        loop {
            let worker = zygote.fork();
            let lost = worker.is_err();
            if ready.blocking_send(worker).is_err() {
                return;
            }
            if ready.capacity() * 2 < ready.max_capacity() {
                // More than half are left: whoever took one has the processors first.
                std::thread::sleep(BREATH);
            }
            if lost {
                break;
            }
        }
    }
}

impl Drop for Pool {
    /// Waits for the thread, so that no process is left when the tier is gone.
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        drop(running.ready);
        let thread = running.thread.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread {
            // A thread that panicked has dropped its zygote while unwinding.
            let _ = thread.join();
        }
    }
}
