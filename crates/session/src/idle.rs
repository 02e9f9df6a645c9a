//! Ends the cells of sessions that nobody feeds: one thread for all of an engine's sessions.
//!
//! Answers to: `session`, which says when it rests. Must not: end a cell whose session is at work.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_tier::Killer;
use ringfence_types::SessionId;

/// How long the thread sleeps where no session rests: it is woken when one does.
const LONG: Duration = Duration::from_secs(3600);

/// The sessions that rest. Dropping it ends its thread.
#[derive(Default)]
pub(crate) struct Resting(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cells: HashMap<SessionId, Rest>,
    /// When the thread looks next; `None`: not before it is told to.
    next_look: Option<Instant>,
    runs: bool,
    over: bool,
}

/// When a session has rested for too long.
#[derive(Clone, Copy)]
enum Idle {
    At(Instant),
    /// It stands still, and may rest for so long after that.
    Left(Duration),
}

/// A session that rests.
struct Rest {
    idle: Idle,
    /// When it ends in any case.
    end: Instant,
    cell: Killer,
}

impl Rest {
    fn until(&self) -> Instant {
        match self.idle {
            Idle::At(idle) => idle.min(self.end),
            Idle::Left(_) => self.end,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resting {
    /// The session rests from now on: its cell is ended at `idle`, unless it is at work or stands still by then, and at
    /// `end` in any case.
    pub fn begin(&self, session: &SessionId, idle: Instant, end: Instant, cell: Killer) {
        let mut state = self.0.state();
        let until = idle.min(end);
        state.cells.insert(session.clone(), Rest { idle: Idle::At(idle), end, cell });
        if !state.runs {
            let shared = Arc::clone(&self.0);
            // Without a thread a cell stays until its session is fed or dropped, which both look at the clock.
            let thread = std::thread::Builder::new().name("ringfence-idle".to_owned()).spawn(move || watch(&shared));
            state.runs = thread.is_ok();
        } else if state.next_look.is_none_or(|look| until < look) {
            self.0.changed.notify_one();
        }
    }

    /// A session that rests stands still, or goes on: its idle clock does too.
    pub fn stand_still(&self, session: &SessionId, still: bool) {
        let (mut state, now) = (self.0.state(), Instant::now());
        let Some(rest) = state.cells.get_mut(session) else { return };
        rest.idle = match (rest.idle, still) {
            (Idle::At(idle), true) => Idle::Left(idle.saturating_duration_since(now)),
            (Idle::Left(left), false) => Idle::At(now + left),
            (same, _) => same,
        };
        self.0.changed.notify_one();
    }

    /// The session is at work, or gone.
    pub fn end(&self, session: &SessionId) {
        self.0.state().cells.remove(session);
    }
}

impl Drop for Resting {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.changed.notify_one();
    }
}

fn watch(shared: &Shared) {
    let mut state = shared.state();
    while !state.over {
        let now = Instant::now();
        // The lock is kept: a session that goes to work meanwhile would lose its cell.
        state.cells.retain(|_, rest| {
            let rests = rest.until() > now;
            if !rests {
                rest.cell.kill();
            }
            rests
        });
        state.next_look = state.cells.values().map(Rest::until).min();
        let pause = state.next_look.map_or(LONG, |look| look.saturating_duration_since(now));
        state = shared.changed.wait_timeout(state, pause).map_or_else(|fault| fault.into_inner().0, |waited| waited.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn cell() -> (Killer, Receiver<()>) {
        let (told, ended) = channel();
        (Killer::new(move || told.send(()).unwrap()), ended)
    }

    #[test]
    fn a_cell_is_ended_when_its_time_comes_and_not_while_its_session_works() {
        let resting = Resting::default();
        let [late, working, early] = [1, 2, 3].map(|bits| SessionId::from_random([bits; 16]));
        let (far, soon) = (Instant::now() + LONG, Instant::now());
        let ((late_cell, late_ended), (working_cell, working_ended), (early_cell, early_ended)) =
            (cell(), cell(), cell());
        resting.begin(&late, far, far, late_cell);
        resting.begin(&working, far, far, working_cell);
        resting.end(&working);
        resting.begin(&early, soon, far, early_cell);
        early_ended.recv().unwrap();
        assert!(late_ended.try_recv().is_err(), "its time has not come");
        assert!(working_ended.recv().is_err(), "its killer is dropped unused");
    }
}
