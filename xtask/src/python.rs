//! Python environments in the target folder, each from a pinned list of packages.
//!
//! Answers to: `test` and `bench`. Must not: touch the machine's own Python.

use std::path::{Path, PathBuf};

use crate::fault::Fault;
use crate::setup::{debian_package, works};
use crate::stage::{self, Counted, Stage};
use crate::workspace::Workspace;

/// The Python that environments are made with.
const PYTHON: &str = "python3";

/// An environment.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// The environment `name` with the packages of `requirements`, made or renewed where it is not as that file says.
    pub fn prepare(workspace: &Workspace, name: &str, requirements: &Path) -> Result<Self, Fault> {
        let wanted = std::fs::read_to_string(requirements).map_err(Fault::reading(requirements))?;
        let environment = Self { folder: workspace.target().join("python").join(name) };
        let stamp = environment.folder.join("installed.txt");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(environment);
        }
        environment.make(workspace)?;
        environment.install(workspace, requirements)?;
        std::fs::write(&stamp, wanted).map_err(Fault::writing(&stamp))?;
        Ok(environment)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program of it.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    fn make(&self, workspace: &Workspace) -> Result<(), Fault> {
        let attempt = || {
            let mut command = workspace.command(PYTHON);
            command.args(["-m", "venv", "--clear"]).arg(&self.folder);
            works(command)
        };
        if attempt() {
            return Ok(());
        }
        debian_package(workspace, "python3-venv");
        if attempt() {
            return Ok(());
        }
        Err(Fault::Missing {
            tool: "python3 -m venv".to_owned(),
            why: "it makes no environment here".to_owned(),
            remedy: "install Python 3.10 or newer with its `venv` module (on Debian: `apt-get install python3-venv`)"
                .to_owned(),
        })
    }

    fn install(&self, workspace: &Workspace, requirements: &Path) -> Result<(), Fault> {
        let mut command = workspace.command(self.program("python"));
        command.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--requirement"]);
        command.arg(requirements);
        let report = stage::run(Stage::new("install Python packages", command, Counted::Nothing));
        if report.is_good() { Ok(()) } else { Err(Fault::Failed("pip install".to_owned())) }
    }
}
