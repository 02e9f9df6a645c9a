//! The jail's root: a small file system of its own, with what the plan names bound into it.
//!
//! Answers to: `init`. Must not: leave anything of the host's in sight that the plan does not name.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_wire::jail::{EGRESS, Node};

use super::{Failed, Step, cow, sys};

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NO_SET_UID: u64 = libc::MOUNT_ATTR_NOSUID;
const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// Folders that a small file system may be mounted on while the root is built. What is below them is copied before.
const PLACES: &[&str] = &["/tmp", "/var/tmp", "/mnt", "/run"];

/// The root while it is built.
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// Builds what the plan names. The mount namespace must be this process's own. `first`: which user of the host will
    /// be user 0 of the jail's, where there is a range of them.
    pub fn build(nodes: &[Node], first: Option<u32>) -> Result<Self, Failed> {
        // Before anything is mounted: the root's own place may hide some of it.
        let mut copies = Vec::new();
        for node in nodes {
            copies.push(match node {
                Node::Bind { host, .. } => {
                    Some(sys::copy_of_tree(Path::new(host)).step(|| format!("`{host}` can't be bound"))?)
                }
                Node::Cow { host, .. } => Some(cow::lower(host, first)?),
                Node::Link { .. } | Node::File { .. } | Node::Folder { .. } => None,
            });
        }
        let place = PLACES.iter().map(Path::new).find(|place| place.is_dir());
        let place =
            place.ok_or(io::ErrorKind::NotFound).map_err(io::Error::from).step(|| "no folder to build in".into())?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        sys::mount(c"tmpfs", place, flags, "size=8m,mode=755")
            .step(|| "no file system in memory".into())
            .map_err(Failed::no_walls)?;
        let path = place.join("root");
        std::fs::create_dir(&path).step(|| "the root can't be made".into())?;
        let root = Self { path };
        for (node, copy) in nodes.iter().zip(copies) {
            root.add(node, copy)?;
        }
        Ok(root)
    }

    fn add(&self, node: &Node, copy: Option<OwnedFd>) -> Result<(), Failed> {
        match node {
            Node::Folder { at } => self.folder(at).map(drop),
            Node::File { at, content } => {
                let file = self.parent(at)?;
                std::fs::write(&file, content).step(|| format!("`{at}` can't be written"))
            }
            Node::Link { at, to } => {
                let link = self.parent(at)?;
                std::os::unix::fs::symlink(to, link).step(|| format!("`{at}` can't be linked"))
            }
            Node::Bind { at, writable, device, exec, .. } => {
                let attributes = if *writable { NO_SET_UID } else { NO_SET_UID | READ_ONLY };
                let devices = if *device { 0 } else { NO_DEVICES };
                let programs = if *exec { 0 } else { NO_EXEC };
                self.mount(at, copy, attributes | devices | programs)
            }
            Node::Cow { at, .. } => self.mount(at, copy, NO_SET_UID | NO_DEVICES | READ_ONLY),
        }
    }

    fn mount(&self, at: &str, copy: Option<OwnedFd>, attributes: u64) -> Result<(), Failed> {
        let Some(copy) = copy else { return Ok(()) };
        let target = self.target(&copy, at)?;
        sys::attach(copy.as_fd(), &target).step(|| format!("`{at}` can't be mounted"))?;
        sys::set_attributes(&target, attributes, true).step(|| format!("`{at}` can't be made read-only"))
    }

    /// Where a path of the plan lies now. Plans are the host's own; a path with `..` in it is none.
    fn inside(&self, at: &str) -> Result<PathBuf, Failed> {
        let relative = Path::new(at.trim_start_matches('/'));
        let plain = relative.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if plain { Ok(self.path.join(relative)) } else { Err(Failed::new(format!("`{at}` is no path of a jail"))) }
    }

    fn folder(&self, at: &str) -> Result<PathBuf, Failed> {
        let path = self.inside(at)?;
        std::fs::create_dir_all(&path).step(|| format!("`{at}` can't be made"))?;
        Ok(path)
    }

    fn parent(&self, at: &str) -> Result<PathBuf, Failed> {
        let path = self.inside(at)?;
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).step(|| format!("the folder of `{at}` can't be made"))?;
        }
        Ok(path)
    }

    /// A folder or an empty file to mount on, as the copy is. The host's path may be hidden by now.
    fn target(&self, copy: &OwnedFd, at: &str) -> Result<PathBuf, Failed> {
        let stat = rustix::fs::fstat(copy).map_err(io::Error::from).step(|| format!("`{at}` can't be looked at"))?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
            return self.folder(at);
        }
        let path = self.parent(at)?;
        std::fs::write(&path, "").step(|| format!("`{at}` can't be made"))?;
        Ok(path)
    }

    /// Goes into the root for good. `/proc` of the own process namespace is mounted on the way, while the host's is
    /// still in sight: the kernel asks for that.
    pub fn enter(&self) -> Result<(), Failed> {
        self.enter_it().map_err(Failed::no_walls)
    }

    fn enter_it(&self) -> Result<(), Failed> {
        // Mounts that came from the host's namespace are locked to each other; a copy's top is not.
        let copy = sys::copy_of_tree(&self.path).step(|| "the root can't be copied".into())?;
        sys::attach(copy.as_fd(), &self.path).step(|| "the root can't be mounted".into())?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        sys::mount(c"proc", &self.path.join("proc"), flags, "").step(|| "`/proc` can't be mounted".into())?;
        let attributes = READ_ONLY | NO_SET_UID | NO_DEVICES;
        sys::set_attributes(&self.path, attributes, false).step(|| "the root can't be made read-only".into())?;
        sys::pivot(&self.path).step(|| "the root can't be entered".into())
    }
}

/// What a session has of its own: `/tmp`, `/dev/shm`, `/workspace` and a `/proc` that shows its own processes only.
pub fn mount_session(plan: &ringfence_wire::jail::SessionPlan) -> Result<(), Failed> {
    let mut flags = libc::MS_NOSUID | libc::MS_NODEV;
    if !plan.exec {
        flags |= libc::MS_NOEXEC;
    }
    let memory = |at: &str, bytes: u64, mode: &str| {
        let options = format!("size={bytes},nr_inodes={},mode={mode}", plan.inodes);
        sys::mount(c"tmpfs", Path::new(at), flags, &options).step(|| format!("`{at}` can't be mounted"))
    };
    memory("/tmp", plan.tmp, "1777")?;
    memory("/dev/shm", plan.tmp, "1777")?;
    if let Some(bytes) = plan.workspace {
        memory("/workspace", bytes, "0755")?;
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    if plan.network.is_some() {
        sys::mount(c"tmpfs", Path::new(EGRESS), flags, "size=8m,nr_inodes=4,mode=0755")
            .step(|| format!("`{EGRESS}` can't be mounted"))?;
    }
    sys::mount(c"proc", Path::new("/proc"), flags, "subset=pid,hidepid=invisible")
        .step(|| "`/proc` can't be mounted".into())
}
