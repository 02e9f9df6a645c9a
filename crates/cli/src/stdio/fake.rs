//! A tier for the tests: runs nothing, and does what the statements of a snippet name.
//!
//! Answers to: `tests`. Must not: be in a build that is not a test. Statements, one a line: `print('x')`, `byte(195)`,
//! `show()`, `forever()`, `die()`, `panic()`, `boom()`, `count()`, the name of an input, a whole number, and a call of
//! a host function with whole numbers, `f(1, b=2)`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ringfence_audit::{Log, LogOptions, MemorySink};
use ringfence_policy::Grant;
use ringfence_session::{Engine, Parts, SnapshotKey};
use ringfence_tier::{
    Boxed, Capabilities, Cell, Enforcement, EngineInfo, Event, Killer, Meter, Probe, Tier, TierFault, Turn,
};
use ringfence_types::{
    Call, CallId, Engine as Interpreter, FileEntry, FileFault, FileOp, FileReply, GuestException, GuestPath,
    MimeBundle, Source, Stream, Strength, TierName, Value,
};
use tokio::sync::Notify;

/// An engine whose only tier is the fake one, and the number of its cells that exist.
pub(super) fn engine() -> (Engine, Arc<AtomicUsize>) {
    let alive = Arc::new(AtomicUsize::new(0));
    let log = Log::open(Box::new(MemorySink::new()), LogOptions::default()).expect("memory takes a log");
    let tier = FakeTier { capabilities: capabilities(), alive: Arc::clone(&alive) };
    let parts = Parts {
        tiers: vec![Arc::new(tier)],
        log: Arc::new(log),
        snapshot_key: SnapshotKey::new([7; 32]),
        environments: None,
    };
    (Engine::new(parts), alive)
}

fn capabilities() -> Capabilities {
    Capabilities {
        engines: vec![EngineInfo { engine: Interpreter::Monty, version: "0", snapshot: true }],
        workspace: true,
        mounts_ro: true,
        ..Capabilities::closed(TierName::Embedded, 0, Strength::Process)
    }
}

struct FakeTier {
    capabilities: Capabilities,
    alive: Arc<AtomicUsize>,
}

impl Tier for FakeTier {
    fn name(&self) -> TierName {
        TierName::Embedded
    }
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async { Probe::Ready(Strength::Process) })
    }
    fn missing<'a>(&'a self, _: &'a Grant, _: &'a [&'a str]) -> Boxed<'a, Option<String>> {
        Box::pin(async { None })
    }
    fn open<'a>(&'a self, _: &'a Grant, _: Option<Interpreter>) -> Boxed<'a, Result<Box<dyn Cell>, TierFault>> {
        self.alive.fetch_add(1, Ordering::SeqCst);
        let cell = FakeCell {
            enforcement: Enforcement { strength: Strength::Process, lines: Vec::new() },
            alive: Arc::clone(&self.alive),
            killed: Arc::default(),
            statements: VecDeque::new(),
            inputs: Vec::new(),
            last: Value::None,
            calls: 0,
            count: 0,
            files: BTreeMap::new(),
        };
        Box::pin(async { Ok(Box::new(cell) as Box<dyn Cell>) })
    }
}

struct FakeCell {
    enforcement: Enforcement,
    alive: Arc<AtomicUsize>,
    killed: Arc<(AtomicBool, Notify)>,
    statements: VecDeque<String>,
    inputs: Vec<(String, Value)>,
    last: Value,
    calls: u64,
    count: u8,
    files: BTreeMap<GuestPath, Vec<u8>>,
}

impl Drop for FakeCell {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Cell for FakeCell {
    fn step(&mut self, turn: Turn) -> Boxed<'_, Result<Event, TierFault>> {
        Box::pin(self.turn(turn))
    }
    fn enforced(&self) -> &Enforcement {
        &self.enforcement
    }
    fn killer(&self) -> Killer {
        let killed = Arc::clone(&self.killed);
        Killer::new(move || {
            killed.0.store(true, Ordering::SeqCst);
            killed.1.notify_one();
        })
    }
    fn meter(&self) -> Meter {
        Meter::new(|| Duration::ZERO, || 0)
    }
}

impl FakeCell {
    async fn turn(&mut self, turn: Turn) -> Result<Event, TierFault> {
        match turn {
            Turn::Feed(Source { code, inputs, .. }) => {
                self.statements = code.lines().map(str::to_owned).collect();
                (self.inputs, self.last) = (inputs, Value::None);
                self.go_on().await
            }
            Turn::Answer(_, Ok(value)) => {
                self.statements.pop_front();
                self.last = value;
                self.go_on().await
            }
            Turn::Answer(_, Err(error)) => Ok(raised(&error.exception, &error.message)),
            Turn::Continue => self.go_on().await,
            Turn::Snapshot => Ok(Event::Snapshotted(vec![self.count])),
            Turn::Restore(_, state) => {
                self.count = state[0];
                Ok(Event::Restored)
            }
            Turn::Exec(_) => Ok(Event::Exited(0)),
            Turn::Files(op) => Ok(Event::Filed(self.file(op))),
        }
    }

    async fn go_on(&mut self) -> Result<Event, TierFault> {
        while let Some(statement) = self.statements.front().cloned() {
            let (name, arguments) = statement.trim_end_matches(')').split_once('(').unwrap_or((&statement, ""));
            match (name, arguments) {
                ("forever", _) | ("waiting", _) => return self.wait().await,
                _ => self.statements.pop_front(),
            };
            match name {
                "print" => return Ok(print(arguments.trim_matches('\'').as_bytes())),
                "byte" => return Ok(print(&[arguments.parse().expect("a byte")])),
                "show" => return Ok(Event::Shown(MimeBundle(vec![("text/plain".to_owned(), b"hi".to_vec())]))),
                "die" => return Err(TierFault::Died { tier: TierName::Embedded }),
                "panic" => panic!("as asked"),
                "boom" => return Ok(raised("ZeroDivisionError", "division by zero")),
                "count" => {
                    self.count += 1;
                    self.last = Value::Int(self.count.into());
                }
                _ if statement.contains('(') => return Ok(self.call(name, arguments)),
                _ => self.last = self.named(name),
            }
        }
        Ok(Event::Done(self.last.clone()))
    }

    async fn wait(&self) -> Result<Event, TierFault> {
        while !self.killed.0.load(Ordering::SeqCst) {
            self.killed.1.notified().await;
        }
        Err(TierFault::Killed { tier: TierName::Embedded })
    }

    fn named(&self, name: &str) -> Value {
        let input = self.inputs.iter().find(|(input, _)| input == name).map(|(_, value)| value.clone());
        input.unwrap_or_else(|| Value::Int(name.parse().expect("an input or a number")))
    }

    /// A call; until its answer comes, there is nothing to go on with.
    fn call(&mut self, function: &str, arguments: &str) -> Event {
        self.calls += 1;
        self.statements.push_front("waiting()".to_owned());
        let mut call = Call {
            id: CallId(self.calls),
            function: function.to_owned(),
            args: Vec::new(),
            kwargs: Vec::new(),
            deferred: false,
        };
        for argument in arguments.split(", ").filter(|argument| !argument.is_empty()) {
            match argument.split_once('=') {
                Some((name, number)) => call.kwargs.push((name.to_owned(), self.named(number))),
                None => call.args.push(self.named(argument)),
            }
        }
        Event::Call(call)
    }

    fn file(&mut self, op: FileOp) -> FileReply {
        let missing = |path: &GuestPath| FileReply::Fault(FileFault::NotFound(path.as_str().to_owned()));
        match op {
            FileOp::Put { path, content, .. } => {
                self.files.insert(path, content);
                FileReply::Done
            }
            FileOp::Get { path } => match self.files.get(&path) {
                Some(content) => FileReply::Content(content.clone()),
                None => missing(&path),
            },
            FileOp::List { .. } => FileReply::Entries(
                self.files
                    .iter()
                    .map(|(path, content)| FileEntry { path: path.clone(), size: content.len() as u64, folder: false })
                    .collect(),
            ),
            FileOp::Remove { path } => match self.files.remove(&path) {
                Some(_) => FileReply::Done,
                None => missing(&path),
            },
        }
    }
}

fn print(bytes: &[u8]) -> Event {
    Event::Print(Stream::Stdout, bytes.to_vec())
}

fn raised(kind: &str, message: &str) -> Event {
    Event::Raised(GuestException {
        kind: kind.to_owned(),
        message: message.to_owned(),
        frames: Vec::new(),
        cause: None,
        notes: Vec::new(),
        exit_code: None,
    })
}
