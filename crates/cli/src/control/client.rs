//! Asks every process of this user at once.
//!
//! Answers to: `ps`, `kill`, `resume`. Must not: wait for one process before it asks the next.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control::message::{Reply, Request};
use crate::folders::{self, FolderError};

/// How long a process may take to answer. A kill itself takes well under a millisecond.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer: a row for each of very many sessions.
const ANSWER_MAX: u64 = 64 << 20;

/// What one process said.
#[derive(Debug)]
pub struct Answered {
    /// The process.
    pub pid: u32,
    /// Its reply, or why there is none.
    pub reply: Result<Reply, String>,
}

/// Asks every process, each in a thread of its own.
pub fn ask_all(request: &Request) -> Result<Vec<Answered>, FolderError> {
    let folder = folders::runtime_made()?;
    Ok(ask_all_in(&folder, request))
}

/// Asks every process with a socket in this folder.
pub fn ask_all_in(folder: &Path, request: &Request) -> Vec<Answered> {
    // A request is made of texts.
    let line = format!("{}\n", serde_json::to_string(request).unwrap_or_default());
    let sockets = sockets(folder);
    std::thread::scope(|scope| {
        let asking: Vec<_> =
            sockets.iter().map(|(pid, path)| (*pid, scope.spawn(|| ask(path, *pid, line.as_bytes())))).collect();
        let answered = asking.into_iter().filter_map(|(pid, thread)| {
            let reply = thread.join().unwrap_or_else(|_| Some(Err("the question failed".to_owned())))?;
            Some(Answered { pid, reply })
        });
        answered.collect()
    })
}

fn sockets(folder: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".sock")?.to_owned();
            let pid = name.split('-').next()?.parse().ok()?;
            Some((pid, path))
        })
        .collect();
    found.sort();
    found
}

/// Removes the sockets of processes that are gone.
pub fn sweep(folder: &Path) {
    for (pid, path) in sockets(folder) {
        // Nobody is asked: where somebody listens, the connection ends at once.
        if !is_alive(pid) && UnixStream::connect(&path).is_err() {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// `None` where the process is gone; its socket is then removed.
fn ask(path: &Path, pid: u32, line: &[u8]) -> Option<Result<Reply, String>> {
    match UnixStream::connect(path) {
        Ok(socket) => Some(exchange(&socket, line).map_err(|error| error.to_string())),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {
            // A living process may be between making its socket and listening on it.
            if !is_alive(pid) {
                let _ = std::fs::remove_file(path);
            }
            None
        }
        Err(error) => Some(Err(error.to_string())),
    }
}

fn exchange(mut socket: &UnixStream, line: &[u8]) -> std::io::Result<Reply> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(line)?;
    let mut answer = String::new();
    BufReader::new(socket.take(ANSWER_MAX)).read_line(&mut answer)?;
    serde_json::from_str(&answer).map_err(std::io::Error::from)
}
