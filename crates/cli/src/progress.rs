//! A line that shows that something is going on, on a terminal, and only where it takes over a second.
//!
//! Answers to: `run` and `repl`. Must not: write to anything but a terminal's standard error.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};

const PATIENCE: Duration = Duration::from_secs(1);

/// One line of progress. Cheap to clone: the clones share the line.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    since: Instant,
    bar: Option<ProgressBar>,
    over: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { since: Instant::now(), bar: None, over: false })))
    }
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the line, where it has taken over a second.
    pub fn after_a_second(&self, what: &'static str) {
        let mut state = self.state();
        let late = !state.over && state.bar.is_none() && state.since.elapsed() >= PATIENCE;
        if late && std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(what);
            bar.enable_steady_tick(Duration::from_millis(100));
            state.bar = Some(bar);
        }
    }

    /// Takes the line away for good.
    pub fn end(&self) {
        let mut state = self.state();
        state.over = true;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }
}
