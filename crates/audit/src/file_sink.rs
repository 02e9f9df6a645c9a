//! The sink in a file, shared between processes.
//!
//! Answers to: [`crate::Log`]. Must not: cut, move or rewrite a byte that is in the file.
//! INVARIANT: bytes are appended only while the advisory lock on the file is held, and only
//! behind the end that was read or written under that lock.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::AuditError;
use crate::key::{Head, PublicKey, place_once, private_file, refuse_exposed, refuse_other_kinds, with_suffix};
use crate::sealer::{Sealer, seal_now};
use crate::sink::{Seal, Sink, Tail};
use crate::tail::read_tail;
use crate::text::escape;

/// How long a writer waits for another one's lock, which is held for microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Appends to a file that only its owner may read and write.
pub struct FileSink {
    path: PathBuf,
    file: Arc<File>,
    /// Held shared by each open writer, so that the last one to leave knows that it is.
    writers: File,
    /// Where this writer's last line ended; `None` until the end was read for the first time.
    end: Option<u64>,
    key: Option<PublicKey>,
    sealer: Sealer,
}

/// The files beside a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// The public key: `audit.jsonl.pub`.
    pub public_key: PathBuf,
    /// The signed head: `audit.jsonl.head`.
    pub head: PathBuf,
    /// The empty file on which open writers hold locks: `audit.jsonl.writers`.
    pub writers: PathBuf,
}

impl Beside {
    /// The files beside this log.
    pub fn of(log: &Path) -> Self {
        Self {
            public_key: with_suffix(log, ".pub"),
            head: with_suffix(log, ".head"),
            writers: with_suffix(log, ".writers"),
        }
    }
}

/// That a log may be opened here: there is none, or one is. What is something else is refused before anything is made
/// beside it.
pub fn check_file(path: &Path) -> Result<(), AuditError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => open_log(path).map(drop),
    }
}

/// Opens a log's file, or makes it. A file without a log's neighbours must be empty, or end as a log does.
fn open_log(path: &Path) -> Result<File, AuditError> {
    // Before it is opened: opening a pipe may wait, and opening a device may do something.
    if let Ok(about) = std::fs::metadata(path) {
        refuse_other_kinds(path, &about)?;
    }
    let file = private_file().read(true).append(true).create(true).open(path).map_err(AuditError::open(path))?;
    refuse_exposed(path, &file, 0o022)?;
    if !Beside::of(path).writers.exists() {
        read_tail(&file, path)?;
    }
    Ok(file)
}

impl FileSink {
    /// Opens the file, or makes it. `key` is the public half of the key that the log signs with.
    pub fn open(path: &Path, key: Option<PublicKey>) -> Result<Self, AuditError> {
        let beside = Beside::of(path);
        let file = open_log(path)?;
        let writers = private_file().read(true).append(true).create(true).open(&beside.writers);
        let writers = writers.map_err(AuditError::open(&beside.writers))?;
        keep_public_key(path, &beside.public_key, key)?;
        let file = Arc::new(file);
        let sealer = Sealer::new(file.clone(), beside.head);
        Ok(Self { path: path.to_owned(), file, writers, end: None, key, sealer })
    }

    /// The end of the log, where another process moved it.
    fn find_end(&mut self) -> Result<Option<Tail>, AuditError> {
        let about = self.file.metadata().map_err(AuditError::open(&self.path))?;
        let tampered = |what: &str| AuditError::Tampered { path: self.path.clone(), what: what.to_owned() };
        #[cfg(unix)]
        if std::os::unix::fs::MetadataExt::nlink(&about) == 0 {
            return Err(tampered("it was removed while it was open"));
        }
        match self.end {
            Some(end) if about.len() == end => return Ok(None),
            Some(end) if about.len() < end => return Err(tampered("it became shorter while it was open")),
            Some(_) => {}
            None => {}
        }
        let tail = read_tail(&self.file, &self.path)?;
        if self.end.is_none() {
            self.refuse_behind_head(&tail)?;
        }
        self.end = Some(about.len());
        Ok(Some(tail))
    }

    /// A log that ends before its signed head was cut: going on would bury that.
    fn refuse_behind_head(&self, tail: &Tail) -> Result<(), AuditError> {
        let Some(key) = self.key else { return Ok(()) };
        let at = Beside::of(&self.path).head;
        let tampered = |what: String| Err(AuditError::Tampered { path: self.path.clone(), what });
        match read_small(&at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && *tail == Tail::EMPTY => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => tampered("its signed head is missing".to_owned()),
            Err(cause) => Err(AuditError::Open { path: at, cause }),
            Ok(text) => match Head::parse(&text).filter(|head| key.signed_head(head)) {
                None => tampered("the file of its head is not one that its key signed".to_owned()),
                Some(head) if head.seq > tail.link.seq => {
                    tampered(format!("it ends at record {}, but reached record {}", tail.link.seq, head.seq))
                }
                Some(head) if head.seq == tail.link.seq && head.hash != tail.link.hash => {
                    tampered(format!("record {} is not the one that was signed", head.seq))
                }
                Some(_) => Ok(()),
            },
        }
    }
}

impl Sink for FileSink {
    fn name(&self) -> String {
        format!("`{}`", self.path.display())
    }

    fn acquire(&mut self) -> Result<Option<Tail>, AuditError> {
        lock(&self.path, || self.file.try_lock())?;
        let end = self.find_end();
        if end.is_err() {
            self.release();
        }
        end
    }

    fn release(&mut self) {
        // A lock that can't be given back is given back when the file is closed.
        let _ = self.file.unlock();
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.sealer.check()?;
        (&*self.file).write_all(lines)?;
        self.end = self.end.map(|end| end + lines.len() as u64);
        Ok(())
    }

    fn enter(&mut self) -> io::Result<bool> {
        let alone = self.writers.try_lock().is_ok();
        if alone {
            self.writers.unlock()?;
            remove_drafts(&Beside::of(&self.path).head);
        }
        self.writers.try_lock_shared().map_err(io::Error::from)?;
        Ok(alone)
    }

    fn leave(&mut self) -> io::Result<bool> {
        self.writers.unlock()?;
        let last = self.writers.try_lock().is_ok();
        self.writers.unlock()?;
        Ok(last)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn seal(&mut self, head: Option<Head>, how: Seal) -> io::Result<()> {
        match how {
            Seal::Soon => self.sealer.soon(head),
            Seal::Now => {
                self.sealer.finish()?;
                seal_now(&self.file, &Beside::of(&self.path).head, head.as_ref())
            }
        }
    }
}

/// Tries for a lock until it is there or patience ends.
pub(crate) fn lock(path: &Path, attempt: impl Fn() -> Result<(), TryLockError>) -> Result<(), AuditError> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(cause)) => return Err(AuditError::Open { path: path.to_owned(), cause }),
            Err(TryLockError::WouldBlock) if started.elapsed() > LOCK_PATIENCE => {
                return Err(AuditError::Busy { path: path.to_owned() });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

/// Removes heads that killed writers began and never put in place.
fn remove_drafts(head: &Path) {
    let (Some(folder), Some(name)) = (head.parent(), head.file_name()) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = format!("{}.", name.to_string_lossy());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // What can't be removed is litter, not a fault.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Puts the public key beside a new log, and refuses another one than an old log has.
fn keep_public_key(log: &Path, at: &Path, key: Option<PublicKey>) -> Result<(), AuditError> {
    let given = key.map(|key| key.to_string());
    if let Some(given) = &given
        && !at.exists()
        && place_once(at, given)?
    {
        return Ok(());
    }
    let found = match read_small(at) {
        Err(error) if given.is_none() && error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(AuditError::open(at))?,
    };
    if Some(found.trim_end()) == given.as_deref() {
        return Ok(());
    }
    let given = given.unwrap_or_else(|| "none".to_owned());
    Err(AuditError::OtherKey { path: log.to_owned(), found: escape(found.trim_end(), 80), given })
}

/// Reads a file of one short line.
pub(crate) fn read_small(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(1024).read_to_string(&mut text)?;
    Ok(text)
}
