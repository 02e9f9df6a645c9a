//! What a session changed in folders that it sees copy-on-write, read from outside: no process of the session is asked,
//! and none need be there any more.
//!
//! Answers to: `cell`. Must not: follow a link, wait for a pipe, leave the file system that takes the changes, or read
//! without bound: every name, number and byte in there is the session's.
//! INVARIANT: nothing is opened by a path that the session could have bent: each name is opened in a folder that is open
//! already, and must be what it was found to be.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use ringfence_policy::{Grant, MountMode};
use ringfence_tier::Differ;
use ringfence_types::{Change, ChangeKind, Changes, FileFault, GuestPath, Skipped};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fgetxattr, fstat, fstatfs, statat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

/// The most names that are looked at, in the session's and the host's folders together.
const MOST_NAMES: usize = 50_000;
/// The most things that are told to be left out.
const MOST_SKIPPED: usize = 1_000;
/// The deepest that folders are followed.
const MOST_DEEP: usize = 64;
/// What is read at once.
const PIECE: usize = 64 << 10;

pub const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Which folders of the session hide the host's, with all in it.
const OPAQUE: &str = "user.overlay.opaque";

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const FOLDER: OFlags = FILE.union(OFlags::DIRECTORY);

/// Reads what the session under this grant changes; `held` is the root of the file system that takes it.
pub fn differ(grant: &Grant, held: Arc<OwnedFd>, bytes: u64) -> io::Result<Differ> {
    if fstatfs(&held)?.f_type != TMPFS_MAGIC {
        return Err(io::Error::other("the changes of a session are not where they belong"));
    }
    let cow = grant.mounts().iter().filter(|mount| mount.mode == MountMode::Cow);
    let mounts = cow.map(|mount| Seen { host: mount.host.clone().into(), at: mount.at.to_string() }).collect();
    let upper = Arc::new(Upper { held, mounts, bytes });
    let files = Arc::clone(&upper);
    Ok(Differ::new(move || upper.changes(), move |path| files.file(path)))
}

/// A folder of the host's, and where the session sees it.
#[derive(Debug)]
struct Seen {
    host: PathBuf,
    at: String,
}

/// What takes a session's changes. What is in it stays as long as this is held.
#[derive(Debug)]
struct Upper {
    held: Arc<OwnedFd>,
    mounts: Vec<Seen>,
    /// What it can hold, so that no more is read of it.
    bytes: u64,
}

impl Upper {
    fn changes(&self) -> io::Result<Changes> {
        let found = Changes { complete: true, ..Changes::default() };
        let mut walk = Walk { found, names: MOST_NAMES, bytes: self.bytes };
        for (number, mount) in self.mounts.iter().enumerate() {
            let upper = self.upper(number)?;
            let lower =
                rustix::fs::open(&mount.host, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let lower = lower.and_then(|lower| open(lower.as_fd(), ".", FOLDER)).ok();
            let pair = Pair { upper: upper.as_fd(), lower: lower.as_ref().map(AsFd::as_fd), hidden: false };
            walk.folder(pair, &mount.at, 0);
        }
        walk.found.changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(walk.found)
    }

    fn upper(&self, number: usize) -> io::Result<OwnedFd> {
        Ok(open(self.held.as_fd(), &format!("{number}/upper"), FOLDER)?)
    }

    /// A file that the session added or changed, as it is now.
    fn file(&self, path: &GuestPath) -> Result<File, FileFault> {
        let missing = || FileFault::NotFound(path.to_string());
        let found = self.mounts.iter().enumerate().find_map(|(number, mount)| {
            let below = path.as_str().strip_prefix(mount.at.as_str())?.strip_prefix('/')?;
            Some((number, below))
        });
        let (number, below) = found.ok_or_else(missing)?;
        let upper = self.upper(number).map_err(|_| missing())?;
        let denied = |_| FileFault::Denied(path.to_string());
        // Looked at before it is opened: what was removed is a device there, and a device is not opened.
        match open(upper.as_fd(), below, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC) {
            Ok(there) if kind(&there).is_ok_and(|(kind, _)| kind == FileType::CharacterDevice) => return Err(missing()),
            Ok(_) => {}
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(missing()),
            Err(error) => return Err(denied(error)),
        }
        let opened = open(upper.as_fd(), below, FILE).map_err(denied)?;
        match kind(&opened).map_err(denied)? {
            (FileType::RegularFile, 1) => Ok(opened.into()),
            (FileType::Directory, _) => Err(FileFault::IsFolder(path.to_string())),
            _ => Err(FileFault::Denied(path.to_string())),
        }
    }
}

fn open(folder: BorrowedFd<'_>, name: &str, how: OFlags) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::openat2(folder, name, how, Mode::empty(), BENEATH) {
        // A filter around this process that does not know the call: a name that is one can't lead outside.
        Err(Errno::NOSYS | Errno::PERM) if !name.contains('/') && name != ".." => {
            rustix::fs::openat(folder, name, how, Mode::empty())
        }
        opened => opened,
    }
}

/// A folder of the session's, and the host's in its place.
#[derive(Clone, Copy)]
struct Pair<'f> {
    upper: BorrowedFd<'f>,
    lower: Option<BorrowedFd<'f>>,
    /// Nothing of the host's folder is seen through.
    hidden: bool,
}

struct Walk {
    found: Changes,
    /// How many more names and bytes may be looked at.
    names: usize,
    bytes: u64,
}

impl Walk {
    fn folder(&mut self, pair: Pair<'_>, at: &str, depth: usize) {
        if depth > MOST_DEEP {
            return self.skip(at, "deeper than 64 folders");
        }
        let hidden = pair.hidden || is_opaque(pair.upper);
        let names = self.names(pair.upper, at);
        for name in &names {
            self.entry(Pair { hidden, ..pair }, at, name, depth);
        }
        let Some(lower) = pair.lower.filter(|_| hidden) else { return };
        for name in self.names(lower, at).difference(&names) {
            if let Some(there) = about(lower, name) {
                self.removed(&format!("{at}/{name}"), &there);
            }
        }
    }

    fn entry(&mut self, pair: Pair<'_>, at: &str, name: &str, depth: usize) {
        let path = format!("{at}/{name}");
        let Some(there) = about(pair.upper, name) else { return };
        let before = pair.lower.and_then(|lower| about(lower, name));
        let was_folder = before.as_ref().is_some_and(is_folder);
        match FileType::from_raw_mode(there.st_mode) {
            FileType::CharacterDevice if there.st_rdev == 0 => {
                if let Some(before) = &before {
                    self.removed(&path, before);
                }
            }
            FileType::Directory => {
                if let Some(before) = before.as_ref().filter(|_| !was_folder) {
                    self.removed(&path, before);
                }
                if !was_folder {
                    self.add(&path, ChangeKind::Added, true, 0, None);
                }
                let lower = pair.lower.filter(|_| was_folder).and_then(|lower| open(lower, name, FOLDER).ok());
                match open(pair.upper, name, FOLDER) {
                    Ok(upper) => {
                        let lower = lower.as_ref().map(AsFd::as_fd);
                        self.folder(Pair { upper: upper.as_fd(), lower, hidden: pair.hidden }, &path, depth + 1);
                    }
                    Err(_) => self.skip(&path, "a folder that the host can't read"),
                }
            }
            FileType::RegularFile => {
                if let Some(before) = before.as_ref().filter(|_| was_folder) {
                    self.removed(&path, before);
                }
                self.file(pair, name, &path, before.filter(|_| !was_folder).as_ref());
            }
            FileType::Symlink => self.skip(&path, "a symbolic link"),
            _ => self.skip(&path, "neither a file nor a folder"),
        }
    }

    /// A file of the session's; one whose content is the host's is not told.
    fn file(&mut self, pair: Pair<'_>, name: &str, path: &str, before: Option<&Stat>) {
        let opened = match open(pair.upper, name, FILE) {
            Ok(opened) => File::from(opened),
            Err(_) => return self.skip(path, "a file that the host can't read"),
        };
        let (size, links) = match fstat(&opened) {
            Ok(now) if FileType::from_raw_mode(now.st_mode).is_file() => (size_of(&now), now.st_nlink),
            _ => return self.skip(path, "it changed while it was looked at"),
        };
        if links > 1 {
            return self.skip(path, "a file with several names");
        }
        let Some((size, sha256)) = self.hash(&opened, size) else {
            return self.skip(path, "more than the limit on disk, holes included");
        };
        let same = before.filter(|before| size_of(before) == size).and_then(|_| self.hash_of_host(pair, name, size));
        if same.is_some_and(|before| before == sha256) {
            return;
        }
        let kind = if before.is_some() { ChangeKind::Changed } else { ChangeKind::Added };
        self.add(path, kind, false, size, Some(sha256));
    }

    /// The size and hash of what is read now; `None` where that is more than may still be read.
    fn hash(&mut self, file: &File, size: u64) -> Option<(u64, String)> {
        let left = self.bytes.checked_sub(size)?;
        let (read, hash) = digest(file, self.bytes).ok()?;
        self.bytes = left.min(self.bytes.checked_sub(read)?);
        Some((read, hash))
    }

    fn hash_of_host(&self, pair: Pair<'_>, name: &str, size: u64) -> Option<String> {
        let file = File::from(open(pair.lower?, name, FILE).ok()?);
        fstat(&file).ok().filter(|now| FileType::from_raw_mode(now.st_mode).is_file())?;
        digest(&file, size).ok().map(|(_, hash)| hash)
    }

    fn removed(&mut self, path: &str, before: &Stat) {
        self.add(path, ChangeKind::Removed, is_folder(before), 0, None);
    }

    fn add(&mut self, path: &str, kind: ChangeKind, folder: bool, size: u64, sha256: Option<String>) {
        match GuestPath::resolve(path) {
            Ok(path) => self.found.changes.push(Change { path, kind, folder, size, sha256 }),
            Err(_) => self.skip(path, "a path longer than 1,024 bytes"),
        }
    }

    fn skip(&mut self, path: &str, why: &str) {
        if self.found.skipped.len() >= MOST_SKIPPED {
            self.found.complete = false;
            return;
        }
        let path = path.chars().take(1024).collect();
        self.found.skipped.push(Skipped { path, why: why.to_owned() });
    }

    /// The names in a folder, in order.
    fn names(&mut self, folder: BorrowedFd<'_>, at: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let Ok(entries) = Dir::read_from(folder) else {
            self.skip(at, "a folder that the host can't read");
            return names;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if self.names == 0 {
                self.found.complete = false;
                break;
            }
            self.names -= 1;
            match std::str::from_utf8(name) {
                Ok(name) => drop(names.insert(name.to_owned())),
                Err(_) => self.skip(&format!("{at}/{}", String::from_utf8_lossy(name)), "a name that is no text"),
            }
        }
        names
    }
}

/// What it is, and how many names it has.
fn kind(opened: &OwnedFd) -> rustix::io::Result<(FileType, u64)> {
    fstat(opened).map(|about| (FileType::from_raw_mode(about.st_mode), about.st_nlink))
}

fn about(folder: BorrowedFd<'_>, name: &str) -> Option<Stat> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

fn is_folder(about: &Stat) -> bool {
    FileType::from_raw_mode(about.st_mode).is_dir()
}

fn size_of(about: &Stat) -> u64 {
    u64::try_from(about.st_size).unwrap_or(u64::MAX)
}

/// The kernel writes this mark; a session can't, since its own names are kept apart from the kernel's.
fn is_opaque(folder: BorrowedFd<'_>) -> bool {
    let mut value = [0; 8];
    fgetxattr(folder, OPAQUE, &mut value).is_ok_and(|count| value.get(..count) == Some(b"y"))
}

/// Size and hash of up to `most` bytes; an error where there is more.
fn digest(file: &File, most: u64) -> io::Result<(u64, String)> {
    let (mut hasher, mut piece, mut read) = (Sha256::new(), vec![0; PIECE], 0_u64);
    let mut bounded = file.take(most.saturating_add(1));
    loop {
        let count = bounded.read(&mut piece)?;
        if count == 0 {
            break;
        }
        read += count as u64;
        hasher.update(piece.get(..count).unwrap_or_default());
    }
    if read > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((read, hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}
