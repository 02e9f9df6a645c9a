//! What a session changed in copy-on-write mounts, written to a folder of the caller's.
//!
//! Answers to: `session`, and the front doors. Must not: believe a name, a size or a hash of a moment ago, write anything
//! outside of the folder, replace anything, or follow a link.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_audit::event::ChangesCollected;
use ringfence_audit::sha256_hex;
use ringfence_tier::Differ;
use ringfence_types::{Change, ChangeKind, Changes, FileFault, Skipped};
use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

/// The list of the changes, in the caller's folder.
pub const LIST: &str = "changes.json";
/// Their content, below it.
pub const FILES: &str = "files";

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW);
const PIECE: usize = 64 << 10;
/// What is always read of one file, where the policy says nothing of disk.
pub(crate) const SMALL: u64 = 64 << 20;

/// Why changes can't be written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// It is there, and not empty.
    #[error("`{}` is not empty; name a new or an empty folder for the changes", .0.display())]
    NotEmpty(PathBuf),
    /// It can't be made or written to.
    #[error("the changes can't be written to `{}`: {cause}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// An empty folder of the caller's, for changes.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    folder: OwnedFd,
}

impl Destination {
    /// Makes the folder; one that is there must be empty.
    pub fn new(path: &Path) -> Result<Self, SaveError> {
        let failed = |cause: io::Error| SaveError::Folder { path: path.to_owned(), cause };
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, how, Mode::empty()).map_err(|error| failed(error.into()))?;
        let mut names = Dir::read_from(&folder).map_err(|error| failed(error.into()))?;
        let is_empty = names.all(|entry| entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")));
        if !is_empty {
            return Err(SaveError::NotEmpty(path.to_owned()));
        }
        Ok(Self { path: path.to_owned(), folder })
    }

    /// Writes the content of added and changed files below `files`, by their paths as the guest saw them, and the list
    /// of all to `changes.json`. What can't be written under its own name, or was not any more what was found, is in
    /// the list among what was skipped.
    pub fn save(&self, differ: &Differ, changes: &mut Changes) -> Result<(), SaveError> {
        let failed = |cause: io::Error| SaveError::Folder { path: self.path.clone(), cause };
        let mode = Mode::from_raw_mode(0o755);
        rustix::fs::mkdirat(&self.folder, FILES, mode).map_err(|error| failed(error.into()))?;
        let files = rustix::fs::openat2(&self.folder, FILES, FOLDER, Mode::empty(), BENEATH);
        let files = files.map_err(|error| failed(error.into()))?;
        let mut skipped = Vec::new();
        for change in changes.changes.iter().filter(|change| change.kind != ChangeKind::Removed) {
            match self::save(&files, differ, change) {
                Ok(()) => {}
                Err(NotSaved::Why(why)) => {
                    skipped.push(Skipped { path: change.path.to_string(), why: why.to_owned() });
                }
                Err(NotSaved::Host(error)) => return Err(failed(error)),
            }
        }
        changes.skipped.extend(skipped);
        let list = rustix::fs::openat(&self.folder, LIST, NEW | OFlags::CLOEXEC, Mode::from_raw_mode(0o644));
        let mut list = File::from(list.map_err(|error| failed(error.into()))?);
        list.write_all(plain_json(changes).as_bytes()).map_err(failed)
    }
}

enum NotSaved {
    /// The session's doing.
    Why(&'static str),
    /// The host's.
    Host(io::Error),
}

impl From<Errno> for NotSaved {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => Self::Why("a name that this folder does not take"),
            Errno::EXIST | Errno::NOTDIR | Errno::LOOP => Self::Why("two of its names are one in this folder"),
            error => Self::Host(error.into()),
        }
    }
}

fn save(files: &OwnedFd, differ: &Differ, change: &Change) -> Result<(), NotSaved> {
    let path = change.path.as_str();
    if path.chars().any(char::is_control) {
        return Err(NotSaved::Why("a name with control characters"));
    }
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let Some(last) = names.pop() else { return Ok(()) };
    let mut folder = files.try_clone().map_err(NotSaved::Host)?;
    for name in names.into_iter().chain(change.folder.then_some(last)) {
        match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        folder = rustix::fs::openat2(&folder, name, FOLDER, Mode::empty(), BENEATH)?;
    }
    if change.folder {
        return Ok(());
    }
    let source = match differ.file(&change.path) {
        Ok(source) => source,
        Err(FileFault::NotFound(_)) => return Err(NotSaved::Why("it was gone when it was to be written")),
        Err(_) => return Err(NotSaved::Why("it was no ordinary file when it was to be written")),
    };
    let opened = rustix::fs::openat(folder.as_fd(), last, NEW | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?;
    let hash = copy(source, &mut File::from(opened), change.size).map_err(NotSaved::Host)?;
    if change.sha256.as_ref() != Some(&hash) {
        let _ = rustix::fs::unlinkat(folder.as_fd(), last, rustix::fs::AtFlags::empty());
        return Err(NotSaved::Why("it changed while it was written"));
    }
    Ok(())
}

/// Copies up to `most` bytes and one; the hash of all.
fn copy(source: File, to: &mut File, most: u64) -> io::Result<String> {
    let (mut hasher, mut piece, mut source) = (Sha256::new(), vec![0; PIECE], source.take(most.saturating_add(1)));
    loop {
        let count = source.read(&mut piece)?;
        let bytes = piece.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        hasher.update(bytes);
        to.write_all(bytes)?;
    }
}

/// A file whole; an error where it holds more than `most`.
pub(crate) fn read(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(content) }
}

/// JSON of the plain letters alone: names are the guest's, and the list may be looked at in a terminal.
fn plain_json(changes: &Changes) -> String {
    let text = serde_json::to_string_pretty(changes).unwrap_or_default();
    let mut plain = String::with_capacity(text.len());
    let mut units = [0; 2];
    for letter in text.chars() {
        if letter.is_ascii() && letter != '\u{7f}' {
            plain.push(letter);
        } else {
            letter.encode_utf16(&mut units).iter().for_each(|unit| plain.push_str(&format!("\\u{unit:04x}")));
        }
    }
    plain.push('\n');
    plain
}

/// What is recorded of a list.
pub(crate) fn record(changes: &Changes) -> ChangesCollected {
    let count = |kind| changes.count(kind) as u64;
    ChangesCollected {
        added: count(ChangeKind::Added),
        changed: count(ChangeKind::Changed),
        removed: count(ChangeKind::Removed),
        skipped: changes.skipped.len() as u64,
        bytes: changes.changes.iter().map(|change| change.size).sum(),
        complete: changes.complete,
        sha256: sha256_hex(serde_json::to_string(changes).unwrap_or_default().as_bytes()),
    }
}
