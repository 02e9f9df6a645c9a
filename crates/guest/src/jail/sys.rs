//! The init's unsafe code: namespaces, mounts, users. Each function does one thing to this process.
//!
//! Answers to: the other files of `jail`. Must not: decide anything.
#![expect(unsafe_code, reason = "namespaces and mounts have no safe wrappers here; each block is argued")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path for the kernel. One with a NUL in it is no path.
pub fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Leaves the namespaces of these kinds for new ones.
pub fn unshare(kinds: libc::c_int) -> io::Result<()> {
    // WHY UNSAFE: `unshare` is a raw libc call.
    // SAFETY: a plain number; the process has one thread.
    check(unsafe { libc::unshare(kinds) }.into()).map(drop)
}

/// Enters a namespace, or those of a process.
pub fn enter(of: BorrowedFd<'_>, kinds: libc::c_int) -> io::Result<()> {
    // WHY UNSAFE: `setns` is a raw libc call.
    // SAFETY: an open descriptor and a plain number.
    check(unsafe { libc::setns(of.as_raw_fd(), kinds) }.into()).map(drop)
}

/// Mounts a file system of a kind.
pub fn mount(kind: &CStr, at: &Path, flags: libc::c_ulong, options: &str) -> io::Result<()> {
    let (at, options) = (c_path(at)?, CString::new(options)?);
    // WHY UNSAFE: `mount` is a raw libc call.
    // SAFETY: all texts end in NUL and live through the call.
    let result = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
    check(result.into()).map(drop)
}

/// No mount made here is seen elsewhere, and none made elsewhere is seen here.
pub fn keep_mounts_private() -> io::Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // WHY UNSAFE: `mount` is a raw libc call.
    // SAFETY: the path is a constant; the other texts may be null for a change of propagation.
    let result = unsafe { libc::mount(std::ptr::null(), c"/".as_ptr(), std::ptr::null(), flags, std::ptr::null()) };
    check(result.into()).map(drop)
}

/// A copy of what is mounted at `path`, and below it, that is mounted nowhere yet.
pub fn copy_of_tree(path: &Path) -> io::Result<OwnedFd> {
    open_tree(path, libc::AT_RECURSIVE.cast_unsigned())
}

fn open_tree(path: &Path, more: libc::c_uint) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | more;
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: `path` ends in NUL and lives through the call.
    let tree = check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(tree).unwrap_or(-1)) })
}

/// A copy of what is mounted at `path` alone, that is mounted nowhere yet.
pub fn copy_of_folder(path: &Path) -> io::Result<OwnedFd> {
    open_tree(path, 0)
}

/// Has the files of a copy belong to whom `users`, a user namespace, says.
pub fn show_as(tree: BorrowedFd<'_>, users: BorrowedFd<'_>) -> io::Result<()> {
    let userns_fd = u64::try_from(users.as_raw_fd()).unwrap_or_default();
    let change = libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd };
    let (tree, size) = (tree.as_raw_fd(), size_of::<libc::mount_attr>());
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: `change` is on this stack and of the size said; the text is a constant.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, tree, c"".as_ptr(), libc::AT_EMPTY_PATH, &raw const change, size)
    };
    check(result).map(drop)
}

/// Takes what is mounted at `path` out of sight; what is in use of it stays.
pub fn unmount(path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // WHY UNSAFE: raw call.
    // SAFETY: `path` ends in NUL and lives through the call.
    check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) }.into()).map(drop)
}

/// Mounts a copy from [`copy_of_tree`].
pub fn attach(tree: BorrowedFd<'_>, at: &Path) -> io::Result<()> {
    let at = c_path(at)?;
    let (from, flags) = (tree.as_raw_fd(), libc::MOVE_MOUNT_F_EMPTY_PATH);
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: both texts end in NUL and live through the call.
    let result = unsafe { libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), libc::AT_FDCWD, at.as_ptr(), flags) };
    check(result).map(drop)
}

/// Sets attributes (`MOUNT_ATTR_…`) of the mount at `at`, and of all below it where `all`.
pub fn set_attributes(at: &Path, attributes: u64, all: bool) -> io::Result<()> {
    let at = c_path(at)?;
    let change = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if all { libc::AT_RECURSIVE } else { 0 };
    let size = size_of::<libc::mount_attr>();
    // WHY UNSAFE: the call has no libc wrapper.
    // SAFETY: `change` is on this stack and of the size said; `at` ends in NUL.
    let result =
        unsafe { libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, at.as_ptr(), flags, &raw const change, size) };
    check(result).map(drop)
}

/// Makes `root` the root of this mount namespace, and lets go of the old one.
pub fn pivot(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)?;
    // WHY UNSAFE: raw calls.
    // SAFETY: constant texts.
    unsafe {
        check(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()))?;
        check(libc::umount2(c".".as_ptr(), libc::MNT_DETACH).into())?;
    }
    std::env::set_current_dir("/")
}

/// User and group 0 of this user namespace, and of no other group.
pub fn become_its_root() -> io::Result<()> {
    // WHY UNSAFE: credentials have no safe wrapper in std.
    // SAFETY: plain numbers; the process has one thread.
    unsafe {
        check(libc::setgroups(0, std::ptr::null()).into())?;
        check(libc::setresgid(0, 0, 0).into())?;
        check(libc::setresuid(0, 0, 0).into()).map(drop)
    }
}

/// Keeps the rights in this user namespace over an exec, as a user other than 0.
pub fn keep_rights() -> io::Result<()> {
    const FORM: u32 = 0x2008_0522;
    let header = [FORM, 0];
    let mut sets = [[0_u32; 3]; 2];
    // WHY UNSAFE: capabilities have no safe wrapper in std.
    // SAFETY: plain numbers, and arrays on this stack of the size that this form has: for each half of the numbers what
    // is effective, permitted and inheritable.
    unsafe {
        check(libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()))?;
        for [_, permitted, inheritable] in &mut sets {
            *inheritable = *permitted;
        }
        check(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()))?;
        for capability in 0..64 {
            if libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0) < 0 {
                break;
            }
        }
    }
    Ok(())
}

/// The name of the machine, as seen inside.
pub fn set_host_name(name: &str) -> io::Result<()> {
    // WHY UNSAFE: raw call.
    // SAFETY: the text is valid for its length.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into()).map(drop)
}

/// Puts `from` at the number `to`, where it stays over an exec.
pub fn place(from: BorrowedFd<'_>, to: i32) -> io::Result<()> {
    if from.as_raw_fd() == to {
        // WHY UNSAFE: raw call.
        // SAFETY: plain numbers.
        return check(unsafe { libc::fcntl(to, libc::F_SETFD, 0) }.into()).map(drop);
    }
    // WHY UNSAFE: raw call.
    // SAFETY: `to` is a number that nothing in this process owns: the caller execs or ends next.
    check(unsafe { libc::dup2(from.as_raw_fd(), to) }.into()).map(drop)
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: u32) -> io::Result<()> {
    // WHY UNSAFE: closes descriptors that Rust objects may still believe they own.
    // SAFETY: the caller execs, or waits for signals for the rest of its life, and touches no descriptor again.
    check(unsafe { libc::close_range(first, libc::c_uint::MAX, 0) }.into()).map(drop)
}

/// Keeps two descriptors, under the numbers 0 and 1, and closes every other.
pub fn keep_two(first: OwnedFd, second: OwnedFd) -> io::Result<[OwnedFd; 2]> {
    // WHY UNSAFE: closes descriptors that Rust objects may still believe they own, and takes two over by number.
    // SAFETY: the caller never returns, so whatever else owns a descriptor is not dropped; both are open and neither is
    // 0 or 1, which every process here has from its start. They are forgotten, so that nobody closes them twice.
    unsafe {
        check(libc::dup2(first.as_raw_fd(), 0).into())?;
        check(libc::dup2(second.as_raw_fd(), 1).into())?;
        std::mem::forget((first, second));
        check(libc::close_range(2, libc::c_uint::MAX, 0).into())?;
        Ok([OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)])
    }
}

/// Puts the loopback of this network namespace up; `socket` is any of the internet's kinds.
pub fn put_loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    name.iter_mut().zip(b"lo").for_each(|(to, from)| *to = from.cast_signed());
    let flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    let request = libc::ifreq { ifr_name: name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags } };
    // WHY UNSAFE: the call has no safe wrapper.
    // SAFETY: `request` is on this stack and is what the call reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into()).map(drop)
}

/// Lets whoever has this process's user and all of its rights join its namespaces: a change of user forbids that.
pub fn let_be_joined() -> io::Result<()> {
    // WHY UNSAFE: raw call.
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }.into()).map(drop)
}

/// Waits for ever. Children that end are reaped by the kernel.
pub fn rest_for_ever() -> ! {
    // WHY UNSAFE: raw calls.
    // SAFETY: a constant disposition, and waiting.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        loop {
            libc::pause();
        }
    }
}

/// Waits for the child `pid` to end; its exit code, or 128 and its signal.
pub fn wait_for(pid: i32) -> i32 {
    let mut status = 0;
    // WHY UNSAFE: raw call.
    // SAFETY: `status` is on this stack.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return 0;
        }
    }
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

/// Which of the descriptors has something for us: data, an end, or a process that is over. Waits for it.
pub fn wait_for_any(descriptors: &[(BorrowedFd<'_>, libc::c_short)]) -> io::Result<Vec<bool>> {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|(fd, events)| libc::pollfd { fd: fd.as_raw_fd(), events: *events, revents: 0 })
        .collect();
    let count = libc::nfds_t::try_from(polls.len()).unwrap_or_default();
    // WHY UNSAFE: raw call.
    // SAFETY: `polls` has `count` entries.
    check(unsafe { libc::poll(polls.as_mut_ptr(), count, -1) }.into())?;
    Ok(polls.iter().map(|poll| poll.revents != 0).collect())
}

/// Runs another program in this process. Gives back only why it could not.
pub fn exec(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // WHY UNSAFE: raw call.
    // SAFETY: both lists end in null and their texts live through the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}
