//! Read-only mounts for tiers without a file system of the host's: read once, put into the cell.
//!
//! Answers to: `session`. Must not: follow a link out of the mount, or read without bound.
//! INVARIANT: below the folder that the policy names, nothing is opened by a path: each name is opened in the folder
//! that is open already, and a link is no file. So what is changed while it is read can't lead outside.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use ringfence_policy::{Effect, Grant};
use ringfence_types::{FileOp, GuestPath};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The most bytes of all mounts of one session.
const MOST_BYTES: u64 = 64 << 20;
/// The most files of all mounts of one session.
const MOST_FILES: usize = 5_000;

/// Why a mount can't be put into a cell.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The folder or file can't be read.
    #[error("the mount `{path}` can't be read: {cause}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// More than a cell of this tier takes.
    #[error("the mounts hold more than 64 MiB or 5,000 files; mount less, or allow the `process` tier")]
    TooLarge,
    /// A name that the guest could not use, or a path that the grant does not hold.
    #[error("the mount holds a file that can't be shown to the guest: `{0}`")]
    BadName(String),
}

/// The most names in all folders of all mounts of one session: links and folders are no files, but take their time.
const MOST_NAMES: usize = 50_000;

/// Every file of the grant's mounts, as writes into the cell.
pub fn read(grant: &Grant) -> Result<Vec<FileOp>, MountError> {
    let mut walk = Walk { grant, left: MOST_BYTES, names: 0, files: Vec::new(), open: &open_beneath };
    for mount in grant.mounts() {
        walk.root(Path::new(&mount.host), mount.at.as_str())?;
    }
    Ok(walk.files)
}

struct Walk<'a> {
    grant: &'a Grant,
    left: u64,
    names: usize,
    files: Vec<FileOp>,
    open: &'a Open<'a>,
}

/// Opens a name in a folder; `None` where it is a link.
type Open<'o> = dyn Fn(BorrowedFd<'_>, &str, OFlags) -> io::Result<Option<OwnedFd>> + 'o;

impl Walk<'_> {
    /// The policy names this one, and may name it by a link.
    fn root(&mut self, host: &Path, at: &str) -> Result<(), MountError> {
        let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(host, how, Mode::empty()).map_err(|error| unreadable(host)(error.into()))?;
        let file = File::from(opened);
        let kind = file.metadata().map_err(unreadable(host))?;
        if kind.is_dir() { self.folder(file.as_fd(), host, at) } else { self.take(file, host, at) }
    }

    fn folder(&mut self, folder: BorrowedFd<'_>, host: &Path, at: &str) -> Result<(), MountError> {
        for name in self.names(folder, host)? {
            let (host, at) = (host.join(&name), format!("{at}/{name}"));
            let there = match rustix::fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(there) => there,
                Err(error) => return Err(unreadable(&host)(error.into())),
            };
            // Links, sockets, devices and pipes inside a mount are not shown: a link could lead out of it.
            let how = match FileType::from_raw_mode(there.st_mode) {
                FileType::Directory => OFlags::DIRECTORY,
                // Without waiting, in case a pipe has taken its place.
                FileType::RegularFile => OFlags::NONBLOCK,
                _ => continue,
            };
            let Some(opened) = (self.open)(folder, &name, how).map_err(unreadable(&host))? else { continue };
            if how == OFlags::DIRECTORY {
                // A path of the guest's is no longer than this, so folders can't nest without end.
                GuestPath::resolve(&at).map_err(|_| MountError::BadName(host.display().to_string()))?;
                self.folder(opened.as_fd(), &host, &at)?;
            } else {
                self.take(opened.into(), &host, &at)?;
            }
        }
        Ok(())
    }

    /// The names in a folder, in order.
    fn names(&mut self, folder: BorrowedFd<'_>, host: &Path) -> Result<Vec<String>, MountError> {
        let failed = |error: Errno| unreadable(host)(error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let name = entry.file_name().to_str();
            let shown = || host.join(entry.file_name().to_string_lossy().as_ref());
            names.push(name.map_err(|_| MountError::BadName(shown().display().to_string()))?.to_owned());
            self.names += 1;
            if self.names > MOST_NAMES {
                return Err(MountError::TooLarge);
            }
        }
        names.sort();
        Ok(names)
    }

    fn take(&mut self, file: File, host: &Path, at: &str) -> Result<(), MountError> {
        if !file.metadata().map_err(unreadable(host))?.is_file() {
            return Ok(());
        }
        let path = GuestPath::resolve(at).map_err(|_| MountError::BadName(at.to_owned()))?;
        self.grant.permit(&Effect::ReadMount { path: &path }).map_err(|_| MountError::BadName(at.to_owned()))?;
        let mut content = Vec::new();
        file.take(self.left + 1).read_to_end(&mut content).map_err(unreadable(host))?;
        self.left = self.left.checked_sub(content.len() as u64).ok_or(MountError::TooLarge)?;
        if self.files.len() == MOST_FILES {
            return Err(MountError::TooLarge);
        }
        self.files.push(FileOp::Put { path, content, read_only: true });
        Ok(())
    }
}

fn unreadable(host: &Path) -> impl FnOnce(io::Error) -> MountError {
    let path: PathBuf = host.to_owned();
    move |cause| MountError::Unreadable { path: path.display().to_string(), cause }
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// By `openat2`, where the kernel has it: it refuses links, and what lies outside, in every part of a name.
fn open_beneath(folder: BorrowedFd<'_>, name: &str, how: OFlags) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::openat2(folder, name, how | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), BENEATH) {
        // An old kernel, or a filter around this process that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_by_name(folder, name, how),
        opened => unless_link(opened),
    }
}

/// The same for a name that is one: it can't lead outside unless it is a link.
fn open_by_name(folder: BorrowedFd<'_>, name: &str, how: OFlags) -> io::Result<Option<OwnedFd>> {
    if name.contains('/') || name == ".." {
        return Ok(None);
    }
    unless_link(rustix::fs::openat(folder, name, how | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()))
}

fn unless_link(opened: rustix::io::Result<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        // A link to what was to be a folder is told as no folder, a socket as no device.
        Err(Errno::LOOP | Errno::NOTDIR | Errno::XDEV | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use ringfence_policy::{Ask, Policy};
    use ringfence_types::{SessionId, Tenant};

    use super::*;

    /// A mount with one file of each kind, and what lies outside of it.
    struct Stage(PathBuf);

    impl Stage {
        fn new(name: &str) -> Self {
            let base = std::env::temp_dir().join(format!("mounts-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&base);
            for folder in ["data/sub", "outside"] {
                std::fs::create_dir_all(base.join(folder)).unwrap();
            }
            for (file, text) in [("data/sub/a", "inside"), ("data/b", "inside"), ("outside/a", "secret")] {
                std::fs::write(base.join(file), text).unwrap();
            }
            Self(base)
        }

        fn grant(&self) -> Grant {
            let host = self.0.join("data");
            let text = format!("version = 1\n[filesystem]\nmounts = [{{ host = {host:?}, at = '/data' }}]");
            let ask = Ask { tenant: Tenant::local(), session: SessionId::from_random([1; 16]), functions: Vec::new() };
            Policy::parse(&text, "p").unwrap().decide(&ask).unwrap()
        }

        /// Each file as `path text`.
        fn files(&self, open: &Open<'_>) -> Result<Vec<String>, String> {
            let grant = self.grant();
            let mut walk = Walk { grant: &grant, left: MOST_BYTES, names: 0, files: Vec::new(), open };
            walk.root(&self.0.join("data"), "/data").map_err(|error| error.to_string())?;
            let told = |op: FileOp| match op {
                FileOp::Put { path, content, .. } => format!("{path} {}", String::from_utf8_lossy(&content)),
                _ => String::new(),
            };
            Ok(walk.files.into_iter().map(told).collect())
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const BOTH: [(&str, &Open<'static>); 2] = [("openat2", &open_beneath), ("openat", &open_by_name)];

    #[test]
    fn links_are_not_shown() {
        let stage = Stage::new("links");
        for (at, to) in [("file", "../outside/a"), ("folder", "../outside"), ("loop", "loop"), ("own", "b")] {
            symlink(to, stage.0.join("data").join(at)).unwrap();
        }
        for (name, open) in BOTH {
            let want = vec!["/data/b inside".to_owned(), "/data/sub/a inside".to_owned()];
            assert_eq!(stage.files(open), Ok(want), "{name}");
        }
    }

    #[test]
    fn both_ways_of_opening_give_the_same_verdict() {
        let stage = Stage::new("verdicts");
        for (at, to) in [("file", "../outside/a"), ("folder", "../outside")] {
            symlink(to, stage.0.join("data").join(at)).unwrap();
        }
        let data = File::open(stage.0.join("data")).unwrap();
        for (name, open) in BOTH {
            let opens = |file: &str, how| open(data.as_fd(), file, how).map(|opened| opened.is_some());
            for way in ["file", "folder", "..", "../outside/a", "folder/a", "/etc/passwd"] {
                assert!(!opens(way, OFlags::NONBLOCK).unwrap(), "{name} {way}");
            }
            assert!(!opens("folder", OFlags::DIRECTORY).unwrap(), "{name}");
            assert!(opens("b", OFlags::NONBLOCK).unwrap() && opens("sub", OFlags::DIRECTORY).unwrap(), "{name}");
            assert!(opens("none", OFlags::NONBLOCK).is_err(), "{name}");
        }
    }

    /// Opens as a path would be opened.
    fn follows(folder: BorrowedFd<'_>, name: &str, how: OFlags) -> io::Result<Option<OwnedFd>> {
        unless_link(rustix::fs::openat(folder, name, how, Mode::empty()))
    }

    /// Somebody puts a link to another folder in the place of a folder, in the moment before `name` is opened.
    #[test]
    fn what_is_swapped_while_it_is_read_does_not_lead_outside() {
        let swapped = |way: &str, open: &Open<'_>, name: &str| {
            let stage = Stage::new(&format!("swap-{way}-{name}"));
            let (sub, aside) = (stage.0.join("data/sub"), stage.0.join("aside"));
            let files = stage.files(&|folder: BorrowedFd<'_>, opened: &str, how: OFlags| {
                if opened == name {
                    std::fs::rename(&sub, &aside)?;
                    symlink("../outside", &sub)?;
                }
                open(folder, opened, how)
            });
            files.unwrap().join(", ")
        };
        for (way, open) in BOTH {
            assert_eq!(swapped(way, open, "sub"), "/data/b inside", "{way}");
            // The folder was open before: what is read is what lay in it.
            assert_eq!(swapped(way, open, "a"), "/data/b inside, /data/sub/a inside", "{way}");
        }
        assert_eq!(swapped("path", &follows, "sub"), "/data/b inside, /data/sub/a secret", "the swap is none");
    }
}
