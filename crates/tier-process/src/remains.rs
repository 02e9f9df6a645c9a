//! What could not be removed yet, since a dying process still holds it: folders of control groups, and keepers that end
//! their sessions.
//!
//! Answers to: `group` and `hold`. Must not: keep whoever drops a session waiting.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(2);
/// How often one is tried: a process that the kernel can't end leaves it for the next start.
const TRIES: u32 = 500;

/// The longest that the end of a tier waits for them.
const SETTLING: Duration = Duration::from_millis(500);
/// The same for keepers, which remove what their sessions wrote: a program can make that much work.
const REMOVING: Duration = Duration::from_secs(10);

static LATER: LazyLock<Option<Mutex<Sender<Vec<PathBuf>>>>> = LazyLock::new(|| {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("ringfence-remains".to_owned());
    thread.spawn(move || remove_all(&receiver)).ok().map(|_| Mutex::new(sender))
});

/// Folders that are still waited for.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Waits for a moment until what was to be removed is gone: before the program ends, and the thread with it.
pub fn settle() {
    let start = Instant::now();
    while LEFT.load(Ordering::Relaxed) > 0 && start.elapsed() < SETTLING {
        std::thread::sleep(PAUSE);
    }
    let lines = std::mem::take(&mut *keepers());
    for mut line in lines {
        let left = REMOVING.saturating_sub(start.elapsed()).max(PAUSE);
        if line.set_nonblocking(false).and_then(|()| line.set_read_timeout(Some(left))).is_ok() {
            // It never sends: this is its end, or the end of patience.
            let _ = line.read(&mut [0]);
        }
    }
}

/// Keepers that were let go, by their lines.
static KEEPERS: Mutex<Vec<UnixStream>> = Mutex::new(Vec::new());

fn keepers() -> MutexGuard<'static, Vec<UnixStream>> {
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a keeper that was let go, and forgets those that are done.
pub fn wait_later(line: UnixStream) {
    let mut keepers = keepers();
    keepers.retain_mut(|line| line.read(&mut [0]).is_err());
    if line.set_nonblocking(true).is_ok() {
        keepers.push(line);
    }
}

/// Removes these folders as soon as the kernel lets them go.
pub fn remove_later(folders: Vec<PathBuf>) {
    if let Some(sender) = LATER.as_ref() {
        LEFT.fetch_add(folders.len(), Ordering::Relaxed);
        // Where the thread is gone they wait for the next start.
        let _ = sender.lock().unwrap_or_else(PoisonError::into_inner).send(folders);
    }
}

fn remove_all(given: &Receiver<Vec<PathBuf>>) {
    let mut waiting: Vec<(PathBuf, u32)> = Vec::new();
    loop {
        let more = if waiting.is_empty() { given.recv().ok() } else { given.recv_timeout(PAUSE).ok() };
        match more {
            Some(folders) => waiting.extend(folders.into_iter().map(|folder| (folder, TRIES))),
            None if waiting.is_empty() => return,
            None => {}
        }
        let before = waiting.len();
        waiting.retain_mut(|(folder, tries)| {
            *tries -= 1;
            *tries > 0 && std::fs::remove_dir(folder).is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound)
        });
        LEFT.fetch_sub(before - waiting.len(), Ordering::Relaxed);
    }
}
