//! The stage of every story: fake tiers, one trace, and a log in memory.
//!
//! Answers to: the stories. Must not: judge; it tells what happened, one line each.

use std::net::TcpListener;
use std::sync::Arc;

use ringfence_audit::{FixedClock, Log, LogOptions, MemorySink, Record};
use ringfence_bridge::Registry;
use ringfence_policy::Policy;
use ringfence_session::{Engine, Parts, Request, Session, SnapshotKey};
use ringfence_testkit::{FakeTier, Reply, Trace, Traced};
use ringfence_tier::{Capabilities, EngineInfo, Event, Tier};
use ringfence_types::{
    Call, CallId, Engine as Interpreter, GuestException, Outcome, Source, Strength, TierName, Value,
};
use serde_json::Value as Json;

/// Fake tiers, their trace, and the log.
pub struct Stage {
    pub trace: Trace,
    pub engine: Engine,
    log: MemorySink,
}

/// The embedded tier with both engines.
pub fn embedded(trace: &Trace) -> FakeTier {
    let engine = |engine, snapshot| EngineInfo { engine, version: "0", snapshot };
    let capabilities = Capabilities {
        engines: vec![engine(Interpreter::Monty, true), engine(Interpreter::Rustpython, false)],
        workspace: true,
        mounts_ro: true,
        ..Capabilities::closed(TierName::Embedded, 1, Strength::Process)
    };
    FakeTier::named(TierName::Embedded, capabilities, trace)
}

/// A tier that runs CPython itself.
pub fn cpython(name: TierName, trace: &Trace) -> FakeTier {
    let capabilities = Capabilities {
        workspace: true,
        mounts_ro: true,
        mounts_rw: true,
        network: true,
        packages: true,
        ..Capabilities::closed(name, if name == TierName::Process { 3 } else { 4 }, Strength::Process)
    };
    FakeTier::named(name, capabilities, trace).leading_out(TcpListener::bind(("127.0.0.1", 0)).unwrap())
}

impl Stage {
    pub fn new(trace: &Trace, tiers: Vec<FakeTier>) -> Self {
        let log = MemorySink::new();
        let options = LogOptions { clock: Arc::new(FixedClock(1_767_225_600_000)), ..LogOptions::default() };
        let opened = Log::open(Box::new(log.clone()), options).unwrap();
        let tiers = tiers.into_iter().map(|tier| Arc::new(tier) as Arc<dyn Tier>).collect();
        let engine = Engine::new(Parts {
            tiers,
            log: Arc::new(opened),
            snapshot_key: SnapshotKey::new([1; 32]),
            environments: None,
        });
        Self { trace: trace.clone(), engine, log }
    }

    /// A request with the function `f`, under a policy of the three tiers and these lines.
    pub fn request(&self, policy: &str) -> Request {
        let text = format!(
            "version = 1\n[isolation]\ntiers = [\"embedded\", \"process\", \"container\"]\n[functions.f]\n{policy}"
        );
        let mut functions = Registry::new();
        functions.add(Traced::function("f", &self.trace, Ok(Value::Int(7)))).unwrap();
        Request { functions, ..Request::new(Policy::parse(&text, "test").unwrap()) }
    }

    pub fn session(&self, policy: &str) -> Session {
        self.engine.session(self.request(policy)).unwrap()
    }

    fn records(&self) -> Vec<Record> {
        self.log.text().lines().map(|line| Record::parse(line.as_bytes()).unwrap()).collect()
    }

    /// The names of all records but the first two, in order.
    pub fn log(&self) -> String {
        let names: Vec<String> = self.records().into_iter().skip(2).map(|record| record.event).collect();
        names.join(" ")
    }

    /// The details of one kind of record.
    pub fn details(&self, event: &str) -> Vec<Json> {
        self.records().into_iter().filter(|record| record.event == event).map(|record| record.detail).collect()
    }

    /// Everything that was done, in one line.
    pub fn done(&self) -> String {
        self.trace.lines().join("; ")
    }
}

/// Runs one snippet; gives its outcome in one line.
pub async fn run(session: &mut Session, code: &str) -> String {
    match session.run(Source::new(code), &mut ()).await {
        Ok(outcome) => told(&outcome),
        Err(error) => format!("error: {error}"),
    }
}

/// Status, where it ran, the value or exception or limit, and the reason.
pub fn told(outcome: &Outcome) -> String {
    let tier = outcome.tier.map(|tier| format!(" {tier}")).unwrap_or_default();
    let engine = outcome.engine.as_ref().map(|engine| format!("/{engine}")).unwrap_or_default();
    let value = outcome.value.as_ref().map(|value| format!(" {value:?}")).unwrap_or_default();
    let raised = outcome.exception.as_ref().map(|exception| format!(" {}", exception.kind)).unwrap_or_default();
    let limit = outcome.limit.map(|hit| format!(" {}", hit.kind)).unwrap_or_default();
    let reason = outcome.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}{tier}{engine}{value}{raised}{limit}{reason}", outcome.status.as_str())
}

/// One line for each tier that was looked at.
pub fn considered(outcome: &Outcome) -> String {
    let row = |row: &ringfence_types::Considered| {
        format!("{} {}: {}\n", row.tier, if row.fit { "fits" } else { "no" }, row.why)
    };
    outcome.chosen.iter().map(row).collect()
}

pub fn done(value: i64) -> Reply {
    Reply::Event(Event::Done(Value::Int(value)))
}

pub fn raised(kind: &str) -> Reply {
    Reply::Event(Event::Raised(GuestException {
        kind: kind.to_owned(),
        message: String::new(),
        frames: Vec::new(),
        cause: None,
        notes: Vec::new(),
        exit_code: None,
    }))
}

pub fn unsupported(feature: &str) -> Reply {
    Reply::Event(Event::Unsupported(feature.to_owned(), Some(1)))
}

pub fn call(id: u64) -> Reply {
    let call = Call { id: CallId(id), function: "f".to_owned(), args: Vec::new(), kwargs: Vec::new(), deferred: false };
    Reply::Event(Event::Call(call))
}

/// Goes on once the trace has so many lines like this.
pub async fn until(trace: &Trace, line: &str, count: usize) {
    while trace.lines().iter().filter(|other| *other == line).count() < count {
        tokio::task::yield_now().await;
    }
}
