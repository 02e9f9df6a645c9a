//! Measures what a record costs: `cargo run --release -p ringfence-audit --example speed`.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a measuring program prints, and ends on the first failure"
)]

use std::time::{Duration, Instant};

use ringfence_audit::event::{CallPermitted, Entry, Event, Scope};
use ringfence_audit::{Durability, Keypair, Log, LogOptions, MemorySink, verify_file};
use ringfence_types::{RunId, SessionId, Tenant};

fn entry() -> Entry {
    let scope = Scope::session(Tenant::local(), SessionId::from_random([1; 16])).in_run(RunId::from_random([2; 16]));
    let arguments = serde_json::json!({"city": "Oslo", "days": 3});
    Entry::new(&scope, Event::CallPermitted(CallPermitted { call: 7, function: "get_weather".to_owned(), arguments }))
}

fn measure(name: &str, log: &Log, records: usize) {
    let mut times: Vec<Duration> = Vec::with_capacity(records);
    let started = Instant::now();
    for _ in 0..records {
        let entry = entry();
        let before = Instant::now();
        log.record(entry).expect("recorded");
        times.push(before.elapsed());
    }
    let mean = started.elapsed() / records as u32;
    times.sort();
    let at = |share: usize| times.get(records * share / 100).copied().unwrap_or_default();
    println!("{name:<40} median {:?}, 99% {:?}, mean {mean:?}", at(50), at(99));
}

fn main() {
    let folder = tempfile::tempdir().expect("folder");
    let options = |every, durability| LogOptions {
        key: Some(Keypair::from_secret([7; 32])),
        checkpoint_every: every,
        durability,
        ..LogOptions::default()
    };
    let memory = Log::open(Box::new(MemorySink::newest(1 << 20)), options(64, Durability::Flush)).expect("opened");
    measure("memory, checkpoint every 64", &memory, 100_000);
    for every in [16, 64, 256] {
        let path = folder.path().join(format!("{every}.jsonl"));
        let log = Log::open_file(&path, options(every, Durability::Flush)).expect("opened");
        measure(&format!("file, checkpoint every {every}"), &log, 100_000);
        let before = Instant::now();
        log.close().expect("closed");
        println!("{:<40} {:?}", "  close", before.elapsed());
        let before = Instant::now();
        let report = verify_file(&path, None).expect("read");
        println!("{:<40} {:?}: {report}", "  verify", before.elapsed());
        let before = Instant::now();
        drop(Log::open_file(&path, options(every, Durability::Flush)).expect("opened"));
        println!("{:<40} {:?}", "  open and close again", before.elapsed());
    }
    let log = Log::open_file(&folder.path().join("each"), options(64, Durability::EachRecord)).expect("opened");
    measure("file, synced each record", &log, 500);
}
