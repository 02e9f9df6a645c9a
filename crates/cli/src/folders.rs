//! The folders of this user: where logs, keys and holds stay, and where the control sockets are.
//!
//! Answers to: the commands and `control`. Must not: follow a link, or use a folder that others can write to.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is nowhere to put it.
    #[error("there is no home folder: set `HOME` or `XDG_STATE_HOME`")]
    NoHome,
    /// It can't be made or read.
    #[error("the folder `{}` can't be used: {cause}", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// It belongs to someone else, is a link, or is open to others.
    #[error("the folder `{}` is not private: {why}; remove it, or run `chmod 700` on it", path.display())]
    Exposed {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
}

/// The state folder: `$XDG_STATE_HOME/ringfence`, else `~/.local/state/ringfence`. Not made here.
pub fn state() -> Result<PathBuf, FolderError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("ringfence"))
        .ok_or(FolderError::NoHome)
}

/// The state folder, made where it is missing.
pub fn state_made() -> Result<PathBuf, FolderError> {
    let folder = state()?;
    if let Some(base) = folder.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(base);
        made.map_err(|cause| FolderError::Unusable { path: base.to_owned(), cause })?;
    }
    private(&folder)?;
    Ok(folder)
}

/// Where locked environments are: `environments` in the state folder. Not made here.
pub fn environments() -> Result<PathBuf, FolderError> {
    Ok(state()?.join("environments"))
}

/// The folder of locked environments, made where it is missing.
pub fn environments_made() -> Result<PathBuf, FolderError> {
    let folder = state_made()?.join("environments");
    private(&folder)?;
    Ok(folder)
}

/// The folder of the control sockets, made where it is missing.
pub fn runtime_made() -> Result<PathBuf, FolderError> {
    let own = own_uid();
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || Some(PathBuf::from(format!("/run/user/{own}"))).filter(|path| is_own_folder(path));
    let base = match given.or_else(usual) {
        Some(base) => base,
        None => {
            let base = PathBuf::from(format!("/tmp/ringfence-{own}"));
            private(&base)?;
            base
        }
    };
    let folder = base.join("ringfence");
    private(&folder)?;
    Ok(folder)
}

/// The user that this process belongs to.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_own_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|about| about.is_dir() && about.uid() == own_uid())
}

/// Makes the folder with mode 0700, or checks that the one there is as private as that.
fn private(path: &Path) -> Result<(), FolderError> {
    let unusable = |cause| FolderError::Unusable { path: path.to_owned(), cause };
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(unusable(error)),
        _ => {}
    }
    let about = std::fs::symlink_metadata(path).map_err(unusable)?;
    match exposed(&about) {
        Some(why) => Err(FolderError::Exposed { path: path.to_owned(), why }),
        None => Ok(()),
    }
}

fn exposed(about: &Metadata) -> Option<&'static str> {
    if !about.is_dir() {
        Some("it is a link or no folder")
    } else if about.uid() != own_uid() {
        Some("it belongs to another user")
    } else if about.mode() & 0o077 != 0 {
        Some("other users may enter it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_or_not_used() {
        let base = tempfile::tempdir().expect("a folder");
        let check = |name: &str, want: Option<&str>| {
            let path = base.path().join(name);
            let found = private(&path).err().map(|error| error.to_string());
            let want = want.map(|why| {
                let path = path.display();
                format!("the folder `{path}` is not private: {why}; remove it, or run `chmod 700` on it")
            });
            assert_eq!(found, want, "{name}");
        };
        check("new", None);
        check("new", None);
        std::fs::set_permissions(base.path().join("new"), PermissionsExt::from_mode(0o755)).expect("own");
        check("new", Some("other users may enter it"));
        std::fs::write(base.path().join("file"), "").expect("own");
        check("file", Some("it is a link or no folder"));
        std::fs::create_dir(base.path().join("real")).expect("own");
        std::os::unix::fs::symlink(base.path().join("real"), base.path().join("link")).expect("own");
        check("link", Some("it is a link or no folder"));
    }
}
