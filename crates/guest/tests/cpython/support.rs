//! A host for one session of native CPython: it starts the machine's Python with the driver, and writes down what comes.
//!
//! Answers to: the tests beside it. Must not: know the driver by anything but its frames and its two pipes.

#![expect(clippy::panic, clippy::indexing_slicing, reason = "this is a test's host: it fails the test")]

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ringfence_types::{
    Call, CallId, FileOp, FileReply, FunctionSpec, GuestError, GuestException, GuestPath, Parameter, ParameterKind,
    Record, RecordKind, Source, Stream, Value, ValueBudget,
};
use ringfence_wire::{FromGuest, HEADER, Header, Setup, ToGuest, VERSION, from_guest, from_guest_cap};

const START: &str = "import os, sys
os.dup2(0, 3); os.dup2(os.open('/dev/null', os.O_RDONLY), 0)
sys.path.insert(0, sys.argv[1])
from ringfence_guest import session
session.warm(sys.argv[2]); session.reseed(); session.serve(3)";

/// Where the package is; a test holds that it is what the crate carries.
pub const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cpython");

/// A folder that goes away with its owner.
pub struct Folder(pub PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ringfence-cpython-{}-{number}", std::process::id()));
        std::fs::create_dir_all(path.join("workspace")).expect("a folder");
        Self(path.canonicalize().expect("it is there"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a snippet did.
#[derive(Debug, Default)]
pub struct Ran {
    pub ended: String,
    pub out: String,
    pub err: String,
    /// Both streams in the order in which the host saw them.
    pub both: String,
    pub log: Vec<String>,
}

/// A session.
pub struct Guest {
    child: Child,
    socket: UnixStream,
    pipes: (ChildStdout, ChildStderr),
    incoming: Vec<u8>,
    deferred: Vec<Call>,
    ran: Ran,
    pub folder: Folder,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The interpreter that is tested.
pub fn python() -> String {
    std::env::var("RINGFENCE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

impl Guest {
    pub fn new() -> Self {
        Self::with(functions())
    }

    pub fn with(functions: Vec<FunctionSpec>) -> Self {
        Self::made_ahead("[]", functions)
    }

    /// Warmed with the functions of these declarations, and then told of those.
    pub fn made_ahead(declarations: &str, functions: Vec<FunctionSpec>) -> Self {
        let folder = Folder::new();
        let (socket, theirs) = UnixStream::pair().expect("a pair of sockets");
        // Nothing here takes so long; a driver that says nothing must fail the test, not hang it.
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut child = Command::new(python())
            .args(["-c", START])
            .args([DRIVER, declarations])
            .current_dir(folder.0.join("workspace"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("MPLBACKEND", "Agg")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let pipes = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        rustix::io::ioctl_fionbio(&pipes.0, true).expect("a pipe");
        rustix::io::ioctl_fionbio(&pipes.1, true).expect("a pipe");
        let mut guest =
            Self { child, socket, pipes, incoming: Vec::new(), deferred: Vec::new(), ran: Ran::default(), folder };
        assert_eq!(guest.frame(), Some(FromGuest::Ready(VERSION)), "{}", guest.ran.err);
        guest.send(&ToGuest::Setup(Setup { version: VERSION, memory: 1 << 28, workspace: 1 << 20, functions }));
        guest
    }

    pub fn send(&mut self, frame: &ToGuest) {
        self.send_bytes(&frame.encode());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the guest takes it");
    }

    /// The next frame, or `None` where the guest has gone. What stands in the pipes by then came before it.
    pub fn frame(&mut self) -> Option<FromGuest> {
        loop {
            if let Some(header) = self.incoming.first_chunk::<HEADER>() {
                let header = Header::parse(*header, from_guest_cap).expect("a header of ours");
                if let Some(body) = self.incoming.get(HEADER..HEADER + header.length) {
                    let frame = from_guest(header.kind, body, ValueBudget::DEFAULT).expect("a frame of ours");
                    self.incoming.drain(..HEADER + header.length);
                    self.drain();
                    return Some(frame);
                }
            }
            let mut buffer = vec![0; 1 << 16];
            match self.socket.read(&mut buffer) {
                Ok(0) => {
                    self.drain();
                    return None;
                }
                Ok(count) => self.incoming.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => {
                    self.drain();
                    panic!("the guest says nothing: {error}; it said {:?}", self.ran)
                }
            }
        }
    }

    /// The host goes.
    pub fn hang_up(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).expect("a socket");
    }

    /// How the process ended, once it has.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().expect("it can be waited for").code()
    }

    pub fn drain(&mut self) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = self.pipes.0.read(&mut buffer) {
            self.ran.printed(Stream::Stdout, &buffer[..count]);
        }
        while let Ok(count @ 1..) = self.pipes.1.read(&mut buffer) {
            self.ran.printed(Stream::Stderr, &buffer[..count]);
        }
    }

    pub fn run(&mut self, code: &str) -> Ran {
        self.run_source(Source::new(code))
    }

    pub fn run_source(&mut self, source: Source) -> Ran {
        self.ran = Ran::default();
        self.deferred.clear();
        self.send(&ToGuest::Feed(source));
        loop {
            let ended = match self.frame() {
                Some(frame) => self.react(frame),
                None => Some("gone".to_owned()),
            };
            if let Some(ended) = ended {
                let mut ran = std::mem::take(&mut self.ran);
                ran.ended = ended;
                return ran;
            }
        }
    }

    /// Does what the guest asks. How the snippet ended, where it did.
    fn react(&mut self, frame: FromGuest) -> Option<String> {
        match frame {
            FromGuest::Print(stream, bytes) => self.ran.printed(stream, &bytes),
            FromGuest::Shown(bundle) => {
                let rows: Vec<String> = bundle.0.iter().map(|(kind, data)| shown(kind, data)).collect();
                self.ran.both += "[shown]";
                self.ran.log.push(format!("show {}", rows.join(", ")));
            }
            FromGuest::Call(call) => self.call(call),
            FromGuest::Await(ids) => self.awaited(&ids),
            FromGuest::Sync => self.send(&ToGuest::Synced),
            FromGuest::Done(value) => return Some(format!("{value:?}")),
            FromGuest::NoValue(why) => return Some(format!("no value: {why}")),
            FromGuest::Raised(error) => return Some(raised(&error)),
            FromGuest::Limit(kind, reached) => return Some(format!("limit {kind} {reached}")),
            FromGuest::Unsupported(what, line) => self.ran.log.push(format!("unsupported {what} {line:?}")),
            other => panic!("{other:?} is not for a running snippet"),
        }
        None
    }

    fn call(&mut self, call: Call) {
        let kind = if call.deferred { "defer" } else { "call" };
        self.ran.log.push(format!("{kind} {} {:?} {:?}", call.function, call.args, call.kwargs));
        self.ran.both += "[call]";
        match call.function.as_str() {
            "look" => {
                let path = GuestPath::resolve("/proc/version").expect("a path");
                self.send(&ToGuest::Files(FileOp::Get { path }));
                let reply = self.frame();
                assert!(matches!(reply, Some(FromGuest::Filed(FileReply::Content(_)))), "{reply:?}");
                self.send(&ToGuest::Snapshot);
                self.send(&ToGuest::Answer(call.id, Ok(Value::None)));
            }
            _ if call.deferred => self.deferred.push(call),
            _ => self.send(&ToGuest::Answer(call.id, answer(&call))),
        }
    }

    /// The last that was asked for is answered first; `never` is not answered at all.
    fn awaited(&mut self, ids: &[CallId]) {
        self.ran.log.push(format!("await {}", ids.len()));
        let at = self.deferred.iter().rposition(|call| ids.contains(&call.id) && call.function != "never");
        if let Some(at) = at {
            let call = self.deferred.remove(at);
            self.send(&ToGuest::Answer(call.id, answer(&call)));
        }
    }

    pub fn file(&mut self, op: FileOp) -> String {
        self.send(&ToGuest::Files(op));
        let root = self.folder.0.display().to_string();
        let text = match self.frame() {
            Some(FromGuest::Filed(FileReply::Fault(fault))) => fault.to_string(),
            Some(FromGuest::Filed(FileReply::Content(content))) => format!("{:?}", String::from_utf8_lossy(&content)),
            Some(FromGuest::Filed(FileReply::Entries(entries))) => {
                let row = |entry: &ringfence_types::FileEntry| {
                    format!("{} {}{}", entry.path, entry.size, if entry.folder { "/" } else { "" })
                };
                entries.iter().map(row).collect::<Vec<_>>().join(", ")
            }
            other => format!("{other:?}"),
        };
        text.replace(&root, "")
    }

    pub fn path(&self, name: &str) -> GuestPath {
        GuestPath::resolve(&self.folder.0.join("workspace").join(name).display().to_string()).expect("a good path")
    }

    /// The value, or the error, of a snippet.
    #[track_caller]
    pub fn check(&mut self, code: &str, want: &str) {
        let ran = self.run(code);
        assert_eq!(ran.ended, want, "{code}\nstdout: {}\nstderr: {}", ran.out, ran.err);
    }

    /// What a snippet prints.
    #[track_caller]
    pub fn prints(&mut self, code: &str, want: &str) {
        let ran = self.run(code);
        assert_eq!(ran.out, want, "{code}\n{}\nstderr: {}", ran.ended, ran.err);
    }

    /// What the host sees in order.
    #[track_caller]
    pub fn sees(&mut self, code: &str, want: &str) {
        let ran = self.run(code);
        assert_eq!(ran.both, want, "{code}\n{}", ran.ended);
    }

    /// What the host is asked.
    #[track_caller]
    pub fn asks(&mut self, code: &str, want: &[&str]) {
        let ran = self.run(code);
        assert_eq!(ran.log, want, "{code}\n{}\nstdout: {}\nstderr: {}", ran.ended, ran.out, ran.err);
    }
}

impl Ran {
    fn printed(&mut self, stream: Stream, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        self.both.push_str(&text);
        match stream {
            Stream::Stdout => self.out.push_str(&text),
            Stream::Stderr => self.err.push_str(&text),
        }
    }
}

fn shown(kind: &str, data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) if text.len() < 200 => format!("{kind}={text}"),
        _ if data.starts_with(b"\x89PNG") => format!("{kind}=a picture"),
        _ => format!("{kind}={} bytes", data.len()),
    }
}

pub fn raised(error: &GuestException) -> String {
    let mut text = format!("{}: {}", error.kind, error.message);
    for frame in &error.frames {
        let source = frame.source.as_deref().unwrap_or("?");
        text += &format!(" @{}:{} {} `{source}`", frame.file, frame.line, frame.function);
    }
    for note in &error.notes {
        text += &format!(" note {note}");
    }
    if let Some(code) = error.exit_code {
        text += &format!(" exit {code}");
    }
    if let Some(cause) = &error.cause {
        text += &format!(" <- {}", raised(cause));
    }
    text
}

fn answer(call: &Call) -> Result<Value, GuestError> {
    let fail = |exception: &str, message: &str| {
        Err(GuestError { exception: exception.to_owned(), message: message.to_owned() })
    };
    match call.function.as_str() {
        "fails" | "fails_later" => match call.args.first() {
            Some(Value::Str(kind)) => fail(kind, "no luck"),
            _ => fail("ValueError", "what?"),
        },
        "record" => Ok(record(RecordKind::Dataclass, "Point", &[("x", Value::Int(1)), ("y", Value::Int(2))])),
        "row" => Ok(record(RecordKind::NamedTuple, "Row", &[("id", Value::Int(7)), ("name", Value::from("a"))])),
        "typed" => Ok(record(RecordKind::TypedDict, "Movie", &[("title", Value::from("m"))])),
        "moment" => Ok(Value::DateTime("2024-05-06T07:08:09+02:00".to_owned())),
        "odd" => Ok(Value::Dict(vec![(Value::List(vec![]), Value::None)])),
        _ => Ok(call.args.first().or(call.kwargs.first().map(|(_, value)| value)).cloned().unwrap_or(Value::None)),
    }
}

pub fn record(kind: RecordKind, name: &str, fields: &[(&str, Value)]) -> Value {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Value::Record(Box::new(Record { kind, name: name.to_owned(), fields }))
}

pub fn functions() -> Vec<FunctionSpec> {
    let parameter = |name: &str, kind, default: Option<&str>| Parameter {
        name: name.to_owned(),
        kind,
        annotation: Some("int".to_owned()),
        schema: None,
        default: default.map(|source| ringfence_types::Default { source: source.to_owned() }),
    };
    let any = |name: &str, is_async| FunctionSpec {
        parameters: vec![Parameter { annotation: None, ..parameter("args", ParameterKind::VarPositional, None) }],
        is_async,
        ..FunctionSpec::new(name)
    };
    let full = FunctionSpec {
        doc: "Looks a thing up.".to_owned(),
        parameters: vec![
            parameter("a", ParameterKind::PositionalOnly, None),
            parameter("b", ParameterKind::PositionalOrKeyword, Some("10")),
            parameter("c", ParameterKind::KeywordOnly, Some("None")),
        ],
        returns: Some("dict[str, int]".to_owned()),
        ..FunctionSpec::new("look_up")
    };
    let plain = ["same", "fails", "record", "row", "typed", "moment", "odd", "look", "open"];
    let later = ["later", "never", "fails_later"];
    let plain = plain.map(|name| any(name, false));
    let later = later.map(|name| any(name, true));
    [full].into_iter().chain(plain).chain(later).collect()
}
