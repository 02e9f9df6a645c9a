//! An engine made ready for one command: its audit log, the kill switches that are set, the control socket.
//!
//! Answers to: `run` and `repl`. Must not: let a session begin before the kill switches are known.

use std::path::{Path, PathBuf};

use ringfence_policy::Policy;
use ringfence_session::Engine;
use ringfence_types::Engine as Interpreter;

use crate::control::{Listener, holds};
use crate::fault::Fault;
use crate::folders;
use crate::input;
use crate::printer::Printer;
use crate::root::{EngineOptions, Root};

/// An engine, and its control socket where there could be one.
pub struct Opened {
    /// The engine.
    pub engine: Engine,
    _listener: Option<Listener>,
}

impl Opened {
    /// Builds the engine, listens for `kill`, and sets the kill switches that are on file.
    pub fn new(root: &Root, options: EngineOptions, printer: &mut Printer) -> Result<Self, Fault> {
        let engine = (root.build)(options)?;
        // The socket first: a kill switch set from now on comes by it, an earlier one is on file.
        let listener = Listener::start(engine.clone());
        if let Err(error) = &listener {
            printer.note(&format!("`ringfence kill` can't reach this process: {error}"));
        }
        holds::take_up(&engine)?;
        Ok(Self { engine, _listener: listener.ok() })
    }

    /// Signs the end of the audit log.
    pub fn close(self) -> Result<(), Fault> {
        self.engine.log().close()?;
        Ok(())
    }
}

impl Drop for Opened {
    /// A command that fails before its run closes the log too.
    fn drop(&mut self) {
        // Closed already where all went well.
        let _ = self.engine.log().close();
    }
}

/// The audit log: the one that was asked for, else the policy's, else the one in the state folder.
pub fn audit_log(asked: Option<&Path>, policy: &Policy) -> Result<PathBuf, Fault> {
    if asked.is_some_and(|path| path.as_os_str() == "-") {
        let hint = "name a file; `ringfence audit show --json FILE` prints it";
        return Err(Fault::usage("an audit log is read back and signed, so it can't be `-`").hint(hint));
    }
    match asked.map(Path::to_owned).or_else(|| input::policy_log(policy)) {
        Some(path) => Ok(path),
        None => Ok(default_log(folders::state_made()?)),
    }
}

/// The audit log in a state folder.
pub fn default_log(state: PathBuf) -> PathBuf {
    state.join("audit.jsonl")
}

/// The engines worth starting while the rest is made ready: the one that the program will most likely need. The
/// smaller one starts anyway, to see whether the tier works.
pub fn likely(code: &str, wanted: Option<Interpreter>) -> Vec<Interpreter> {
    let fuller = match wanted {
        Some(engine) => engine == Interpreter::Rustpython,
        None => match ringfence_analysis::analyze(code) {
            Ok(program) => ringfence_analysis::fit(&program, Interpreter::Monty) != ringfence_analysis::Fit::Right,
            Err(_) => false,
        },
    };
    if fuller { vec![Interpreter::Monty, Interpreter::Rustpython] } else { vec![Interpreter::Monty] }
}
