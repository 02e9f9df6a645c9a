//! Things kept ready ahead of need, made by a thread of their own: workers, jails' sessions.
//!
//! Answers to: the pools of the tiers. Must not: hand the same thing out twice, or make the next one in the way of
//! whoever takes them: what was taken is replaced in a lull, or where fewer than half are left.
//! A failure is never kept for later: only who waits for a thing is told of it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Nothing is taken for so long before what was taken is replaced: a burst does not pay for what replaces it, and the
/// next one finds the line full.
const LULL: Duration = Duration::from_millis(4);

/// What is made is a process, which does its first steps in so long.
const START: Duration = Duration::from_millis(4);

/// The thread that makes things, and those that are ready.
#[derive(Debug)]
pub struct Line<T, E> {
    shared: Arc<Shared<T, E>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<T, E> {
    state: Mutex<State<T, E>>,
    changed: Condvar,
    /// How many are kept ready.
    full: usize,
}

#[derive(Debug)]
struct State<T, E> {
    /// The last that was made is the last; when it was made.
    ready: VecDeque<(Instant, T)>,
    waiting: VecDeque<oneshot::Sender<Result<T, E>>>,
    /// When the last was taken.
    taken: Instant,
    /// The last could not be made. It is tried again when somebody takes one.
    failed: bool,
    thread: Thread,
    /// The line is dropped, or its thread is gone.
    over: bool,
}

/// What the thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    /// It makes something, or is about to.
    Works,
    /// It waits for a lull.
    Naps,
    /// It waits to be woken.
    Sleeps,
}

/// For whom a thing is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Somebody waits for it, or others were taken a moment ago.
    Now,
    /// Nobody is there.
    AtLeisure,
}

/// When the next one is to be made.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Now,
    In(Duration),
    Never,
}

impl<T, E> State<T, E> {
    /// The last that was made, whose memory is still in the processor's caches; but not one that has just been started,
    /// where there is another.
    fn take(&mut self) -> Option<T> {
        let started = self.ready.iter().rposition(|(made, _)| made.elapsed() >= START).unwrap_or_default();
        self.ready.remove(started).map(|(_, thing)| thing)
    }
}

impl<T, E> Shared<T, E> {
    fn state(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self, state: &State<T, E>) -> Due {
        let ready = state.ready.len();
        if !state.waiting.is_empty() {
            return Due::Now;
        }
        if state.failed || ready >= self.full {
            return Due::Never;
        }
        let since = state.taken.elapsed();
        if ready * 2 < self.full || since >= LULL { Due::Now } else { Due::In(LULL - since) }
    }

    /// Wakes the thread where it must be. That takes longer than the rest of a take does.
    fn wake(&self, state: &mut State<T, E>) {
        let wake = match self.due(state) {
            Due::Now => state.thread != Thread::Works,
            Due::In(_) => state.thread == Thread::Sleeps,
            Due::Never => false,
        };
        if wake {
            state.thread = Thread::Works;
            self.changed.notify_one();
        }
    }

    /// Sleeps until something is to be made. `None` where the line is over.
    fn until_wanted(&self) -> Option<Want> {
        let mut state = self.state();
        while !state.over {
            match self.due(&state) {
                Due::Now => break,
                Due::In(time) => {
                    state.thread = Thread::Naps;
                    state = self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0;
                }
                Due::Never => {
                    state.thread = Thread::Sleeps;
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        state.thread = Thread::Works;
        let is_busy = !state.waiting.is_empty() || state.taken.elapsed() < LULL;
        let want = if is_busy { Want::Now } else { Want::AtLeisure };
        (!state.over).then_some(want)
    }

    /// Gives the thing to whoever waits longest, or keeps it.
    fn made(&self, mut thing: T) {
        let mut state = self.state();
        while let Some(first) = state.waiting.pop_front() {
            match first.send(Ok(thing)) {
                Err(Ok(refused)) => thing = refused,
                _ => return,
            }
        }
        state.ready.push_back((Instant::now(), thing));
    }
}

impl<T, E: Clone> Shared<T, E> {
    /// Tells everyone who waits. Nothing is tried again before somebody does.
    fn failed(&self, fault: &E) {
        let mut state = self.state();
        state.failed = true;
        for waiting in state.waiting.drain(..) {
            // Whoever does not wait any longer need not know.
            let _ = waiting.send(Err(fault.clone()));
        }
    }
}

/// Ends the waiting of everyone where the thread ends, also by a panic.
struct Over<'a, T, E>(&'a Shared<T, E>);

impl<T, E> Drop for Over<'_, T, E> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.over = true;
        state.waiting.clear();
    }
}

impl<T: Send + 'static, E: Clone + Send + 'static> Line<T, E> {
    /// Starts the thread `name`, which keeps `full` things ready; with 0 each is made when it is asked for. What is made
    /// is told for whom.
    pub fn start(
        name: String,
        full: usize,
        mut make: impl FnMut(Want) -> Result<T, E> + Send + 'static,
    ) -> io::Result<Self> {
        let state = State {
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            taken: Instant::now(),
            failed: false,
            thread: Thread::Works,
            over: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), full });
        let theirs = Arc::clone(&shared);
        let run = move || {
            let _over = Over(&theirs);
            while let Some(want) = theirs.until_wanted() {
                match make(want) {
                    Ok(thing) => theirs.made(thing),
                    Err(fault) => theirs.failed(&fault),
                }
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl<T, E> Line<T, E> {
    /// One of them: at once where one is ready. `None` where the thread is gone.
    pub async fn take(&self) -> Option<Result<T, E>> {
        let coming = {
            let mut state = self.shared.state();
            state.failed = false;
            if let Some(thing) = state.take() {
                state.taken = Instant::now();
                if state.ready.len() * 2 < self.shared.full {
                    self.shared.wake(&mut state);
                }
                return Some(Ok(thing));
            }
            if state.over {
                return None;
            }
            let (sender, coming) = oneshot::channel();
            state.taken = Instant::now();
            state.waiting.push_back(sender);
            self.shared.wake(&mut state);
            coming
        };
        coming.await.ok()
    }
}

impl<T: Send + 'static, E: Send + 'static> Line<T, E> {
    /// What has something that was taken replaced, when dropped: best when whoever took it is done.
    pub fn refill(&self) -> Refill {
        Refill(Arc::clone(&self.shared) as Arc<dyn Fill>)
    }
}

/// Has its line filled up from when it is dropped.
pub struct Refill(Arc<dyn Fill>);

impl fmt::Debug for Refill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refill")
    }
}

trait Fill: Send + Sync {
    fn fill_up(&self);
}

impl<T: Send, E: Send> Fill for Shared<T, E> {
    fn fill_up(&self) {
        self.wake(&mut self.state());
    }
}

impl Drop for Refill {
    fn drop(&mut self) {
        self.0.fill_up();
    }
}

impl<T, E> Drop for Line<T, E> {
    /// Waits for the thread, so that no process is left when the tier is gone.
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.over = true;
            state.ready.clear();
        }
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has dropped what it made things with while unwinding.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A line of two whose makings are told, and may each fail.
    fn line(results: Vec<Result<u32, &'static str>>) -> (Line<u32, &'static str>, mpsc::Receiver<()>) {
        let mut results = VecDeque::from(results);
        let (tell, told) = mpsc::channel();
        let make = move |_| {
            // The test may be over.
            let _ = tell.send(());
            results.pop_front().unwrap_or(Err("there is no more"))
        };
        (Line::start("a test".to_owned(), 2, make).expect("a thread"), told)
    }

    async fn asleep<T, E>(line: &Line<T, E>) {
        while line.shared.state().thread != Thread::Sleeps {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_failure_that_passed_is_not_told_to_who_comes_later() {
        let (line, told) = line(vec![Ok(1), Err("no memory for a moment"), Ok(2), Ok(3)]);
        for _ in 0..2 {
            // The failure is over before anybody comes.
            told.recv().expect("the thread lives");
        }
        asleep(&line).await;
        assert_eq!(line.take().await, Some(Ok(1)));
        assert_eq!(line.take().await, Some(Ok(2)));
        assert_eq!(line.take().await, Some(Ok(3)));
    }

    #[tokio::test]
    async fn who_waits_is_told_of_the_failure() {
        let (line, _told) = line(vec![]);
        assert_eq!(line.take().await, Some(Err("there is no more")));
    }

    #[tokio::test]
    async fn what_was_taken_is_replaced_when_its_taker_is_done_or_half_are_gone() {
        let (line, told) = line((0..9).map(Ok).collect());
        let count = |made: u32| (0..made).for_each(|_| told.recv().expect("the thread lives"));
        count(2);
        asleep(&line).await;
        let refill = line.refill();
        let taken = async || line.take().await.expect("the thread lives").expect("there are nine");
        let mut all = vec![taken().await];
        assert_eq!(line.shared.state().thread, Thread::Sleeps, "whoever took it has the processors first");
        drop(refill);
        count(1);
        asleep(&line).await;
        all.extend([taken().await, taken().await]);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        // None of two is left.
        count(2);
    }

    #[test]
    fn the_last_is_taken_that_has_done_its_first_steps() {
        let now = Instant::now();
        let ago = |count: u32| now.checked_sub(START * count).expect("the machine has been up for longer");
        let ready = VecDeque::from([(ago(3), "first"), (ago(2), "second"), (now + START, "just made")]);
        let (waiting, taken, failed, thread, over) = (VecDeque::new(), now, false, Thread::Sleeps, false);
        let mut state = State::<_, ()> { ready, waiting, taken, failed, thread, over };
        let order: Vec<_> = std::iter::from_fn(|| state.take()).collect();
        assert_eq!(order, ["second", "first", "just made"]);
    }

    #[tokio::test]
    async fn a_line_of_none_makes_what_is_asked_for() {
        let line = Line::<Want, &str>::start("a test".to_owned(), 0, Ok).expect("a thread");
        asleep(&line).await;
        assert_eq!(line.take().await, Some(Ok(Want::Now)));
        asleep(&line).await;
        assert!(line.shared.state().ready.is_empty());
    }

    #[tokio::test]
    async fn a_thread_that_is_gone_leaves_nobody_waiting() {
        let line = Line::<(), ()>::start("a test".to_owned(), 1, |_| panic!("the thread is gone")).expect("a thread");
        assert_eq!(line.take().await, None);
    }
}
