//! The executable that workers are made of: this very program, or one that was named, copied into sealed memory.
//!
//! Answers to: whoever starts a zygote. Must not: start anything itself.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// The executable that workers are made of: copied once into sealed memory, so that nothing can change it.
#[derive(Debug, Clone)]
pub struct Executable {
    path: PathBuf,
    sealed: Arc<OnceLock<OwnedFd>>,
}

impl Executable {
    /// The program at `path`; `None`: this very program.
    pub fn new(path: Option<PathBuf>) -> Self {
        Self { path: path.unwrap_or_else(|| PathBuf::from("/proc/self/exe")), sealed: Arc::default() }
    }

    /// Where the copy is made from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs the copy with an empty environment, in a process group of its own and with no output:
    /// Ctrl-C at a terminal goes to the host alone, which gives its runs up in order.
    pub fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.sealed()?.as_raw_fd()));
        command.arg0("ringfence-worker").env_clear().env("TZ", "UTC").current_dir("/").process_group(0);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    fn sealed(&self) -> io::Result<&OwnedFd> {
        if self.sealed.get().is_none() {
            let copy = seal(&self.path)?;
            // Another thread may have been first; either copy is the same.
            let _ = self.sealed.set(copy);
        }
        self.sealed.get().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn seal(path: &Path) -> io::Result<OwnedFd> {
    let memory = memfd_create("ringfence-worker", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut copy = File::from(memory);
    io::copy(&mut File::open(path)?, &mut copy)?;
    fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(copy.into())
}
