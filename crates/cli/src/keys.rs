//! Private files: the key that seals snapshots, and what is written for this user alone.
//!
//! Answers to: `repl` and the server over standard input and output. Must not: leave half a file, or one that others read.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ringfence_api::Code;

use crate::fault::Fault;
use crate::folders;

/// The key in the state folder, made at the first time.
pub fn snapshot_key() -> Result<[u8; 32], Fault> {
    let path = folders::state_made()?.join("snapshot.key");
    match read_key(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create_key(&path)?;
            read_key(&path)
        }
        read => read,
    }
    .map_err(|error| {
        Fault::file(&path, "used as the key of snapshots", &error).hint("remove it to have a new one made")
    })
}

fn read_key(path: &Path) -> std::io::Result<[u8; 32]> {
    let mut file = std::fs::File::open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(std::io::Error::other("other users can read it"));
    }
    let mut key = [0; 32];
    file.read_exact(&mut key)?;
    match file.read(&mut [0])? {
        0 => Ok(key),
        _ => Err(std::io::Error::other("it is longer than 32 bytes")),
    }
}

fn create_key(path: &Path) -> Result<(), Fault> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| Fault::new(Code::Internal, format!("no random numbers: {error}")))?;
    let draft = draft(path);
    let written = write_new(&draft, &key).and_then(|()| match std::fs::hard_link(&draft, path) {
        // A link never replaces: whoever comes second keeps the first one's key.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let removed = std::fs::remove_file(&draft);
    written.and(removed).map_err(|error| Fault::file(path, "made", &error))
}

/// Writes a file that only this user can read, whole or not at all.
pub fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let draft = draft(path);
    write_new(&draft, content).and_then(|()| std::fs::rename(&draft, path)).inspect_err(|_| {
        // What was begun is of no use.
        let _ = std::fs::remove_file(&draft);
    })
}

fn draft(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.draft", std::process::id()));
    name.into()
}

fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
