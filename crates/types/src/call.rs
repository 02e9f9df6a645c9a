//! What passes between a cell and its host: sources, calls, errors, shown results.

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// Which interpreter of the embedded tier runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Starts in microseconds, knows a subset of Python, can be snapshotted.
    Monty,
    /// Knows most of the language and the standard library.
    Rustpython,
}

impl Engine {
    /// The name as written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Monty => "monty",
            Self::Rustpython => "rustpython",
        }
    }
}

/// One snippet for a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Python source, valid UTF-8.
    pub code: String,
    /// The file name that tracebacks show.
    pub file: String,
    /// Names set in the guest before the snippet runs.
    pub inputs: Vec<(String, Value)>,
    /// What `input()` and `sys.stdin` read.
    pub stdin: String,
    /// The engine that was chosen for it, in tiers that have more than one.
    pub engine: Option<Engine>,
    /// Nothing follows it in its session: what it leaves to `atexit` runs at its end.
    pub last: bool,
}

impl Source {
    /// A snippet called `main.py` without inputs.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            file: "main.py".to_owned(),
            inputs: Vec::new(),
            stdin: String::new(),
            engine: None,
            last: false,
        }
    }
}

/// Number of a host-function call, unique in one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallId(pub u64);

/// A host-function call that the guest asks for. Nothing in it is trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its number.
    pub id: CallId,
    /// The name the guest gave.
    pub function: String,
    /// Positional arguments.
    pub args: Vec<Value>,
    /// Keyword arguments, in order.
    pub kwargs: Vec<(String, Value)>,
    /// The guest goes on without the answer until it awaits it.
    pub deferred: bool,
}

/// The error that a host function's failure becomes inside the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestError {
    /// A Python exception type, such as `ValueError`; unknown ones become `RuntimeError`.
    pub exception: String,
    /// The message, already safe to show to the guest.
    pub message: String,
}

/// One line of a traceback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TraceFrame {
    /// The guest's file name.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// The function, or `<module>`.
    pub function: String,
    /// The source line, where known.
    pub source: Option<String>,
}

/// An exception that ended a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GuestException {
    /// The exception's class name, such as `ZeroDivisionError`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its `str()`.
    pub message: String,
    /// Outermost first.
    pub frames: Vec<TraceFrame>,
    /// The `__cause__`, or the `__context__` where it was not suppressed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<Box<GuestException>>,
    /// Notes added by `add_note`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// The code of a `SystemExit`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
}

/// Which of the guest's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A rich result: the same thing in several formats, by MIME type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MimeBundle(pub Vec<(String, Vec<u8>)>);
