//! What every case of the product's half is played on: one engine, its log, the tools, the canaries.
//!
//! Answers to: `kinds`. Must not: be shared by two cases at once: the counts are of one case.

use std::path::{Path, PathBuf};

use ringfence::{AuditTo, Engine};
use ringfence_audit::Record;
use ringfence_types::{SessionId, TierName};
use tempfile::TempDir;

use crate::canary::Canaries;
use crate::control::Controls;
use crate::tools::Toolbox;

/// The stage of one suite.
pub struct Stage {
    /// The tier that every case runs on.
    pub tier: TierName,
    /// The engine.
    pub engine: Engine,
    /// The executable that workers are made of.
    pub worker: PathBuf,
    /// The tools.
    pub tools: Toolbox,
    /// The canaries.
    pub canaries: Canaries,
    /// What was found of the policies so far.
    pub controls: Controls,
    folder: TempDir,
}

impl Stage {
    /// A stage for one tier with everything on it, tried.
    pub fn set_up(tier: TierName) -> Result<Self, String> {
        let fault = |error: std::io::Error| format!("the suite's folder can't be made: {error}");
        let folder = tempfile::Builder::new().prefix("ringfence-conformance-").tempdir().map_err(fault)?;
        for name in ["data", "work", "audit"] {
            std::fs::create_dir(folder.path().join(name)).map_err(fault)?;
        }
        std::fs::write(folder.path().join("data/ro.txt"), "readonly-original\n").map_err(fault)?;
        std::fs::write(folder.path().join("work/control.txt"), "control").map_err(fault)?;
        let canaries = Canaries::set_up(folder.path())?;
        let worker = worker()?;
        let log = folder.path().join("audit/audit.jsonl");
        let built = Engine::builder().worker(&worker).audit(AuditTo::File(log)).build();
        let engine = built.map_err(|error| error.to_string())?;
        let tools = Toolbox::new(&folder.path().join("work"));
        Ok(Self { tier, engine, worker, tools, canaries, controls: Controls::default(), folder })
    }

    /// The suite's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What is mounted at `/data`.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The host's side of `read_file`.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("audit/audit.jsonl")
    }

    /// The records of a session, and their lines.
    pub fn records(&self, session: &SessionId) -> (Vec<Record>, String) {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let mut lines = String::new();
        let mut records = Vec::new();
        for line in text.split_inclusive('\n') {
            let record = Record::parse(line.trim_end_matches('\n').as_bytes());
            if let Some(record) = record.filter(|record| record.session.as_deref() == Some(session.as_str())) {
                lines.push_str(line);
                records.push(record);
            }
        }
        (records, lines)
    }
}

/// The `ringfence` program: `RINGFENCE_BIN`, or the one beside this program.
pub fn worker() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("RINGFENCE_BIN") {
        return Ok(PathBuf::from(named));
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("ringfence")).find(|path| path.is_file());
    found.ok_or_else(|| {
        format!("there is no `ringfence` program beside `{}`; build it, or name it in RINGFENCE_BIN", own.display())
    })
}
