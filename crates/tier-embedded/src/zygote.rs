//! The zygote seen from the host: asked for one worker at a time.
//!
//! Answers to: `pool`. Must not: leave a process behind; dropping it ends the zygote, and with it every worker.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ringfence_tier::TierFault;
use ringfence_types::{Engine, TierName};
use ringfence_wire::launch::{GREETING, HIDDEN_ARGUMENT, LEAN};
use ringfence_worker::{Control, Executable, Footprint, Message, Process};
use rustix::io::ioctl_fionread;

use crate::cannot_open;

/// One worker, fresh from the zygote and locked.
#[derive(Debug)]
pub struct Worker {
    /// The session's socket.
    pub socket: UnixStream,
    /// The process.
    pub process: Process,
    usual: Arc<OnceLock<Footprint>>,
}

impl Worker {
    /// Whether it said that it is ready, which it does once it is locked.
    pub fn has_spoken(&self) -> bool {
        ioctl_fionread(&self.socket).is_ok_and(|bytes| bytes > 0)
    }

    /// Its memory before the session. Workers of one zygote are alike, so the first that is ready is read for all.
    pub fn footprint(&self) -> Footprint {
        if let Some(usual) = self.usual.get() {
            return *usual;
        }
        let ready = self.has_spoken();
        let footprint = self.process.footprint();
        if ready { *self.usual.get_or_init(|| footprint) } else { footprint }
    }
}

/// A running zygote.
#[derive(Debug)]
pub struct Zygote {
    control: Option<Control>,
    child: Child,
    usual: Arc<OnceLock<Footprint>>,
}

impl Zygote {
    /// Starts a zygote and waits until it is warm; `lean` where it will serve a single session. Blocks, for as long as
    /// `patience` at each step: one that hangs is ended.
    pub fn start(executable: &Executable, engine: Engine, lean: bool, patience: Duration) -> Result<Self, TierFault> {
        let (ours, theirs) = Control::pair().map_err(cannot_open)?;
        let child = executable
            .command()
            .map_err(|error| no_copy(executable, &error))?
            .args([HIDDEN_ARGUMENT, engine.as_str()])
            .args(lean.then_some(LEAN))
            .stdin(Stdio::from(theirs))
            .spawn()
            .map_err(|error| cannot_open(format!("the worker executable does not start: {error}")))?;
        Self::greeted(ours, child, patience)
    }

    /// A zygote that has said that it is warm.
    fn greeted(control: Control, child: Child, patience: Duration) -> Result<Self, TierFault> {
        let patient = control.be_patient_for(patience);
        let zygote = Self { control: Some(control), child, usual: Arc::default() };
        patient.map_err(cannot_open)?;
        zygote.greet()?;
        Ok(zygote)
    }

    fn greet(&self) -> Result<(), TierFault> {
        let said = self.receive()?.bytes;
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
        self.control()?.send(b"f", &[theirs.as_fd()]).map_err(gone)?;
        drop(theirs);
        let Message { bytes, descriptors } = self.receive()?;
        match (<[u8; 4]>::try_from(bytes.as_slice()), descriptors.into_iter().next()) {
            (Ok(pid), Some(handle)) => {
                let process = Process::new(handle, i32::from_le_bytes(pid));
                Ok(Worker { socket: ours, process, usual: Arc::clone(&self.usual) })
            }
            _ if bytes.is_empty() => Err(cannot_open("the zygote is gone")),
            _ => Err(cannot_open(String::from_utf8_lossy(&bytes))),
        }
    }

    fn control(&self) -> Result<&Control, TierFault> {
        self.control.as_ref().ok_or_else(|| cannot_open("the zygote is gone"))
    }

    fn receive(&self) -> Result<Message, TierFault> {
        self.control()?.receive().map_err(gone)
    }
}

fn gone(error: std::io::Error) -> TierFault {
    if error.kind() == std::io::ErrorKind::WouldBlock {
        return TierFault::Unusable {
            tier: TierName::Embedded,
            why: "the worker executable starts, but does not answer".to_owned(),
            remedy: "look for a machine that is out of memory or overloaded".to_owned(),
        };
    }
    cannot_open(format!("the zygote is gone: {error}"))
}

fn no_copy(executable: &Executable, error: &std::io::Error) -> TierFault {
    TierFault::Unusable {
        tier: TierName::Embedded,
        why: format!("the worker executable `{}` can't be copied: {error}", executable.path().display()),
        remedy: "check that the file is there and that /proc is mounted".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_executable_that_hangs_is_not_waited_for() {
        let (ours, _theirs) = Control::pair().expect("a socket");
        let hangs = std::process::Command::new("sleep").arg("600").spawn().expect("sleep is there");
        let greeted = Zygote::greeted(ours, hangs, Duration::from_millis(1)).map(drop);
        assert_eq!(
            greeted.map_err(|fault| fault.to_string()),
            Err("the embedded tier can't be used here: the worker executable starts, but does not answer".to_owned())
        );
    }
}
