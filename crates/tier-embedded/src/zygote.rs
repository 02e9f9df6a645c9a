//! The zygote seen from the host: started from a sealed copy of the executable, asked for one worker at a time.
//!
//! Answers to: `pool`. Must not: leave a process behind; dropping it ends the zygote, and with it every worker.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

use ringfence_tier::TierFault;
use ringfence_types::{Engine, TierName};
use ringfence_wire::launch::{GREETING, HIDDEN_ARGUMENT, LEAN};
use rustix::io::ioctl_fionread;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::cannot_open;
use crate::probe::{self, Footprint};

/// The executable that workers are made of: copied once into sealed memory, so that nothing can change it.
#[derive(Debug, Clone)]
pub struct Executable {
    path: Option<PathBuf>,
    lean: bool,
    sealed: Arc<OnceLock<OwnedFd>>,
}

impl Executable {
    pub fn new(path: Option<PathBuf>, lean: bool) -> Self {
        Self { path, lean, sealed: Arc::default() }
    }

    fn sealed(&self) -> Result<&OwnedFd, TierFault> {
        if self.sealed.get().is_none() {
            let path = self.path.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
            let copy = seal(&path).map_err(|error| TierFault::Unusable {
                tier: TierName::Embedded,
                why: format!("the worker executable `{}` can't be copied: {error}", path.display()),
                remedy: "check that the file is there and that /proc is mounted".to_owned(),
            })?;
            // Another thread may have been first; either copy is the same.
            let _ = self.sealed.set(copy);
        }
        self.sealed.get().ok_or_else(|| cannot_open("the worker executable is gone"))
    }
}

fn seal(path: &std::path::Path) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let memory = memfd_create("ringfence-worker", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut copy = File::from(memory);
    io::copy(&mut File::open(path)?, &mut copy)?;
    fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(copy.into())
}

/// One worker, fresh from the zygote and locked.
#[derive(Debug)]
pub struct Worker {
    /// The session's socket.
    pub socket: UnixStream,
    /// A handle that can't come to mean another process.
    pub handle: OwnedFd,
    /// The process number, for readings only.
    pub pid: i32,
    usual: Arc<OnceLock<Footprint>>,
}

impl Worker {
    /// Its memory before the session. Workers of one zygote are alike, so the first that is ready is read for all.
    pub fn footprint(&self) -> Footprint {
        if let Some(usual) = self.usual.get() {
            return *usual;
        }
        let ready = ioctl_fionread(&self.socket).is_ok_and(|bytes| bytes > 0);
        let footprint = probe::footprint(self.pid);
        if ready { *self.usual.get_or_init(|| footprint) } else { footprint }
    }
}

/// A running zygote.
#[derive(Debug)]
pub struct Zygote {
    control: Option<OwnedFd>,
    child: Child,
    usual: Arc<OnceLock<Footprint>>,
}

impl Zygote {
    /// Starts a zygote and waits until it is warm. Blocks.
    pub fn start(executable: &Executable, engine: Engine) -> Result<Self, TierFault> {
        let sealed = executable.sealed()?;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(cannot_open)?;
        let child = Command::new(format!("/proc/self/fd/{}", sealed.as_raw_fd()))
            .arg0("ringfence-worker")
            .args([HIDDEN_ARGUMENT, engine.as_str()])
            .args(executable.lean.then_some(LEAN))
            .env_clear()
            .env("TZ", "UTC")
            .current_dir("/")
            // Ctrl-C at a terminal goes to the host alone, which gives the run up in order.
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| cannot_open(format!("the worker executable does not start: {error}")))?;
        let zygote = Self { control: Some(ours), child, usual: Arc::default() };
        zygote.greet()?;
        Ok(zygote)
    }

    fn greet(&self) -> Result<(), TierFault> {
        let (said, _) = self.receive()?;
        if said == GREETING {
            return Ok(());
        }
        let why = if said.is_empty() {
            "the executable is no Ringfence worker, or died at its start".to_owned()
        } else {
            String::from_utf8_lossy(&said).chars().filter(|c| !c.is_control()).collect()
        };
        let remedy =
            "call `ringfence::become_worker_if_asked()` first in `main`, or name the `ringfence` program as the worker";
        Err(TierFault::Unusable { tier: TierName::Embedded, why, remedy: remedy.to_owned() })
    }

    /// A new worker. Blocks for about the time of a fork.
    pub fn fork(&self) -> Result<Worker, TierFault> {
        let (ours, theirs) = UnixStream::pair().map_err(cannot_open)?;
        for end in [&ours, &theirs] {
            end.set_nonblocking(true).map_err(cannot_open)?;
        }
        self.send(&theirs).map_err(|error| cannot_open(format!("the zygote is gone: {error}")))?;
        drop(theirs);
        let (said, handle) = self.receive()?;
        match (<[u8; 4]>::try_from(said.as_slice()), handle) {
            (Ok(pid), Some(handle)) => {
                Ok(Worker { socket: ours, handle, pid: i32::from_le_bytes(pid), usual: Arc::clone(&self.usual) })
            }
            _ if said.is_empty() => Err(cannot_open("the zygote is gone")),
            _ => Err(cannot_open(String::from_utf8_lossy(&said))),
        }
    }

    fn control(&self) -> io::Result<&OwnedFd> {
        self.control.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn send(&self, socket: &UnixStream) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let sockets = [socket.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
        sendmsg(self.control()?, &[IoSlice::new(b"f")], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// One message and the handle that came with it; empty where the zygote is gone.
    fn receive(&self) -> Result<(Vec<u8>, Option<OwnedFd>), TierFault> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 512];
        let control = self.control().map_err(cannot_open)?;
        let message = recvmsg(control, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| cannot_open(format!("the zygote is gone: {error}")))?;
        let handle = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
            _ => None,
        });
        Ok((bytes.get(..message.bytes).unwrap_or_default().to_vec(), handle))
    }
}

impl Drop for Zygote {
    /// Closing the control socket ends the zygote; the kernel then ends its workers.
    fn drop(&mut self) {
        self.control = None;
        // It ends by itself within moments; the kill is for one that hangs while it warms up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
