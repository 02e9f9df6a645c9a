//! Brings a log and its head to the disk without holding up who writes records.
//!
//! A disk takes milliseconds, a record microseconds. The newest head waits for the thread here;
//! older ones are passed over. A failure is kept and given to the next writer.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::file_sink::read_small;
use crate::key::{Head, private_file, with_suffix};

pub(crate) struct Sealer {
    desk: Arc<Desk>,
    /// Started with the first head, so that a short-lived log has no thread.
    thread: Option<JoinHandle<()>>,
}

struct Desk {
    file: Arc<File>,
    head_path: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What waits: a head, or a log without a key that only has to be synced.
    waiting: Option<Option<Head>>,
    stop: bool,
    failed: Option<String>,
}

impl Sealer {
    pub(crate) fn new(file: Arc<File>, head_path: PathBuf) -> Self {
        let desk = Desk { file, head_path, state: Mutex::default(), changed: Condvar::new() };
        Self { desk: Arc::new(desk), thread: None }
    }

    /// The failure of an earlier head, if there was one.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.desk.state().failed.clone().map_or(Ok(()), |failed| Err(io::Error::other(failed)))
    }

    /// Hands over a head.
    pub(crate) fn soon(&mut self, head: Option<Head>) -> io::Result<()> {
        self.check()?;
        if self.thread.is_none() {
            let desk = self.desk.clone();
            let work = move || desk.work();
            self.thread = Some(std::thread::Builder::new().name("audit-sealer".to_owned()).spawn(work)?);
        }
        self.desk.state().waiting = Some(head);
        self.desk.changed.notify_one();
        Ok(())
    }

    /// Ends the thread; what still waits is passed over, because the caller seals a newer head.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| io::Error::other("the thread that syncs the log panicked"))?;
        }
        self.desk.state().stop = false;
        self.check()
    }

    fn stop(&self) {
        let mut state = self.desk.state();
        state.stop = true;
        state.waiting = None;
        self.desk.changed.notify_one();
    }
}

impl Drop for Sealer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(head) = self.next() {
            if let Err(error) = seal_now(&self.file, &self.head_path, head.as_ref()) {
                self.state().failed = Some(error.to_string());
                return;
            }
        }
    }

    fn next(&self) -> Option<Option<Head>> {
        let mut state = self.state();
        loop {
            if state.stop {
                return None;
            }
            if let Some(head) = state.waiting.take() {
                return Some(head);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Syncs the log, then replaces the head: a head never names a record that the disk may not have.
pub(crate) fn seal_now(file: &File, head_path: &Path, head: Option<&Head>) -> io::Result<()> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    file.sync_data()?;
    let Some(head) = head else { return Ok(()) };
    let newer = |text: String| Head::parse(&text).is_some_and(|known| known.seq > head.seq);
    if read_small(head_path).is_ok_and(newer) {
        return Ok(());
    }
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = with_suffix(head_path, &format!(".{}-{number}", std::process::id()));
    let mut written = private_file().write(true).create(true).truncate(true).open(&draft)?;
    writeln!(written, "{head}")?;
    written.sync_data()?;
    std::fs::rename(&draft, head_path)
}
