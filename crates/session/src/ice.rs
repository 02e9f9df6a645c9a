//! A session that stands still: its cell, and its clocks with it.
//!
//! Answers to: `kill`, which has one for each session, and the clocks, which read the session's own time. Must not: stop
//! a clock whose cell goes on.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_tier::Freezer;
use tokio::sync::watch;
use tokio::time::Instant;

/// Why a session can't be frozen or thawed.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// It has no cell that could stand still.
    #[error("the session has no cell yet; run something in it first")]
    NoCell,
    /// Its tier can't do it.
    #[error("the session's tier can't make a cell stand still; use the `process` or the `embedded` tier")]
    Unsupported,
    /// The system said no.
    #[error("the session's cell can't be {0}: {1}")]
    System(&'static str, io::Error),
}

/// Whether a session is frozen, and its own time, which stands still while it is.
#[derive(Debug)]
pub(crate) struct Ice {
    begun: Instant,
    state: Mutex<State>,
    changed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    /// How long it stood still, in times that are over.
    total: Duration,
    cell: Option<Option<Freezer>>,
}

impl Default for Ice {
    fn default() -> Self {
        Self { begun: Instant::now(), state: Mutex::default(), changed: watch::Sender::new(false) }
    }
}

impl Ice {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's own time.
    pub fn now(&self) -> Duration {
        let state = self.state();
        let now = state.since.unwrap_or_else(Instant::now);
        now.saturating_duration_since(self.begun).saturating_sub(state.total)
    }

    /// Whether it stands still.
    pub fn is_frozen(&self) -> bool {
        self.state().since.is_some()
    }

    /// Tells of each change from now on.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.changed.subscribe()
    }

    /// The session is in this cell from now on; a new cell does not stand still.
    pub fn arm(&self, cell: Option<Freezer>) {
        let mut state = self.state();
        state.cell = Some(cell);
        Self::go_on(&mut state);
    }

    /// The session has no cell any more.
    pub fn disarm(&self) {
        let mut state = self.state();
        state.cell = None;
        Self::go_on(&mut state);
    }

    fn go_on(state: &mut State) {
        if let Some(since) = state.since.take() {
            state.total += since.elapsed();
        }
    }

    /// Makes it stand still: the cell first, then its clocks. `false`: it does already. Blocks for moments.
    pub fn freeze(&self) -> Result<bool, FreezeError> {
        let mut state = self.state();
        if state.since.is_some() {
            return Ok(false);
        }
        let cell = state.cell.as_ref().ok_or(FreezeError::NoCell)?.as_ref().ok_or(FreezeError::Unsupported)?;
        if let Err(error) = cell.freeze() {
            // One that stands half is worse than one that goes on.
            let _ = cell.thaw();
            return Err(FreezeError::System("frozen", error));
        }
        state.since = Some(Instant::now());
        drop(state);
        self.changed.send_replace(true);
        Ok(true)
    }

    /// Lets it go on. `false`: it does already.
    pub fn thaw(&self) -> Result<bool, FreezeError> {
        let mut state = self.state();
        if state.since.is_none() {
            return Ok(false);
        }
        if let Some(Some(cell)) = &state.cell {
            cell.thaw().map_err(|error| FreezeError::System("thawed", error))?;
        }
        Self::go_on(&mut state);
        drop(state);
        self.changed.send_replace(false);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn freezer(works: bool) -> (Freezer, Arc<AtomicBool>) {
        let still = Arc::new(AtomicBool::new(false));
        let (on, off) = (Arc::clone(&still), Arc::clone(&still));
        let freeze = move || {
            on.store(true, Ordering::SeqCst);
            if works { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
        };
        let thaw = move || {
            off.store(false, Ordering::SeqCst);
            Ok(())
        };
        (Freezer::new(freeze, thaw), still)
    }

    /// Until the real clock has gone on.
    fn pass() {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(2) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn time_stands_still_while_it_is_frozen() {
        let ice = Ice::default();
        let (cell, still) = freezer(true);
        ice.arm(Some(cell));
        assert!(ice.freeze().unwrap() && !ice.freeze().unwrap());
        assert!(ice.is_frozen() && still.load(Ordering::SeqCst));
        let stood_at = ice.now();
        pass();
        assert_eq!(ice.now(), stood_at);
        assert!(ice.thaw().unwrap() && !ice.thaw().unwrap());
        assert!(!still.load(Ordering::SeqCst));
        pass();
        let went_on = ice.now();
        assert!(went_on > stood_at);
        // A session whose cell is gone has its clocks running.
        ice.freeze().unwrap();
        ice.disarm();
        pass();
        assert!(!ice.is_frozen() && ice.now() > went_on);
    }

    #[test]
    fn what_can_t_stand_still_says_so_and_goes_on() {
        let ice = Ice::default();
        let said = |ice: &Ice| ice.freeze().map_err(|error| error.to_string());
        assert_eq!(said(&ice), Err("the session has no cell yet; run something in it first".to_owned()));
        ice.arm(None);
        let want = "the session's tier can't make a cell stand still; use the `process` or the `embedded` tier";
        assert_eq!(said(&ice), Err(want.to_owned()));
        let (cell, still) = freezer(false);
        ice.arm(Some(cell));
        assert_eq!(said(&ice), Err("the session's cell can't be frozen: permission denied".to_owned()));
        assert!(!ice.is_frozen() && !still.load(Ordering::SeqCst));
    }
}
