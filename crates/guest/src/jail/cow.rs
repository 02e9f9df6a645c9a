//! Folders of the host's that a session writes to without changing them: what it writes goes to a small file system of
//! its place, which nobody in there sees.
//!
//! Answers to: `root`, before the jail's users are others than the host's, and `init`, in a place. Must not: let a
//! process of the session reach what was written but by the mount itself, or anybody write to the host's folder.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ringfence_wire::jail::{CHANGES, FIRST_USER, SessionPlan};
use rustix::fs::{FileType, Stat, fstat};

use super::{Failed, Step, sys};
use crate::sys::{Forked, end, fork};

/// The host's folder, mounted nowhere yet; where the jail has a range of users that begins at `first`, it belongs to the
/// session's user there.
pub fn lower(host: &str, first: Option<u32>) -> Result<OwnedFd, Failed> {
    let tree = sys::copy_of_folder(Path::new(host)).step(|| format!("`{host}` can't be bound"))?;
    let about = fstat(&tree).map_err(std::io::Error::from).step(|| format!("`{host}` can't be looked at"))?;
    if !FileType::from_raw_mode(about.st_mode).is_dir() {
        return Err(Failed::new(format!("`{host}` is no folder; a mount with the mode `cow` is one")));
    }
    if let Some(first) = first {
        let users = users(&about, first.saturating_add(FIRST_USER))?;
        sys::show_as(tree.as_fd(), users.as_fd()).step(|| {
            format!(
                "the file system of `{host}` can't lend its files to a session, as ext4, xfs, btrfs and tmpfs can; \
                 keep the folder on one of these, or run as the user who owns it"
            )
        })?;
    }
    Ok(tree)
}

/// A user namespace in which the folder's owner is `user` of the host: a process that stays in it until it is held.
fn users(owner: &Stat, user: u32) -> Result<OwnedFd, Failed> {
    let (mut ours, mut theirs) = UnixStream::pair().step(|| "no socket".into())?;
    match fork().step(|| "a helper can't be forked".into())? {
        Forked::Child => {
            drop(ours);
            let made = sys::unshare(libc::CLONE_NEWUSER);
            let _ = theirs.write_all(&[u8::from(made.is_ok())]);
            let _ = theirs.read(&mut [0]);
            end(0)
        }
        Forked::Parent(helper, _) => {
            drop(theirs);
            let mut made = [0];
            let held = ours.read_exact(&mut made).and_then(|()| {
                if made != [1] {
                    return Err(std::io::ErrorKind::PermissionDenied.into());
                }
                std::fs::write(format!("/proc/{helper}/uid_map"), format!("{} {user} 1", owner.st_uid))?;
                std::fs::write(format!("/proc/{helper}/gid_map"), format!("{} {user} 1", owner.st_gid))?;
                std::fs::File::open(format!("/proc/{helper}/ns/user"))
            });
            drop(ours);
            sys::wait_for(helper);
            held.map(OwnedFd::from).step(|| "a folder's owner can't be mapped".into())
        }
    }
}

/// Mounts what the session sees over the host's folders, and gives what holds its changes: for the host alone.
pub fn mount(plan: &SessionPlan) -> Result<Option<OwnedFd>, Failed> {
    if plan.cow.is_empty() {
        return Ok(None);
    }
    let place = Path::new(CHANGES);
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let options = format!("size={},nr_inodes={},mode=0700", plan.changes, plan.inodes);
    sys::mount(c"tmpfs", place, flags, &options).step(|| format!("`{CHANGES}` can't be mounted"))?;
    for (number, at) in plan.cow.iter().enumerate() {
        over(&place.join(number.to_string()), at, flags | if plan.exec { 0 } else { libc::MS_NOEXEC })?;
    }
    let held = std::fs::File::open(place).step(|| format!("`{CHANGES}` can't be opened"))?;
    // The mounts above it keep it; by a path nobody reaches it any more.
    sys::unmount(place).step(|| format!("`{CHANGES}` can't be hidden"))?;
    Ok(Some(held.into()))
}

fn over(own: &Path, at: &str, flags: libc::c_ulong) -> Result<(), Failed> {
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| own.join(name));
    for folder in [&lower, &upper, &work] {
        std::fs::create_dir_all(folder).step(|| "a folder for changes can't be made".into())?;
    }
    as_the_folder_is(Path::new(at), &upper)?;
    // By names that need no escapes in the mount's options.
    let tree = sys::copy_of_folder(Path::new(at)).step(|| format!("`{at}` can't be copied"))?;
    sys::attach(tree.as_fd(), &lower).step(|| format!("`{at}` can't be bound"))?;
    let named = |path: PathBuf| path.display().to_string();
    let (lower, upper, work) = (named(lower), named(upper), named(work));
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work},userxattr");
    sys::mount(c"overlay", Path::new(at), flags, &options)
        .step(|| format!("`{at}` can't be mounted copy-on-write: the kernel's overlay file system refused"))
}

/// The mount's own rights are those of the folder that takes the changes.
fn as_the_folder_is(at: &Path, upper: &Path) -> Result<(), Failed> {
    let about = rustix::fs::stat(at).map_err(std::io::Error::from).step(|| "a folder can't be looked at".into())?;
    let mode = std::fs::Permissions::from_mode(about.st_mode & 0o777);
    // One that belongs to nobody in here stays the session's.
    if about.st_uid == FIRST_USER {
        chown(upper, Some(about.st_uid), Some(about.st_gid)).step(|| "a folder can't be given away".into())?;
    }
    std::fs::set_permissions(upper, mode).step(|| "a folder's rights can't be set".into())
}
