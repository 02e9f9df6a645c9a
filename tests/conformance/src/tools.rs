//! The toy host functions of the cases, with the secrets that no guest may see.
//!
//! Answers to: `stage`. Must not: check arguments: what reaches a body has passed the bridge, and each call is written
//! down so that the suite can tell.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_bridge::{Boxed, HostError, HostFunction, Permitted, Registry};
use ringfence_types::{Default as ParameterDefault, FunctionSpec, Parameter, ParameterKind, Value};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde_json::{Value as Json, json};

/// What a tool's module holds beside the tool.
pub const API_KEY: &str = "CANARY-KEY-3d90be";
/// What `get_secret` gives.
pub const SECRET: &str = "CANARY-SECRET-77aa";

/// One call that reached a body.
#[derive(Debug, Clone)]
pub struct Called {
    /// The tool.
    pub tool: String,
    /// Its arguments by name.
    pub arguments: Vec<(String, Value)>,
}

/// The tools of one suite, and what was called.
#[derive(Debug, Clone)]
pub struct Toolbox {
    work: PathBuf,
    calls: Arc<Mutex<Vec<Called>>>,
}

impl Toolbox {
    /// Tools whose `read_file` reads below `work`.
    pub fn new(work: &Path) -> Self {
        Self { work: work.to_owned(), calls: Arc::default() }
    }

    /// The calls so far, which are forgotten.
    pub fn take_calls(&self) -> Vec<Called> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// These tools, as they are offered to a session.
    pub fn registry<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Registry, String> {
        let mut registry = Registry::new();
        for name in names {
            let spec = spec(name).ok_or_else(|| format!("the suite has no tool `{name}`"))?;
            let tool = Tool { spec, toolbox: self.clone() };
            registry.add(Arc::new(tool)).map_err(|error| error.to_string())?;
        }
        Ok(registry)
    }
}

struct Tool {
    spec: FunctionSpec,
    toolbox: Toolbox,
}

impl HostFunction for Tool {
    fn spec(&self) -> &FunctionSpec {
        &self.spec
    }

    fn call(&self, call: Permitted) -> Boxed<'_, Result<Value, HostError>> {
        let called = Called { tool: self.spec.name.clone(), arguments: call.arguments().to_vec() };
        self.toolbox.calls.lock().unwrap_or_else(PoisonError::into_inner).push(called.clone());
        let work = self.toolbox.work.clone();
        Box::pin(async move {
            if let ("slow" | "aslow", Some(Value::Int(millis))) = (called.tool.as_str(), called.get("ms")) {
                let wait = Duration::from_millis(u64::try_from(*millis).unwrap_or_default());
                tokio::time::sleep(wait).await;
                return Ok(Value::Int(*millis));
            }
            body(&called, &work)
        })
    }
}

impl Called {
    /// An argument by name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.arguments.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::Str(text)) => text,
            _ => "",
        }
    }
}

fn body(call: &Called, work: &Path) -> Result<Value, HostError> {
    match call.tool.as_str() {
        "get_weather" => Ok(Value::Dict(vec![
            (Value::from("city"), Value::from(call.text("city"))),
            (Value::from("temp"), Value::Float(21.5)),
            (Value::from("unit"), Value::from("C")),
        ])),
        "search" => {
            let limit = if let Some(Value::Int(limit)) = call.get("limit") { *limit } else { 5 };
            let hits = (0..limit).map(|at| Value::from(format!("{} #{at}", call.text("q"))));
            Ok(Value::List(hits.collect()))
        }
        "send_email" => Ok(Value::from("sent")),
        "echo" => Ok(call.get("x").cloned().unwrap_or(Value::None)),
        "read_file" => read_below(work, call.text("path")),
        "fetch_url" => Err(HostError::public("PermissionError", "network denied")),
        "callback" => Err(HostError::hidden("TypeError")),
        "get_secret" => Ok(Value::from(SECRET)),
        "fail" => Err(failure(call.text("kind"))),
        "run_command" => Ok(Value::from("ran")),
        _ => Err(HostError::hidden("RuntimeError")),
    }
}

/// How `fail` fails. The messages hold the key and are hidden; one is marked safe.
fn failure(kind: &str) -> HostError {
    match kind {
        "value" => HostError::hidden("ValueError"),
        "chained" => HostError::hidden("RuntimeError"),
        "http" => HostError::hidden("HttpError"),
        "os" => HostError::hidden("FileNotFoundError"),
        "public" => HostError::public("ValueError", "city is unknown"),
        _ => HostError::hidden("Custom"),
    }
}

/// Reads a regular file below `work`: no link leads out, no special file is opened.
fn read_below(work: &Path, path: &str) -> Result<Value, HostError> {
    let refused = || HostError::public("PermissionError", "outside work dir");
    let below = path.strip_prefix("/workspace/").unwrap_or(path);
    let root = rustix::fs::open(work, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(|_| refused())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(root, below, flags, Mode::empty(), within).map_err(|_| refused())?;
    let file = std::fs::File::from(file);
    if !file.metadata().is_ok_and(|data| data.is_file()) {
        return Err(refused());
    }
    let mut text = String::new();
    file.take(1 << 20).read_to_string(&mut text).map_err(|_| refused())?;
    Ok(Value::Str(text))
}

fn parameter(name: &str, annotation: &str, schema: Json) -> Parameter {
    Parameter {
        name: name.to_owned(),
        kind: ParameterKind::PositionalOrKeyword,
        annotation: Some(annotation.to_owned()),
        schema: Some(schema),
        default: None,
    }
}

fn optional(parameter: Parameter, default: &str) -> Parameter {
    Parameter { default: Some(ParameterDefault { source: default.to_owned() }), ..parameter }
}

fn text(name: &str, schema: Json) -> Parameter {
    parameter(name, "str", schema)
}

/// The declaration of a tool.
fn spec(name: &str) -> Option<FunctionSpec> {
    let short = json!({"type": "string", "minLength": 1, "maxLength": 1000});
    let millis = json!({"type": "integer", "minimum": 0, "maximum": 5000});
    let parameters = match name {
        "get_weather" => vec![text("city", short)],
        "search" => {
            let limit = json!({"type": "integer", "minimum": 1, "maximum": 50});
            vec![text("q", short), optional(parameter("limit", "int", limit), "5")]
        }
        "send_email" => vec![
            text("to", json!({"type": "string", "pattern": r"^[^\s@]+@[^\s@]+$", "maxLength": 254})),
            text("subject", json!({"type": "string", "maxLength": 200})),
            text("body", json!({"type": "string", "maxLength": 100_000})),
        ],
        "echo" => vec![optional(parameter("x", "object", json!({})), "None")],
        "read_file" => vec![text("path", json!({"type": "string", "minLength": 1, "maxLength": 4096}))],
        "fetch_url" => vec![text("url", json!({"type": "string", "format": "uri", "maxLength": 4096}))],
        "callback" => vec![parameter("fn", "object", json!({})), parameter("x", "object", json!({}))],
        "get_secret" => vec![text("name", short)],
        "fail" => vec![text("kind", short)],
        "slow" | "aslow" => vec![parameter("ms", "int", millis)],
        "run_command" => vec![parameter("argv", "list[str]", json!({"type": "array", "items": {"type": "string"}}))],
        _ => return None,
    };
    Some(FunctionSpec { parameters, is_async: name == "aslow", ..FunctionSpec::new(name) })
}
