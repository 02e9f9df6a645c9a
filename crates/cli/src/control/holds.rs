//! The kill switches that stay set, on file: `holds.json` in the state folder.
//!
//! Answers to: every process at its start, `kill --hold`, `resume`, `holds`. Must not: lose a hold that another process
//! sets at the same time, or take a file that can't be read for one without holds.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringfence_bridge::Hold;
use ringfence_session::Engine;

use crate::folders::{self, FolderError};

const FILE: &str = "holds.json";
/// The most bytes of the file.
const MOST: u64 = 1 << 20;

/// Why the kill switches are not known.
#[derive(Debug, thiserror::Error)]
pub enum HoldsError {
    /// There is no state folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file can't be read or written.
    #[error("the kill switches in `{}` can't be used: {cause}; nothing runs until they can", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The file does not hold kill switches.
    #[error("`{}` does not hold kill switches: {why}; mend or remove it, nothing runs until then", path.display())]
    Garbled {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Sets the holds that are on file in an engine. None where there is no state folder.
pub fn take_up(engine: &Engine) -> Result<(), HoldsError> {
    match folders::state() {
        Ok(folder) => {
            read_in(&folder)?.into_iter().for_each(|hold| engine.holds().set(hold.target));
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// The holds on file.
pub fn read() -> Result<Vec<Hold>, HoldsError> {
    read_in(&folders::state()?)
}

fn read_in(folder: &Path) -> Result<Vec<Hold>, HoldsError> {
    let path = folder.join(FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(HoldsError::File { path, cause }),
    };
    let mut text = String::new();
    if let Err(cause) = file.take(MOST).read_to_string(&mut text) {
        return Err(HoldsError::File { path, cause });
    }
    serde_json::from_str(&text).map_err(|error| HoldsError::Garbled { path, why: error.to_string() })
}

/// Sets a hold on file, in place of an earlier one on the same target.
pub fn set(hold: &Hold) -> Result<(), HoldsError> {
    change(|holds| {
        holds.retain(|other| other.target != hold.target);
        holds.push(hold.clone());
    })
}

/// Takes the holds for which `released` is true off the file, and gives them.
pub fn release(released: impl Fn(&Hold) -> bool) -> Result<Vec<Hold>, HoldsError> {
    let mut gone = Vec::new();
    change(|holds| {
        let (taken, kept) = holds.drain(..).partition(|hold| released(hold));
        (gone, *holds) = (taken, kept);
    })?;
    Ok(gone)
}

fn change(change: impl FnOnce(&mut Vec<Hold>)) -> Result<(), HoldsError> {
    let folder = folders::state_made()?;
    let path = folder.join(FILE);
    let failed = |cause| HoldsError::File { path: path.clone(), cause };
    // Held until the new file is in place, so that no change is lost.
    let lock = private().open(folder.join("holds.lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut holds = read_in(&folder)?;
    change(&mut holds);
    let draft = folder.join(format!("{FILE}.{}", std::process::id()));
    // A hold is made of texts.
    let text = serde_json::to_string_pretty(&holds).unwrap_or_default();
    let written = private().truncate(true).open(&draft).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, &path)
    });
    written.map_err(failed)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}
