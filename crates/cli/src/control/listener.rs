//! The control socket of this process: `RUNTIME/ringfence/PID.sock`, answered in threads of its own.
//!
//! Answers to: `client`s of this user and of root. Must not: be held up by the event loop, by a guest, or by a peer that
//! says nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ringfence_session::{Engine, Killing};

use crate::control::client::sweep;
use crate::control::message::{LINE_MAX, Reply, Request, Wanted};
use crate::folders::{self, FolderError};

/// How long a peer may take to ask and to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// There is no folder for it.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// It can't be made.
    #[error("the control socket `{}` can't be made: {cause}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// An open control socket. Dropping it closes and removes it.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

static SOCKETS: AtomicUsize = AtomicUsize::new(0);

impl Listener {
    /// Listens for this engine, in the runtime folder of this user.
    pub fn start(engine: Engine) -> Result<Self, ListenError> {
        let folder = folders::runtime_made()?;
        Self::start_in(&folder, engine)
    }

    /// Listens for this engine, in a folder that only this user can enter.
    pub fn start_in(folder: &Path, engine: Engine) -> Result<Self, ListenError> {
        let pid = std::process::id();
        let name = match SOCKETS.fetch_add(1, Ordering::Relaxed) {
            0 => format!("{pid}.sock"),
            more => format!("{pid}-{more}.sock"),
        };
        let path = folder.join(name);
        let failed = |cause| ListenError::Socket { path: path.clone(), cause };
        // One that an earlier process of this number left behind.
        if let Err(cause) = std::fs::remove_file(&path)
            && cause.kind() != std::io::ErrorKind::NotFound
        {
            return Err(failed(cause));
        }
        let socket = UnixListener::bind(&path).map_err(failed)?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = std::thread::Builder::new().name("ringfence-control".to_owned());
        let others = folder.to_path_buf();
        let serve = move || {
            sweep(&others);
            accept(&socket, &engine, &ended);
        };
        let thread = thread.spawn(serve).map_err(failed)?;
        Ok(Self { path, over, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; where it fails, the thread is gone already.
        let woken = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            // The thread's hold on the engine may be the last: what the engine's end removes is gone when this returns.
            let _ = thread.join();
        }
    }
}

fn accept(socket: &UnixListener, engine: &Engine, over: &AtomicBool) {
    for peer in socket.incoming() {
        if over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(peer) = peer else { continue };
        let engine = engine.clone();
        // A peer that says nothing must not keep a kill waiting, so that each has a thread.
        let thread = std::thread::Builder::new().name("ringfence-control".to_owned());
        let _ = thread.spawn(move || serve(&peer, &engine));
    }
}

fn serve(peer: &UnixStream, engine: &Engine) {
    if !is_own(peer) {
        return;
    }
    let _ = peer.set_read_timeout(Some(PATIENCE));
    let _ = peer.set_write_timeout(Some(PATIENCE));
    let mut line = String::new();
    if BufReader::new(peer.take(LINE_MAX)).read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let reply = match serde_json::from_str(&line) {
        Ok(request) => answer(engine, request),
        Err(error) => Reply::Failed { why: format!("not a request: {error}") },
    };
    // Every part of a reply has a form in JSON.
    let mut text = serde_json::to_string(&reply).unwrap_or_default();
    text.push('\n');
    let mut peer = peer;
    let _ = peer.write_all(text.as_bytes());
}

/// Whether the peer is of this user, or root.
fn is_own(peer: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(peer)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid.as_raw() == folders::own_uid())
}

fn answer(engine: &Engine, request: Request) -> Reply {
    match request {
        Request::List => Reply::Sessions { sessions: engine.list().into_iter().map(Into::into).collect() },
        Request::Kill { target: Wanted(target), by, reason, hold } => {
            // The hold first, so that nothing begins behind the kill.
            let held = hold.map(|hold| engine.hold(&hold));
            let count = engine.kill(&target, Killing { by, reason });
            match held {
                Some(Err(error)) => Reply::Failed { why: error.to_string() },
                Some(Ok(())) | None => Reply::Killed { count },
            }
        }
        Request::Freeze { target: Wanted(target), still, by, reason } => {
            match engine.freeze(&target, still, Killing { by, reason }) {
                Ok(done) => Reply::Frozen { count: done.count, faults: done.faults },
                Err(error) => Reply::Failed { why: error.to_string() },
            }
        }
        Request::Release { hold } => match engine.release(&hold) {
            Ok(()) => Reply::Done,
            Err(error) => Reply::Failed { why: error.to_string() },
        },
    }
}
