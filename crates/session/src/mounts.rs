//! Read-only mounts for tiers without a file system of the host's: read once, put into the cell.
//!
//! Answers to: `session`. Must not: follow a link out of the mount, or read without bound.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ringfence_policy::{Effect, Grant};
use ringfence_types::{FileOp, GuestPath};

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

/// Every file of the grant's mounts, as writes into the cell.
pub fn read(grant: &Grant) -> Result<Vec<FileOp>, MountError> {
    let mut walk = Walk { grant, left: MOST_BYTES, files: Vec::new() };
    for mount in grant.mounts() {
        walk.visit(Path::new(&mount.host), mount.at.as_str().to_owned())?;
    }
    Ok(walk.files)
}

struct Walk<'a> {
    grant: &'a Grant,
    left: u64,
    files: Vec<FileOp>,
}

impl Walk<'_> {
    fn visit(&mut self, host: &Path, at: String) -> Result<(), MountError> {
        let unreadable = |cause| MountError::Unreadable { path: host.display().to_string(), cause };
        let kind = std::fs::symlink_metadata(host).map_err(unreadable)?;
        if kind.is_dir() {
            let mut names: Vec<PathBuf> =
                std::fs::read_dir(host).map_err(unreadable)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
            names.sort();
            for path in names {
                let name = path.file_name().and_then(|name| name.to_str());
                let name = name.ok_or_else(|| MountError::BadName(path.display().to_string()))?;
                self.visit(&path, format!("{at}/{name}"))?;
            }
            return Ok(());
        }
        // Links, sockets, devices and pipes inside a mount are not shown: a link could lead out of it.
        if kind.is_file() { self.take(host, at) } else { Ok(()) }
    }

    fn take(&mut self, host: &Path, at: String) -> Result<(), MountError> {
        let path = GuestPath::resolve(&at).map_err(|_| MountError::BadName(at.clone()))?;
        self.grant.permit(&Effect::ReadMount { path: &path }).map_err(|_| MountError::BadName(at))?;
        let unreadable = |cause| MountError::Unreadable { path: host.display().to_string(), cause };
        let mut content = Vec::new();
        File::open(host).map_err(unreadable)?.take(self.left + 1).read_to_end(&mut content).map_err(unreadable)?;
        self.left = self.left.checked_sub(content.len() as u64).ok_or(MountError::TooLarge)?;
        if self.files.len() == MOST_FILES {
            return Err(MountError::TooLarge);
        }
        self.files.push(FileOp::Put { path, content, read_only: true });
        Ok(())
    }
}
