//! A log with every kind of event in it, from a fixed clock and key.

use std::sync::Arc;

use ringfence_audit::event::*;
use ringfence_audit::{Entry, Event, FixedClock, Keypair, Log, LogOptions, MemorySink, Report, Scope};
use ringfence_types::{
    Considered, Io, LimitHit, LimitKind, Limits, Measure, MonitorAction, RunId, SessionId, Source, Status, Strength,
    Tenant, TierName, Usage,
};
use serde_json::json;

/// A folder that goes away; in memory where the system has one, because these logs sync a lot.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("folder")
}

pub fn key() -> Keypair {
    Keypair::from_secret([7; 32])
}

pub fn options() -> LogOptions {
    LogOptions {
        key: Some(key()),
        writer: "test 1".to_owned(),
        clock: Arc::new(FixedClock(1_767_225_600_001)),
        ..LogOptions::default()
    }
}

pub fn scope() -> Scope {
    Scope::session(Tenant::local(), SessionId::from_random([1; 16])).in_run(RunId::from_random([2; 16]))
}

pub fn call(text: &str) -> Entry {
    let permitted = CallPermitted { call: 1, function: "get_weather".to_owned(), arguments: json!({"city": text}) };
    Entry::new(&scope(), Event::CallPermitted(permitted))
}

/// Each event that others than the log itself write.
pub fn events() -> Vec<Event> {
    let (function, reason) = ("get_weather".to_owned(), Some("asked".to_owned()));
    let arguments = json!({"city": "Oslo", "days": 3});
    let snapshot = Snapshot { sha256: "ab".repeat(32), bytes: 9 };
    let file = FileAccess { path: "/data/a.csv".to_owned(), bytes: 5, refused: None };
    let to = Connection {
        connection: 1,
        host: "api.example.com".to_owned(),
        port: Some(443),
        method: Some("GET".to_owned()),
        path: Some("/v1/x".to_owned()),
    };
    let hold = Hold { target: "tenant:local".to_owned(), by: "kill".to_owned(), reason: None };
    vec![
        Event::Granted(Box::new(Granted {
            environment: None,
            policy: "csv-analyst".to_owned(),
            policy_sha256: "cd".repeat(32),
            floor: Strength::Process,
            functions: vec![function.clone()],
            limits: Limits::closed(),
        })),
        Event::GrantDenied(GrantDenied { policy: "closed".to_owned(), reason: "no tier fits".to_owned() }),
        Event::TierChosen(TierChosen {
            tier: Some(TierName::Embedded),
            engine: Some("monty".to_owned()),
            considered: vec![Considered { tier: TierName::Embedded, fit: true, why: "cheapest".to_owned() }],
        }),
        Event::TierMoved(TierMoved {
            from: TierName::Embedded,
            to: TierName::Wasm,
            from_engine: Some("monty".to_owned()),
            to_engine: None,
            why: "needs numpy".to_owned(),
        }),
        Event::CellOpened(CellOpened {
            tier: TierName::Embedded,
            strength: Strength::Process,
            enforcement: vec![EnforcementLine {
                what: "network".to_owned(),
                level: EnforcementLevel::Partial,
                why: Some("old kernel".to_owned()),
            }],
        }),
        Event::RunStarted(RunStarted::of(&Source::new("6*7"))),
        Event::Sampled(Sampled {
            cpu_percent: 99,
            memory: 1 << 20,
            processes: 2,
            io: Some(Io { read: 1, written: 2 }),
        }),
        Event::CallPermitted(CallPermitted { call: 1, function: function.clone(), arguments: arguments.clone() }),
        Event::CallDenied(CallDenied {
            call: 2,
            function: "send\u{202e}_mail\n".to_owned(),
            arguments: arguments.clone(),
            reason: "not in the policy".to_owned(),
            rule: Some("functions".to_owned()),
        }),
        Event::CallAnswered(CallAnswered {
            call: 1,
            function: function.clone(),
            outcome: CallOutcome::Ok,
            duration_us: 42,
            result_bytes: 17,
        }),
        Event::CallAnswered(CallAnswered {
            call: 3,
            function: function.clone(),
            outcome: CallOutcome::Error { kind: "ValueError".to_owned() },
            duration_us: 42,
            result_bytes: 0,
        }),
        Event::ApprovalAsked(ApprovalAsked { call: 4, function: function.clone(), arguments }),
        Event::ApprovalAnswered(ApprovalAnswered {
            call: 4,
            function,
            approved: false,
            by: None,
            reason: reason.clone(),
        }),
        Event::ConnectionPermitted(ConnectionPermitted {
            to: to.clone(),
            rule: Some("network.allow[0]".to_owned()),
            secrets: vec!["example_key".to_owned()],
            address: Some("93.184.216.34".to_owned()),
        }),
        Event::ConnectionDenied(ConnectionDenied { to: to.clone(), reason: "policy does not allow it".to_owned() }),
        Event::ConnectionEnded(ConnectionEnded { to, bytes_up: 5, bytes_down: 7, duration_us: 42, fault: None }),
        Event::FileRead(file.clone()),
        Event::FileWritten(FileAccess { refused: Some("read only".to_owned()), ..file }),
        Event::ThresholdCrossed(ThresholdCrossed {
            action: MonitorAction::Warn,
            measure: Measure::Memory,
            threshold: 1000,
            reached: 1001,
        }),
        Event::ChangesCollected(ChangesCollected {
            added: 1,
            changed: 2,
            removed: 3,
            skipped: 0,
            bytes: 4096,
            complete: true,
            sha256: "00".repeat(32),
        }),
        Event::LimitStruck(LimitHit { kind: LimitKind::Wall, allowed: 1000, reached: 1001 }),
        Event::SnapshotTaken(snapshot.clone()),
        Event::SnapshotRestored(snapshot),
        Event::Killed(Killed { by: "kill".to_owned(), reason: reason.clone() }),
        Event::SessionForked(SessionForked { from: SessionId::from_random([7; 16]), runs: 2 }),
        Event::SessionFrozen(Killed { by: "freeze".to_owned(), reason: reason.clone() }),
        Event::SessionThawed(Killed { by: "thaw".to_owned(), reason: None }),
        Event::HoldSet(hold.clone()),
        Event::HoldReleased(hold),
        Event::RunClosed(RunClosed {
            exit_code: None,
            status: Status::Limited,
            usage: Usage::default(),
            limit: Some(LimitHit { kind: LimitKind::Wall, allowed: 1000, reached: 1001 }),
            exception: None,
            reason,
        }),
        Event::SessionClosed(SessionClosed { reason: "closed".to_owned(), runs: 1 }),
    ]
}

/// A log in memory, filled by `fill`.
pub fn log_of(options: LogOptions, fill: impl FnOnce(&Log)) -> MemorySink {
    let sink = MemorySink::new();
    let log = Log::open(Box::new(sink.clone()), options).expect("memory can be written");
    fill(&log);
    sink
}

/// Findings as `kind seq`, in order.
pub fn findings(report: &Report) -> Vec<String> {
    let named = |seq: Option<u64>| seq.map_or("-".to_owned(), |seq| seq.to_string());
    report.findings.iter().map(|finding| format!("{} {}", finding.kind.as_str(), named(finding.seq))).collect()
}
