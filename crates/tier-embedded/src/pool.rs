//! Workers kept ready ahead of need, by a thread that forks the next one as soon as one is taken.
//!
//! Answers to: the tier. Must not: hand the same worker out twice; a worker goes one way, from the zygote to a cell.
//! A failure is never kept for later: only who waits for a worker is told of it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ringfence_tier::TierFault;
use ringfence_types::Engine;
use ringfence_worker::Executable;
use tokio::sync::{mpsc, watch};

use crate::cannot_open;
use crate::zygote::{Worker, Zygote};

/// How long the next fork waits while there are workers enough.
const BREATH: Duration = Duration::from_millis(3);

/// How long a zygote may take to start, and to fork: it is far under a second where the machine is not overloaded.
const PATIENCE: Duration = Duration::from_secs(20);

/// A zygote, the thread that asks it, and the workers that are ready.
#[derive(Debug)]
pub struct Pool {
    executable: Executable,
    engine: Engine,
    warm: usize,
    lean: bool,
    running: OnceLock<Line<Worker>>,
}

impl Pool {
    pub fn new(executable: Executable, engine: Engine, warm: usize, lean: bool) -> Self {
        Self { executable, engine, warm: warm.max(1), lean, running: OnceLock::new() }
    }

    /// Starts the zygote, where it does not run yet. Does not wait for it.
    pub fn start(&self) {
        self.running();
    }

    fn running(&self) -> &Line<Worker> {
        self.running.get_or_init(|| {
            let (executable, engine, lean) = (self.executable.clone(), self.engine, self.lean);
            let mut zygote = None;
            // A zygote that dies is replaced.
            Line::start(format!("ringfence-{}", engine.as_str()), self.warm, move || {
                let current = match zygote.take() {
                    Some(current) => current,
                    None => Zygote::start(&executable, engine, lean, PATIENCE)?,
                };
                let worker = current.fork()?;
                zygote = Some(current);
                Ok(worker)
            })
        })
    }

    /// A fresh worker: at once where one is ready.
    pub async fn take(&self) -> Result<Worker, TierFault> {
        self.running().take().await
    }
}

/// Things made ahead of need by a thread of their own.
#[derive(Debug)]
struct Line<T> {
    ready: Option<tokio::sync::Mutex<mpsc::Receiver<T>>>,
    /// The newest failure. Who waits is told of each that comes while it waits.
    failed: watch::Receiver<Option<TierFault>>,
    asked: Arc<Asked>,
    thread: Option<JoinHandle<()>>,
}

/// How many wait: after a failure nothing is tried before somebody does.
#[derive(Debug, Default)]
struct Asked {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    count: usize,
    over: bool,
}

impl Asked {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until somebody waits. Whether the line goes on.
    fn until_wanted(&self) -> bool {
        let idle = |waiting: &mut Waiting| waiting.count == 0 && !waiting.over;
        let waiting = self.changed.wait_while(self.waiting(), idle).unwrap_or_else(PoisonError::into_inner);
        !waiting.over
    }
}

/// Somebody waits, until this is dropped.
struct Waits<'a>(&'a Asked);

impl<'a> Waits<'a> {
    fn on(asked: &'a Asked) -> Self {
        asked.waiting().count += 1;
        asked.changed.notify_all();
        Self(asked)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting().count -= 1;
    }
}

impl<T: Send + 'static> Line<T> {
    fn start(name: String, warm: usize, make: impl FnMut() -> Result<T, TierFault> + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel(warm);
        let (tell, failed) = watch::channel(None);
        let asked = Arc::<Asked>::default();
        let theirs = Arc::clone(&asked);
        let thread = std::thread::Builder::new().name(name).spawn(move || keep_filled(make, &sender, &tell, &theirs));
        // Without a thread the channel is closed, and `take` says so.
        Self { ready: Some(tokio::sync::Mutex::new(receiver)), failed, asked, thread: thread.ok() }
    }

    async fn take(&self) -> Result<T, TierFault> {
        let gone = || cannot_open("the thread that starts workers is gone");
        let Some(ready) = &self.ready else { return Err(gone()) };
        // In this order: a failure that is not seen here is followed by another try, since somebody waits.
        let _waits = Waits::on(&self.asked);
        let mut failed = self.failed.clone();
        failed.mark_unchanged();
        let mut ready = ready.lock().await;
        tokio::select! {
            biased;
            made = ready.recv() => made.ok_or_else(gone),
            Ok(()) = failed.changed() => Err(failed.borrow().clone().unwrap_or_else(gone)),
        }
    }
}

/// Runs until the line is dropped.
fn keep_filled<T>(
    mut make: impl FnMut() -> Result<T, TierFault>,
    ready: &mpsc::Sender<T>,
    failed: &watch::Sender<Option<TierFault>>,
    asked: &Asked,
) {
    while !ready.is_closed() {
        match make() {
            Ok(made) => {
                if ready.blocking_send(made).is_err() {
                    return;
                }
                if ready.capacity() * 2 < ready.max_capacity() {
                    // More than half are left: whoever took one has the processors first.
                    std::thread::sleep(BREATH);
                }
            }
            Err(fault) => {
                failed.send_replace(Some(fault));
                if !asked.until_wanted() {
                    return;
                }
            }
        }
    }
}

impl<T> Drop for Line<T> {
    /// Waits for the thread, so that no process is left when the tier is gone.
    fn drop(&mut self) {
        self.ready = None;
        self.asked.waiting().over = true;
        self.asked.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has dropped its zygote while unwinding.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn line(results: Vec<Result<u32, TierFault>>) -> Line<u32> {
        let mut results = VecDeque::from(results);
        let made = move || results.pop_front().unwrap_or_else(|| Err(cannot_open("there is no more")));
        Line::start("a test".to_owned(), 2, made)
    }

    #[tokio::test]
    async fn a_failure_that_passed_is_not_told_to_who_comes_later() {
        let line = line(vec![Ok(1), Err(cannot_open("no memory for a moment")), Ok(2), Ok(3)]);
        // The failure is over before anybody comes.
        line.failed.clone().changed().await.expect("the thread lives");
        assert_eq!(line.take().await, Ok(1));
        assert_eq!(line.take().await, Ok(2));
        assert_eq!(line.take().await, Ok(3));
    }

    #[tokio::test]
    async fn who_waits_is_told_of_the_newest_failure() {
        let line = line(vec![Err(cannot_open("first"))]);
        line.failed.clone().changed().await.expect("the thread lives");
        assert_eq!(line.take().await, Err(cannot_open("there is no more")));
    }
}
