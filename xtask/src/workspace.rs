//! Where things are: the tree, the target folder, the built programs; and how cargo is called.
//!
//! Answers to: the commands. Must not: build with more than one profile or one choice of packages, for cargo gives
//! each choice its own features, and would then compile the interpreters again.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fault::Fault;
use crate::stage::{self, Counted, Stage};

/// Where things are.
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

/// How much of the workspace is built. Both choose the same features.
#[derive(Clone, Copy)]
pub enum Built {
    /// The programs.
    Programs,
    /// The programs and every test.
    Tests,
}

impl Workspace {
    /// The tree that this program was started in. The target folder is, in this order: `CARGO_TARGET_DIR`;
    /// `~/.cache/ringfence/target` where that folder exists, so that a build outlives a clone; `target` in the tree.
    pub fn find() -> Result<Self, Fault> {
        let here = std::env::current_dir().map_err(Fault::reading("."))?;
        let is_root = |folder: &&Path| folder.join("xtask/Cargo.toml").is_file() && folder.join("Cargo.lock").is_file();
        let root =
            here.ancestors().find(is_root).map(Path::to_path_buf).ok_or_else(|| {
                Fault::Usage("this is not inside a clone of Ringfence; change into one first".to_owned())
            })?;
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(given) => here.join(given),
            None => kept_target().unwrap_or_else(|| root.join("target")),
        };
        Ok(Self { root, target })
    }

    /// A file or folder of the tree.
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// The target folder.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// A built program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// Whether the tree has this folder yet.
    pub fn has(&self, below: &str) -> bool {
        self.path(below).exists()
    }

    /// Cargo, in the tree, with the target folder.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("cargo");
        command.args(arguments);
        command
    }

    /// Any program, in the tree.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// The one build: every later step uses what it made.
    pub fn build(&self, built: Built) -> Stage {
        let mut command = self.cargo(&["build", "--release", "--workspace", "--bins", "--examples"]);
        match built {
            Built::Programs => {}
            Built::Tests => {
                command.arg("--tests");
            }
        }
        Stage::new("build", command, Counted::Nothing)
    }

    /// Builds the programs, or ends the command.
    pub fn build_programs(&self) -> Result<(), Fault> {
        let report = stage::run(self.build(Built::Programs));
        if report.is_good() { Ok(()) } else { Err(Fault::Failed("cargo build".to_owned())) }
    }
}

fn kept_target() -> Option<PathBuf> {
    let kept = PathBuf::from(std::env::var_os("HOME")?).join(".cache/ringfence/target");
    kept.is_dir().then_some(kept)
}

/// Whether this runs in CI, where whatever is missing is an error.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "0" && value != "false")
}
