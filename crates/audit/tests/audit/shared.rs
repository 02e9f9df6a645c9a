//! Several threads and processes write one file: one chain comes out.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::*;
use ringfence_audit::{Log, LogOptions, Verdict, verify_file};

const EACH: u64 = 200;

fn write(path: &Path) {
    let log = Log::open_file(path, LogOptions { checkpoint_every: 16, ..options() }).expect("opened");
    for _ in 0..EACH {
        log.record(call("Oslo")).expect("recorded");
    }
    log.close().expect("closed");
}

fn check(path: &Path, writers: u64) {
    let report = verify_file(path, None).expect("read");
    assert_eq!((findings(&report), report.verdict()), (vec![], Verdict::Intact));
    // Each writer: one opening, its records, a checkpoint for each 16, and a closing one.
    assert_eq!(report.records, writers * (1 + EACH + EACH / 16 + 1));
}

#[test]
fn threads_with_one_log() {
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    let log = Log::open_file(&path, options()).expect("opened");
    let mut seen: Vec<u64> = std::thread::scope(|scope| {
        let record = || (0..EACH).map(|_| log.record(call("Oslo")).expect("recorded")).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(record)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("ended")).collect()
    });
    log.close().expect("closed");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len() as u64, 4 * EACH);
    assert_eq!(verify_file(&path, None).expect("read").verdict(), Verdict::Intact);
}

#[test]
fn threads_with_a_log_each() {
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| write(&path));
        }
    });
    check(&path, 4);
}

#[test]
fn processes_with_a_log_each() {
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    let program = std::env::current_exe().expect("this test");
    let start = || {
        let mut command = Command::new(&program);
        command
            .args(["--exact", "shared::child_that_writes", "--ignored"])
            .env("AUDIT_LOG", &path)
            .stdout(Stdio::null());
        command.spawn().expect("started")
    };
    let children: Vec<_> = (0..3).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().expect("ended").success());
    }
    check(&path, 3);
}

#[test]
#[ignore = "a part of `processes_with_a_log_each`"]
fn child_that_writes() {
    write(Path::new(&std::env::var_os("AUDIT_LOG").expect("given")));
}

#[cfg(unix)]
#[test]
fn killed_processes_leave_a_log_that_holds() {
    use std::io::{BufRead, BufReader};
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    let program = std::env::current_exe().expect("this test");
    for round in 0..20 {
        let mut command = Command::new(&program);
        command.args(["--exact", "shared::child_that_writes_forever", "--ignored", "--nocapture"]);
        let mut child = command.env("AUDIT_LOG", &path).stdout(Stdio::piped()).spawn().expect("started");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let told =
            said.lines().map_while(Result::ok).filter_map(|line| line.strip_prefix("wrote ")?.parse::<u64>().ok());
        // Killed in the middle of its work, after so many records that it told of.
        let told = told.take(round * 7 + 1).last().expect("wrote");
        child.kill().expect("killed");
        child.wait().expect("ended");
        let report = verify_file(&path, None).expect("read");
        assert_eq!(report.verdict(), Verdict::Unfinished, "{:?}", report.findings);
        assert!(report.last.seq >= told, "record {told} was acknowledged, the log ends at {}", report.last.seq);
    }
    std::fs::write(folder.path().join("audit.jsonl.head.1-2"), "half a head").expect("written");
    drop(Log::open_file(&path, options()).expect("opened"));
    assert_eq!(verify_file(&path, None).expect("read").verdict(), Verdict::Intact);
    let mut files: Vec<_> =
        std::fs::read_dir(folder.path()).expect("read").flatten().map(|file| file.file_name()).collect();
    files.sort();
    assert_eq!(files, ["audit.jsonl", "audit.jsonl.head", "audit.jsonl.pub", "audit.jsonl.writers"]);
}

#[cfg(unix)]
#[test]
#[ignore = "a part of `killed_processes_leave_a_log_that_holds`"]
fn child_that_writes_forever() {
    let path = std::env::var_os("AUDIT_LOG").expect("given");
    let log = Log::open_file(Path::new(&path), LogOptions { checkpoint_every: 16, ..options() }).expect("opened");
    loop {
        println!("wrote {}", log.record(call("Oslo")).expect("recorded"));
    }
}
