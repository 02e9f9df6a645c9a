//! A command in a session, seen from the host: asked for at the jail's door, put into the session's control group
//! before it begins, its output read, its end told by the jail's own keeper.
//!
//! Answers to: `cell`. Must not: hand the host's own descriptors in, or believe the session of how a command ended.
//! INVARIANT: all state is here, so that a dropped wait loses nothing.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_tier::{Event, TierFault};
use ringfence_types::{Command, Stdin, Stream, TierName};
use ringfence_wire::jail::{ERRAND, Errand, Plan, Report, Users};
use ringfence_worker::{Control, Message, Process, readable, status_field};

use crate::cell::{Inside, Output};
use crate::jail::{NoJail, process};

/// How long an init may take to look at its door.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a pipe surely takes at once.
const PIPE: usize = 4 << 10;
/// What is still read of a command's output once it has ended: others of the session may write on without end.
const LAST: usize = 2 << 20;

/// Variables of the interpreter's that mean nothing to a command.
const INTERPRETERS_OWN: &[&str] = &[
    "PATH",
    "MPLBACKEND",
    "MPLCONFIGDIR",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
];

/// The init's door: where commands are asked for.
#[derive(Debug)]
pub struct Door {
    control: Control,
    /// Which user of the host is user 0 inside, where there is a range of them.
    first_user: Option<u32>,
    environment: Vec<(String, String)>,
    folder: &'static str,
}

impl Door {
    /// The door of the jail that is built by this plan.
    pub fn new(control: Control, plan: &Plan) -> io::Result<Self> {
        control.be_patient_for(PATIENCE)?;
        let first_user = match plan.users {
            Users::Range { first, .. } => Some(first),
            Users::Own => None,
        };
        let folder = if plan.session.workspace.is_some() { "/workspace" } else { "/tmp" };
        Ok(Self { control, first_user, environment: environment(plan), folder })
    }

    fn errand(&self, command: &Command, session: i32) -> Result<Errand, NoJail> {
        let mut environment = self.environment.clone();
        for (name, value) in command.environment() {
            environment.retain(|(known, _)| known != name);
            environment.push((name.clone(), value.clone()));
        }
        Ok(Errand {
            arguments: command.arguments().to_vec(),
            environment,
            folder: command.folder.as_ref().map_or_else(|| self.folder.to_owned(), ToString::to_string),
            user: self.first_user.map(|first| user_inside(session, first)).transpose()?,
        })
    }
}

/// The usual folders of tools, and before them those of an interpreter that lies elsewhere.
fn environment(plan: &Plan) -> Vec<(String, String)> {
    let bin = Path::new(&plan.program).parent().and_then(Path::to_str).unwrap_or_default();
    let path = match bin {
        "" | "/usr/bin" | "/bin" => "/usr/bin:/bin".to_owned(),
        bin => format!("{bin}:/usr/bin:/bin"),
    };
    let others = plan.environment.iter().filter(|(name, _)| !INTERPRETERS_OWN.contains(&name.as_str())).cloned();
    std::iter::once(("PATH".to_owned(), path)).chain(others).collect()
}

/// The user whose session it is, as the jail numbers it.
fn user_inside(session: i32, first: u32) -> Result<u32, NoJail> {
    let outside = status_field(session, "Uid:").and_then(|ids| ids.split_whitespace().next()?.parse::<u32>().ok());
    let inside = outside.and_then(|user| user.checked_sub(first));
    inside.filter(|user| *user > 0).ok_or_else(|| NoJail("the session has no user of its own".to_owned()))
}

/// A command under way.
#[derive(Debug)]
pub struct Underway {
    reports: Control,
    outputs: [Output; 2],
    /// It has ended with this code; so many bytes are still read.
    ended: Option<(i32, usize)>,
}

impl Underway {
    /// Asks for the command. It begins once its process was put where it belongs.
    pub fn begin(command: &Command, inside: &Inside) -> Result<Self, NoJail> {
        let errand = inside.door.errand(command, inside.interpreter.pid())?;
        let bytes = serde_json::to_vec(&errand).map_err(io::Error::from)?;
        if bytes.len() > ERRAND {
            return Err(NoJail("the arguments are longer than a jail takes".to_owned()));
        }
        let (reports, theirs) = Control::pair()?;
        let (out, out_end) = pipe()?;
        let (err, err_end) = pipe()?;
        for end in [&out, &err] {
            rustix::io::ioctl_fionbio(end, true).map_err(io::Error::from)?;
        }
        let input = input(&command.stdin)?;
        let stdin: BorrowedFd<'_> = match &command.stdin {
            Stdin::Pipe(pipe) => pipe.as_fd(),
            Stdin::Bytes(_) => input.as_fd(),
        };
        let place = inside.hold.place().ok_or_else(|| NoJail("commands need namespaces".to_owned()))?;
        inside.door.control.send(&bytes, &[place, theirs.as_fd(), stdin, out_end.as_fd(), err_end.as_fd()])?;
        let outputs = [Output::new(Stream::Stdout, out), Output::new(Stream::Stderr, err)];
        Ok(Self { reports, outputs, ended: None })
    }

    /// What came of it since; `None`: nothing yet.
    pub fn next(&mut self, inside: &Inside) -> Result<Option<Event>, TierFault> {
        loop {
            if let Some(print) = self.print() {
                return Ok(Some(print));
            }
            if let Some((code, _)) = self.ended {
                return Ok(Some(Event::Exited(code)));
            }
            let Message { bytes, descriptors } = match self.reports.receive_now() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(None),
                Err(error) => return Err(fault(error)),
            };
            match serde_json::from_slice(&bytes) {
                Ok(Report::Forked) => self.let_begin(descriptors, inside).map_err(fault)?,
                // Whoever ended the session may have ended it alone, in a place that others are in.
                Ok(Report::Exited(_)) if inside.hold.is_killed() => {
                    return Err(TierFault::Killed { tier: TierName::Process });
                }
                // What it wrote before its end is in the pipes by now.
                Ok(Report::Exited(code)) => self.ended = Some((code, LAST)),
                Ok(Report::NoCommand(why)) => return Ok(Some(Event::Unsupported(why, None))),
                Ok(Report::Failed(why)) => return Err(fault(why)),
                Err(_) if inside.hold.is_killed() => return Err(TierFault::Killed { tier: TierName::Process }),
                Err(_) => return Err(TierFault::Died { tier: TierName::Process }),
            }
        }
    }

    fn print(&mut self) -> Option<Event> {
        if self.ended.is_some_and(|(_, left)| left == 0) {
            return None;
        }
        let print = self.outputs.iter_mut().find_map(Output::take)?;
        if let (Some((_, left)), Event::Print(_, bytes)) = (&mut self.ended, &print) {
            *left = left.saturating_sub(bytes.len());
        }
        Some(print)
    }

    fn let_begin(&mut self, descriptors: Vec<OwnedFd>, inside: &Inside) -> Result<(), NoJail> {
        let handle = descriptors.into_iter().next().ok_or_else(|| NoJail("the command has no handle".to_owned()))?;
        let command = process(handle)?;
        inside.bound(&command)?;
        self.reports.send(b"go", &[])?;
        inside.meter(command);
        Ok(())
    }

    /// Waits until there is more of anything.
    pub async fn more(&self) {
        let [out, err] = &self.outputs;
        tokio::select! {
            biased;
            // Where it can't be waited for, the next look tells.
            _ = readable(self.reports.as_fd()) => {}
            () = out.ready() => {}
            () = err.ready() => {}
        }
    }

    /// The pipes that something which the command started may still hold.
    pub fn into_outputs(self) -> [Output; 2] {
        self.outputs
    }
}

fn fault(why: impl ToString) -> TierFault {
    TierFault::Open { tier: TierName::Process, why: why.to_string() }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)
}

/// A pipe with these bytes in it. What it does not take at once is written by a thread, which ends with its reader.
fn input(stdin: &Stdin) -> io::Result<OwnedFd> {
    let (reading, writing) = pipe()?;
    if let Stdin::Bytes(bytes) = stdin {
        let mut writing = File::from(writing);
        if bytes.len() <= PIPE {
            writing.write_all(bytes)?;
        } else {
            let bytes = Arc::<[u8]>::from(bytes.as_slice());
            let thread = std::thread::Builder::new().name("ringfence-input".to_owned());
            // A command that does not read all of it is no fault.
            thread.spawn(move || drop(writing.write_all(&bytes)))?;
        }
    }
    Ok(reading)
}

/// What the meter reads of a session's commands, where there is no group that counts them.
#[derive(Debug, Default)]
pub struct Metered {
    /// The last one.
    pub last: Option<Process>,
    /// Processor time of those before it.
    pub before: Duration,
}

impl Metered {
    /// Counts another one from now on.
    pub fn add(&mut self, command: Process) {
        if let Some(over) = self.last.replace(command) {
            self.before += over.cpu();
        }
    }

    /// Processor time of all.
    pub fn cpu(&self) -> Duration {
        self.before + self.last.as_ref().map_or(Duration::ZERO, Process::cpu)
    }
}
