//! A jail seen from the host: asked for one session at a time.
//!
//! Answers to: `pool`. Must not: leave a process behind; dropping it ends the init, and with it everything inside.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_wire::jail::{GREETING, HIDDEN_ARGUMENT, NO_WALLS, Plan};
use ringfence_worker::{Control, Executable, Message, Process, Want};

use crate::errand::Door;
use crate::group::{Group, Groups};
use crate::hold::{Hold, Leash};

/// How long an interpreter may take to import what was asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a jail may take to end, and how often it is looked at meanwhile.
const ENDING: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_micros(500);

/// Address space beyond the memory limit, where there is no control group: stacks, and what allocators keep.
pub const SLACK: u64 = 128 << 20;

/// A session that waits for its first turn, locked.
#[derive(Debug)]
pub struct Ready {
    /// Its frames.
    pub socket: UnixStream,
    /// What its processes write without frames: standard output and standard error.
    pub outputs: [OwnedFd; 2],
    /// Ends all of it.
    pub hold: Hold,
    /// The interpreter.
    pub interpreter: Process,
    /// Its control group, where there are any.
    pub group: Option<Group>,
    /// Where its place waits to be asked for the way out; `None` where there is no network.
    pub line: Option<OwnedFd>,
    /// What holds what it changes in copy-on-write mounts, where it has any.
    pub changes: Option<OwnedFd>,
    /// Where commands for it are asked for.
    pub door: Arc<Door>,
}

/// Why a jail or a session in it could not be made: one line, from the init or the kernel.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct NoJail(pub String);

impl NoJail {
    /// What this machine does not let be built, where it is that.
    pub fn walls(&self) -> Option<&str> {
        self.0.strip_prefix(NO_WALLS)
    }
}

impl From<io::Error> for NoJail {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// A running jail.
#[derive(Debug)]
pub struct Jail {
    control: Option<Control>,
    door: Arc<Door>,
    child: Child,
    /// The sessions' folders, where there are no namespaces.
    folder: Option<String>,
    /// Whether its sessions have a network.
    network: bool,
    /// For the next session.
    next_group: Option<Group>,
}

impl Jail {
    /// Builds the jail and waits until its interpreter is warm. Blocks.
    pub fn start(executable: &Executable, plan: &Plan) -> Result<Self, NoJail> {
        let (ours, theirs) = Control::pair()?;
        ours.be_patient_for(PATIENCE)?;
        let (door, door_end) = Control::pair()?;
        let door = Arc::new(Door::new(door, plan)?);
        let no_copy = |error| {
            let path = executable.path().display();
            NoJail(format!("the worker executable `{path}` can't be copied: {error}; check that the file is there"))
        };
        let mut command = executable.command().map_err(no_copy)?;
        let child = command.arg(HIDDEN_ARGUMENT).stdin(Stdio::from(theirs)).stdout(Stdio::from(door_end)).spawn()?;
        let folder = plan.lock_only.as_ref().map(|lock| lock.folder.clone());
        let network = plan.session.network.is_some();
        let jail = Self { control: Some(ours), door, child, folder, network, next_group: None };
        let plan = serde_json::to_vec(plan).map_err(io::Error::from)?;
        jail.control()?.send(&plan, &[])?;
        let said = jail.control()?.receive()?.bytes;
        if said == GREETING { Ok(jail) } else { Err(told(&said)) }
    }

    fn control(&self) -> io::Result<&Control> {
        self.control.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// A new session, in a control group of its own where there are any. Blocks for about the time of a fork. One that
    /// nobody waits for rehearses what a first snippet takes.
    pub fn fork(&mut self, groups: &Groups, want: Want) -> Result<Ready, NoJail> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (out, out_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let (err, err_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        for end in [&out, &err] {
            rustix::io::ioctl_fionbio(end, true).map_err(io::Error::from)?;
        }
        let (leash, keeper) = if self.folder.is_some() { Some(Leash::new()?) } else { None }.unzip();
        let given = [theirs.as_fd(), out_end.as_fd(), err_end.as_fd()].into_iter();
        let mut group = self.next_group.take().map_or_else(|| groups.make(), |group| Ok(Some(group)))?;
        let doors = group.iter().flat_map(Group::doors);
        let given: Vec<_> = given.chain(keeper.as_ref().map(AsFd::as_fd)).chain(doors).collect();
        let asked: &[u8] = match want {
            Want::Now => b"f",
            Want::AtLeisure => b"a",
        };
        self.control()?.send(asked, &given)?;
        // While the jail forks.
        self.next_group = groups.make().ok().flatten();
        let Message { bytes, descriptors } = self.control()?.receive()?;
        let mut handles = descriptors.into_iter();
        let mut handle = || handles.next().ok_or_else(|| told(&bytes));
        let hold = match leash {
            Some(leash) => Hold::Leash(leash),
            None => Hold::in_place(process(handle()?)?),
        };
        let interpreter = process(handle()?)?;
        let line = if self.network { handles.next() } else { None };
        let changes = handles.next();
        match &mut group {
            Some(group) => group.begin(interpreter.pid())?,
            // For each process alone: better than nothing, and told.
            None => {
                let usual = interpreter.footprint().size;
                interpreter.limit_address_space(usual.saturating_add(groups.bounds().memory).saturating_add(SLACK));
            }
        }
        let door = Arc::clone(&self.door);
        Ok(Ready { socket: ours, outputs: [out, err], hold, interpreter, group, line, changes, door })
    }
}

/// A process of the jail by its handle: its number, as the host sees it, is in the handle's own description.
pub fn process(handle: OwnedFd) -> Result<Process, NoJail> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|pid| pid.trim().parse().ok());
    let pid: i32 = pid.filter(|pid| *pid > 0).ok_or_else(|| NoJail("a session ended at its start".to_owned()))?;
    Ok(Process::new(handle, pid))
}

fn told(said: &[u8]) -> NoJail {
    let text: String = String::from_utf8_lossy(said).chars().filter(|c| !c.is_control()).take(400).collect();
    NoJail(if text.is_empty() { "the jail is gone".to_owned() } else { text })
}

impl Jail {
    /// Where the sessions' user may not. One that is still in use is removed with the last of them, if he may.
    fn remove_folder(&self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl Drop for Jail {
    /// Closing the control socket ends the init. The kernel then ends everything in its process namespace, and the
    /// outermost process after that: when it is gone, so is all.
    fn drop(&mut self) {
        self.control = None;
        let start = Instant::now();
        while start.elapsed() < ENDING {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return self.remove_folder();
            }
            std::thread::sleep(PAUSE);
        }
        // For one that hangs while it is built: its end is the init's.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
