//! The zygote: a warmed process that forks a locked worker for each session.
//!
//! Answers to: the host, over the control socket on standard input. Must not: start a thread, run guest code, or
//! leave a worker unlocked. When the host goes, the socket closes and the zygote ends; the kernel then ends its workers.

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};

use ringfence_types::Engine;
use ringfence_wire::launch::GREETING;
use seccompiler::BpfProgram;

use crate::engine::Interpreter;
use crate::{lock, message, sys, worker};

/// How far the main thread's stack may grow.
pub const STACK: u64 = 64 << 20;

/// How far workers stand back behind their host.
const NICENESS: i32 = 5;

/// What both engines need, warmed once and inherited by every worker.
pub trait Warmth {
    /// Called in the worker after the fork: state that must differ between sessions is drawn anew.
    fn reseed(&mut self);
    /// An interpreter of the kind asked for.
    fn interpreter(&mut self, engine: Engine) -> Box<dyn Interpreter>;
}

/// Runs the zygote until the host is gone. Every failure is told to the host in one line.
pub fn serve(warm: impl FnOnce() -> Result<Box<dyn Warmth>, String>) -> ! {
    let prepared = prepare().and_then(|filter| Ok((filter, warm()?)));
    let (filter, mut warmth) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            send(why.as_bytes(), None);
            sys::end(1)
        }
    };
    if let Err(error) = sys::drop_root().and_then(|()| sys::harden()) {
        send(format!("privileges can't be given up: {error}").as_bytes(), None);
        sys::end(1);
    }
    sys::ignore_children();
    send(GREETING, None);
    let parent = std::process::id();
    let size = address_space();
    while let Some(socket) = next_session() {
        match sys::fork() {
            Ok(sys::Forked::Child) => become_worker(socket, (parent, size), &filter, warmth.as_mut()),
            Ok(sys::Forked::Parent(pid, handle)) => send(&pid.to_le_bytes(), Some(handle)),
            Err(error) => send(error.to_string().as_bytes(), None),
        }
    }
    sys::end(0)
}

fn prepare() -> Result<BpfProgram, String> {
    // A machine full of busy guests still answers its host first. One that can't be told so is no worse than before.
    let _ = rustix::process::nice(NICENESS);
    crate::socket::prepare();
    sys::raise_stack(STACK).map_err(|error| format!("the stack limit can't be raised: {error}"))?;
    lock::filter().map_err(|error| error.to_string())
}

/// The zygote's address space in bytes, which its workers start with; `None` where /proc is not there.
fn address_space() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    size.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// INVARIANT: nothing of the session is read before the filter is on.
fn become_worker(
    socket: OwnedFd,
    (parent, size): (u32, Option<u64>),
    filter: &BpfProgram,
    warmth: &mut dyn Warmth,
) -> ! {
    let locked = sys::die_with(parent)
        .and_then(|alive| if alive { Ok(()) } else { Err(std::io::ErrorKind::NotConnected.into()) })
        .and_then(|()| sys::keep_only(socket))
        .and_then(|()| sys::lower_limits(STACK))
        .map_err(|_| ())
        .and_then(|()| sys::lock(filter).map_err(|_| ()));
    if locked.is_err() {
        sys::end(67);
    }
    sys::install_signal_handlers();
    warmth.reseed();
    worker::serve(size, &mut |engine| warmth.interpreter(engine))
}

/// The socket of the next session, or `None` where the host is gone.
fn next_session() -> Option<OwnedFd> {
    let mut byte = [0; 1];
    loop {
        match message::receive(sys::control_socket(), &mut byte) {
            Ok(([], _)) => return None,
            Ok((_, sockets)) => return sockets.into_iter().next(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

fn send(bytes: &[u8], handle: Option<OwnedFd>) {
    let handle = handle.as_ref().map(AsFd::as_fd);
    if message::send(sys::control_socket(), bytes, handle.as_slice()).is_err() {
        sys::end(0);
    }
}
