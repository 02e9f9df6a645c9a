//! Requests as the client writes them, read strictly: what a method does not know is an error, not ignored.
//!
//! Answers to: `connection`. Must not: act on anything.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringfence_analysis::input_name;
use ringfence_session::MOST_BRANCHES;
use ringfence_types::json::from_json;
use ringfence_types::{Command, FunctionSpec, GuestPath, Source, Stdin, Value};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::fault::Fault;
use super::frames::{FrameFault, Object};

/// A frame from the client.
pub(super) enum Frame {
    Request { id: u64, method: Option<String>, params: Json },
    Answer { number: Option<u64>, body: Object },
}

impl Frame {
    pub fn read(mut frame: Object) -> Result<Self, FrameFault> {
        if let Some(number) = frame.remove("answer") {
            return Ok(Self::Answer { number: number.as_u64(), body: frame });
        }
        let id = frame.get("id").and_then(Json::as_u64).ok_or(FrameFault::Neither)?;
        let method = frame.get("method").and_then(Json::as_str).map(str::to_owned);
        Ok(Self::Request { id, method, params: frame.remove("params").unwrap_or_else(|| Json::Object(Object::new())) })
    }
}

/// What a client asks for.
pub(super) enum Method {
    Hello,
    /// A session, from a snapshot where there is one.
    Open(Box<Open>, Option<Vec<u8>>),
    Cancel(String),
    Close(String),
    /// A session stands still, or goes on.
    Still(String, bool),
    /// What a session does in its turn.
    Task(String, Task),
}

/// What one session does, one after the other.
pub(super) enum Task {
    Run(Box<Source>),
    Exec(Box<Command>),
    Snapshot,
    Fork(usize),
    Put(GuestPath, Vec<u8>),
    Get(GuestPath),
    List(GuestPath),
    Remove(GuestPath),
    Changes(Option<PathBuf>),
    Changed(GuestPath),
    Close,
}

impl Method {
    const ALL: [&str; 17] = [
        "hello", "open", "run", "exec", "snapshot", "restore", "fork", "put", "get", "list", "remove", "changes",
        "changed", "freeze", "thaw", "cancel", "close",
    ];

    /// Reads a request by its method's rules.
    pub fn read(method: Option<&str>, given: Json) -> Result<Self, Fault> {
        let method = method.ok_or_else(|| Fault::request("a request needs the text `method`"))?;
        let at = |task: fn(GuestPath) -> Task| {
            move |given| params::<At>(method, given).and_then(|at| Ok(Self::Task(at.session, task(path(&at.path)?))))
        };
        match method {
            "hello" => params::<Hello>(method, given).map(|_| Self::Hello),
            "open" => Ok(Self::Open(params(method, given)?, None)),
            "restore" => restore(given),
            "cancel" => params::<Named>(method, given).map(|named| Self::Cancel(named.session)),
            "close" => params::<Named>(method, given).map(|named| Self::Close(named.session)),
            "run" => params::<Run>(method, given)?.task(),
            "exec" => params::<Exec>(method, given)?.task(),
            "snapshot" => params::<Named>(method, given).map(|named| Self::Task(named.session, Task::Snapshot)),
            "fork" => params::<Fork>(method, given)?.task(),
            "put" => params::<Put>(method, given)?.task(),
            "get" => at(Task::Get)(given),
            "list" => at(Task::List)(given),
            "remove" => at(Task::Remove)(given),
            "changed" => at(Task::Changed)(given),
            "changes" => {
                params::<Differing>(method, given).map(|given| Self::Task(given.session, Task::Changes(given.folder)))
            }
            "freeze" => params::<Named>(method, given).map(|named| Self::Still(named.session, true)),
            "thaw" => params::<Named>(method, given).map(|named| Self::Still(named.session, false)),
            other => {
                let other: String = other.chars().take(80).collect();
                let known = Self::ALL.join(", ");
                Err(Fault::request(format!("there is no method `{other}`")).hint(format!("use one of: {known}")))
            }
        }
    }
}

fn params<T: DeserializeOwned>(method: &str, given: Json) -> Result<T, Fault> {
    serde_json::from_value(given).map_err(|error| Fault::request(format!("`{method}`: {error}")))
}

fn bytes(name: &str, text: &str) -> Result<Vec<u8>, Fault> {
    STANDARD.decode(text).map_err(|_| Fault::request(format!("`{name}` is not base64")))
}

fn path(text: &str) -> Result<GuestPath, Fault> {
    Ok(GuestPath::resolve(text)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    #[serde(rename = "version")]
    _version: u64,
}

/// The parameters of `open`; `restore` takes the same, and `snapshot`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    #[serde(default)]
    pub policy: Option<PolicyFrom>,
    #[serde(default)]
    pub tier: Option<String>,
    #[serde(default)]
    pub engine: Option<String>,
    #[serde(default)]
    pub tenant: Option<String>,
    #[serde(default)]
    pub functions: Vec<FunctionSpec>,
    #[serde(default)]
    pub limits: Object,
    #[serde(default)]
    pub approvals: bool,
    /// Whether `output` events are wanted.
    #[serde(default = "yes")]
    pub output: bool,
    /// Whether `shown` events are wanted.
    #[serde(default = "yes")]
    pub shown: bool,
    /// Whether `threshold` events are wanted.
    #[serde(default)]
    pub thresholds: bool,
}

fn yes() -> bool {
    true
}

/// Where the policy comes from.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PolicyFrom {
    Path(String),
    Text(String),
}

fn restore(mut given: Json) -> Result<Method, Fault> {
    let snapshot = given.as_object_mut().and_then(|given| given.remove("snapshot"));
    let Some(Json::String(snapshot)) = snapshot else {
        return Err(Fault::request("`restore`: the text `snapshot` is missing"));
    };
    Ok(Method::Open(params("restore", given)?, Some(bytes("snapshot", &snapshot)?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    session: String,
    code: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    inputs: Object,
    #[serde(default)]
    stdin: String,
}

impl Run {
    fn task(self) -> Result<Method, Fault> {
        let input = |(name, value): (String, Json)| -> Result<(String, Value), Fault> {
            let as_read = input_name(&name).map_err(|why| {
                let shown: String = name.chars().take(80).collect();
                Fault::request(format!("the input `{shown}` {why}"))
            })?;
            let value = from_json(&value, &name).map_err(|error| Fault::request(error.to_string()))?;
            Ok((as_read, value))
        };
        let inputs = self.inputs.into_iter().map(input).collect::<Result<_, _>>()?;
        let file = self.file.unwrap_or_else(|| "main.py".to_owned());
        let source = Source { file, inputs, stdin: self.stdin, ..Source::new(self.code) };
        Ok(Method::Task(self.session, Task::Run(Box::new(source))))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exec {
    session: String,
    command: Vec<String>,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    folder: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

impl Exec {
    fn task(self) -> Result<Method, Fault> {
        let environment = self.environment.into_iter().collect();
        let command = Command::new(self.command).and_then(|command| command.with_environment(environment));
        let command = command.map_err(|fault| Fault::request(fault.to_string()))?;
        let mut command = command.reading(Stdin::Bytes(bytes("stdin", &self.stdin)?));
        command.folder = self.folder.as_deref().map(path).transpose()?;
        Ok(Method::Task(self.session, Task::Exec(Box::new(command))))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    session: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Differing {
    session: String,
    /// Where the content of added and changed files is to be written: a new or empty folder of the host's.
    #[serde(default)]
    folder: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fork {
    session: String,
    count: u64,
}

impl Fork {
    fn task(self) -> Result<Method, Fault> {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        if !(1..=MOST_BRANCHES).contains(&count) {
            let why = format!("`count` is {}; a fork makes 1 to {MOST_BRANCHES} sessions", self.count);
            return Err(Fault::request(why));
        }
        Ok(Method::Task(self.session, Task::Fork(count)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    session: String,
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    session: String,
    path: String,
    content: String,
}

impl Put {
    fn task(self) -> Result<Method, Fault> {
        Ok(Method::Task(self.session, Task::Put(path(&self.path)?, bytes("content", &self.content)?)))
    }
}
