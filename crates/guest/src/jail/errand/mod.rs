//! A command in a session's place: forked by the init, locked as the session is, and executed. No interpreter has a
//! part in it, so a session that was taken over can't say how its command ended.
//!
//! Answers to: `init`, which hands on what came through the door. Must not: run anything before its lock is on, or
//! believe anything but the kernel of how it ended.
//!
//! The init forks a *keeper*, which stays outside the place and out of its sight, forks the command into it, and waits.

mod lock;
mod sys;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_wire::jail::{ERRAND, Errand, ErrandHandle, Report, SessionPlan};
use rustix::net::{RecvFlags, recv};

use super::filter::Filters;
use super::{Failed, Step, sys as jail};
use crate::message;
use crate::sys::{Forked, end, fork};

pub use sys::{descriptor, give_up_rights};

/// How many descriptors come with an errand.
const HANDLES: usize = ErrandHandle::ALL.len();

/// What came with an errand, in the order of [`ErrandHandle`].
type Handles = [OwnedFd; HANDLES];

/// Where the report socket is in the keeper and in the command, until that is executed.
const REPORT: i32 = 3;

/// The door, which the host gave as standard output.
pub fn door() -> BorrowedFd<'static> {
    sys::descriptor(&1)
}

/// Takes one errand from the door and lets a keeper see to it. `false`: nobody is at the door any more.
pub fn take(door: BorrowedFd<'_>, session: &SessionPlan, filters: &Filters) -> bool {
    match receive(door) {
        Ok(Some((errand, handles))) => {
            let [_, report, ..] = &handles;
            match fork() {
                Ok(Forked::Child) => keep(&errand, &handles, session, filters),
                Ok(Forked::Parent(..)) => {}
                Err(error) => tell(report.as_fd(), &Report::Failed(format!("a keeper can't be forked: {error}")), None),
            }
            true
        }
        // What is no errand comes from nobody but the host, and is dropped with its descriptors, which tells.
        Ok(None) => true,
        Err(_) => false,
    }
}

/// `None`: not an errand. An error: the door is closed.
fn receive(door: BorrowedFd<'_>) -> io::Result<Option<(Errand, Handles)>> {
    let mut bytes = vec![0; ERRAND];
    let (bytes, descriptors) = message::receive(door, &mut bytes)?;
    if bytes.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(bytes).ok().zip(descriptors.try_into().ok()))
}

fn tell(socket: BorrowedFd<'_>, report: &Report, handle: Option<BorrowedFd<'_>>) {
    let bytes = serde_json::to_vec(report).unwrap_or_default();
    // A host that is gone need not know.
    let _ = message::send(socket, &bytes, handle.as_slice());
}

/// The keeper: forks the command into the place, hands a handle on it over, and tells how it ended.
fn keep(errand: &Errand, handles: &Handles, session: &SessionPlan, filters: &Filters) -> ! {
    let [place, report, ..] = handles;
    sys::expect_children();
    let forked = jail::enter(place.as_fd(), libc::CLONE_NEWPID).step(|| "the place can't be joined".into());
    match forked.and_then(|()| fork().step(|| "the command can't be forked".into())) {
        Ok(Forked::Child) => {
            let report = match begin(errand, handles, session, filters) {
                Ok(no_command) => Report::NoCommand(no_command),
                Err(failed) => Report::Failed(failed.to_string()),
            };
            tell(sys::descriptor(&REPORT), &report, None);
            end(127)
        }
        Ok(Forked::Parent(pid, handle)) => {
            tell(report.as_fd(), &Report::Forked, Some(handle.as_fd()));
            // Nothing of the host's stays open here but the way to tell it.
            let kept = sys::keep_at(report.as_fd(), REPORT).and_then(|()| jail::close_from(REPORT.unsigned_abs() + 1));
            let kept = kept.and_then(|()| sys::close_below(REPORT.unsigned_abs()));
            let said = match (kept, sys::how_it_ended(pid)) {
                (Err(error), _) | (_, Err(error)) => Report::Failed(format!("the command can't be kept: {error}")),
                (Ok(()), Ok(code)) => Report::Exited(code),
            };
            tell(sys::descriptor(&REPORT), &said, None);
            end(0)
        }
        Err(failed) => {
            tell(report.as_fd(), &Report::Failed(failed.to_string()), None);
            end(1)
        }
    }
}

/// Becomes the command. Gives back only why there is no such command, in one line.
fn begin(errand: &Errand, handles: &Handles, session: &SessionPlan, filters: &Filters) -> Result<String, Failed> {
    let [place, report, stdin, stdout, stderr] = handles;
    let network = session.network.map_or(0, |_| libc::CLONE_NEWNET);
    let kinds = libc::CLONE_NEWNS | libc::CLONE_NEWIPC | network;
    jail::enter(place.as_fd(), kinds).step(|| "the place can't be entered".into())?;
    for (from, to) in [(stdin, 0), (stdout, 1), (stderr, 2)] {
        jail::place(from.as_fd(), to).step(|| "descriptors can't be put in place".into())?;
    }
    sys::keep_at(report.as_fd(), REPORT)
        .and_then(|()| jail::close_from(REPORT.unsigned_abs() + 1))
        .step(|| "descriptors can't be closed".into())?;
    wait_for_leave()?;
    rustix::process::setsid().map_err(io::Error::from).step(|| "no session of its own".into())?;
    sys::usual_signals();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let folder = std::env::set_current_dir(&errand.folder);
    if let Err(error) = folder {
        return Ok(format!("the folder `{}` can't be entered: {}", errand.folder, plain(&error)));
    }
    lock::lock(session, filters, errand.user)?;
    Ok(execute(errand))
}

/// The host puts the process into its control group first: it must be bounded before it does anything.
fn wait_for_leave() -> Result<(), Failed> {
    let mut byte = [0; 16];
    match recv(sys::descriptor(&REPORT), &mut byte, RecvFlags::empty()) {
        Ok((_, count)) if count > 0 => Ok(()),
        _ => end(0),
    }
}

/// Executes the first of the folders of its `PATH` that has the command.
fn execute(errand: &Errand) -> String {
    let Some(name) = errand.arguments.first().filter(|name| !name.is_empty()) else {
        return "no command is named".to_owned();
    };
    let texts = |texts: Vec<String>| texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>();
    let environment = errand.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (Ok(arguments), Ok(environment)) = (texts(errand.arguments.clone()), texts(environment)) else {
        return "an argument has a NUL in it".to_owned();
    };
    let mut refused = None;
    for path in candidates(name, errand) {
        let Ok(program) = CString::new(path.clone()) else { continue };
        let error = jail::exec(&program, &arguments, &environment);
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) if !exists(&path) => {}
            _ => {
                refused.get_or_insert((path, error));
            }
        }
    }
    match refused {
        Some((path, error)) => cant_run(&path, &error),
        None => format!(
            "no command `{}` in the jail, which has the system's tools under /usr/bin and /bin and what the policy \
             mounts",
            short(name)
        ),
    }
}

fn candidates(name: &str, errand: &Errand) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    let path = errand.environment.iter().find(|(variable, _)| variable == "PATH").map_or("", |(_, value)| value);
    path.split(':').filter(|folder| folder.starts_with('/')).map(|folder| format!("{folder}/{name}")).collect()
}

fn exists(path: &str) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// A name in a message.
fn short(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(200).collect()
}

fn cant_run(path: &str, error: &io::Error) -> String {
    let path = short(path);
    match error.raw_os_error() {
        Some(libc::ENOENT) => format!("`{path}` needs an interpreter or loader that is not in the jail"),
        Some(libc::EACCES) => format!("`{path}` may not be run: it is no program, or the jail does not let it be read"),
        Some(libc::ENOEXEC) => format!("`{path}` is no program: a script needs a first line such as `#!/bin/sh`"),
        Some(libc::E2BIG) => "the arguments are longer than the system takes".to_owned(),
        _ => format!("`{path}` can't be run: {}", plain(error)),
    }
}

fn plain(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}
