//! Host functions of a Python file: a trusted Python process runs them, and calls go to it over two pipes.
//!
//! Answers to: `run` and `repl`. Must not: let a guest's bytes reach that process but through the bridge.

mod frames;
mod functions;
mod package;

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use ringfence_api::Code;
use ringfence_bridge::{HostFunction, Registry};
use ringfence_types::FunctionSpec;
use serde::Deserialize;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::exports::functions::{Exported, Switchboard};
use crate::fault::{Fault, plain};

/// Names the Python that runs the file; `python3` where it is not set.
const PYTHON: &str = "RINGFENCE_PYTHON";

/// The Python process and its functions. Dropping it ends the process.
pub struct Exports {
    functions: Vec<Arc<dyn HostFunction>>,
    // Killed when dropped; it also ends by itself when its input does, so that it can't outlive this process.
    _child: Child,
}

/// The first frame.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Greeting {
    Functions { functions: Vec<FunctionSpec> },
    Error { error: ErrorText },
}

#[derive(Debug, Deserialize)]
struct ErrorText {
    message: String,
}

impl Exports {
    /// Starts Python on the file and reads what it exports.
    pub async fn start(file: &Path) -> Result<Self, Fault> {
        let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
        let mut command = Command::new(&python);
        command.args(["-c", package::BOOT]).arg(file).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C at a terminal goes to this process alone, which ends the other in order.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| no_python(&python, &error))?;
        let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Fault::new(Code::Internal, "the Python process has no pipes"));
        };
        // A Python that ends without reading has no greeting either.
        let _ = frames::write(&mut stdin, package::modules().to_string().as_bytes()).await;
        let specs = match frames::read(&mut stdout).await.ok().and_then(|json| serde_json::from_value(json).ok()) {
            Some(Greeting::Functions { functions }) => functions,
            Some(Greeting::Error { error }) => return Err(Fault::usage(one_line(&error.message))),
            None => return Err(why_silent(&python, file).await),
        };
        let board = connect(stdin, stdout);
        let function = |spec| Arc::new(Exported::new(spec, Arc::clone(&board))) as Arc<dyn HostFunction>;
        Ok(Self { functions: specs.into_iter().map(function).collect(), _child: child })
    }

    /// The functions as the engine takes them.
    pub fn registry(&self) -> Result<Registry, Fault> {
        let mut registry = Registry::new();
        for function in &self.functions {
            registry.add(Arc::clone(function)).map_err(Fault::usage)?;
        }
        Ok(registry)
    }
}

fn no_python(python: &std::ffi::OsStr, error: &std::io::Error) -> Fault {
    let message = format!("`{}` can't be started: {}", python.to_string_lossy(), plain(error));
    Fault::usage(message).hint(format!("`--exports` needs Python 3.10 or newer; install it, or name it in {PYTHON}"))
}

/// Python ended without a word: an old one can't read the package.
async fn why_silent(python: &std::ffi::OsStr, file: &Path) -> Fault {
    const OLD: &str = "import sys; sys.exit(0 if sys.version_info >= (3, 10) else 1)";
    let old = Command::new(python).args(["-c", OLD]).stdin(Stdio::null()).status().await;
    let name = python.to_string_lossy();
    match old {
        Ok(status) if status.code() == Some(1) => {
            let hint = format!("install a newer one, or name it in {PYTHON}");
            Fault::usage(format!("`{name}` is older than 3.10, which `--exports` needs")).hint(hint)
        }
        _ => Fault::usage(format!("`{}` ended its Python process before it could be used", file.display())),
    }
}

fn one_line(message: &str) -> String {
    message.replace(['\n', '\r'], " ")
}

/// Starts what writes calls and what reads answers.
fn connect(stdin: ChildStdin, stdout: ChildStdout) -> Arc<Switchboard> {
    let (sender, mut calls) = mpsc::unbounded_channel::<Vec<u8>>();
    let board = Arc::new(Switchboard::new(sender));
    tokio::spawn(async move {
        let mut stdin = stdin;
        while let Some(frame) = calls.recv().await {
            if frames::write(&mut stdin, &frame).await.is_err() {
                return;
            }
        }
    });
    let answers = Arc::downgrade(&board);
    tokio::spawn(async move {
        let mut stdout = stdout;
        while let Ok(frame) = frames::read(&mut stdout).await {
            let Some(board) = answers.upgrade() else { return };
            board.answered(&frame);
        }
        if let Some(board) = answers.upgrade() {
            board.hang_up();
        }
    });
    board
}
