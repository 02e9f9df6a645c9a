//! A log cut at any byte, as a killed host may leave it: read up to its last complete record,
//! opened again without losing a byte, and verified with the cut accounted for.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::*;
use ringfence_audit::{AuditError, Beside, Hash, Log, Verdict, verify_file};

/// A log of a writer that was killed: three records, no closing one, no head.
fn killed_log(folder: &Path) -> (PathBuf, Vec<u8>) {
    let path = folder.join("audit.jsonl");
    let log = Log::open_file(&path, options()).expect("opened");
    log.record(call("Oslo")).expect("recorded");
    log.record(call(r#"{"a":1,"hash":"0000000000000000000000000000000000000000000000000000000000000000"}"#))
        .expect("recorded");
    let bytes = fs::read(&path).expect("read");
    drop(log);
    (path, bytes)
}

fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("written");
    fs::write(Beside::of(path).head, key().sign_head(0, Hash::NONE).to_string()).expect("written");
}

fn line_starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

/// Complete records of a log cut at `cut`; a record without its newline is complete.
fn complete(starts: &[usize], cut: usize) -> u64 {
    starts.iter().skip(1).filter(|end| cut + 1 >= **end).count() as u64
}

#[test]
fn a_log_cut_at_any_byte_is_verified_and_goes_on() {
    let folder = folder();
    let (path, bytes) = killed_log(folder.path());
    let starts = line_starts(&bytes);
    for cut in starts[1]..=bytes.len() {
        put(&path, &bytes[..cut]);
        let whole = complete(&starts, cut);
        let report = verify_file(&path, None).expect("read");
        assert_eq!((report.verdict(), report.last.seq), (Verdict::Unfinished, whole), "cut {cut}");

        let log = Log::open_file(&path, options()).expect("opened");
        assert_eq!(log.record(call("Rome")).expect("recorded"), whole + 2, "cut {cut}");
        log.close().expect("closed");
        let now = fs::read(&path).expect("read");
        assert_eq!(now[..cut], bytes[..cut], "cut {cut}");
        let report = verify_file(&path, None).expect("read");
        let torn = !starts.contains(&cut) && !starts.contains(&(cut + 1));
        let want: &[&str] = if torn { &["recovered -"] } else { &[] };
        assert_eq!(findings(&report), want, "cut {cut}");
        assert_eq!((report.verdict(), report.last.seq), (Verdict::Intact, whole + 3), "cut {cut}");
    }
}

#[test]
fn a_recovery_cut_at_any_byte_is_recovered_itself() {
    let folder = folder();
    let (path, bytes) = killed_log(folder.path());
    let first_cut = line_starts(&bytes)[2] + 40;
    put(&path, &bytes[..first_cut]);
    let log = Log::open_file(&path, options()).expect("opened");
    let recovered = fs::read(&path).expect("read");
    drop(log);
    for cut in first_cut..recovered.len() - 1 {
        put(&path, &recovered[..cut]);
        drop(Log::open_file(&path, options()).expect("opened"));
        let now = fs::read(&path).expect("read");
        assert_eq!(now[..cut], recovered[..cut], "cut {cut}");
        let report = verify_file(&path, None).expect("read");
        assert_eq!(
            (findings(&report), report.verdict()),
            (vec!["recovered -".to_owned()], Verdict::Intact),
            "cut {cut}"
        );
    }
}

#[test]
fn a_first_record_cut_at_any_byte_is_recovered() {
    let folder = folder();
    let (path, bytes) = killed_log(folder.path());
    let end = line_starts(&bytes)[1];
    for cut in 0..end {
        put(&path, &bytes[..cut]);
        let log = Log::open_file(&path, options()).expect("opened");
        log.close().expect("closed");
        assert_eq!(verify_file(&path, None).expect("read").verdict(), Verdict::Intact, "cut {cut}");
    }
}

#[test]
fn a_writer_at_work_goes_on_behind_one_that_was_killed() {
    use std::io::Write;
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    let log = Log::open_file(&path, options()).expect("opened");
    let mut killed = fs::OpenOptions::new().append(true).open(&path).expect("opened");
    killed.write_all(b"{\"seq\":2,\"time\":").expect("written");
    assert_eq!(log.record(call("Oslo")).expect("recorded"), 3);
    log.close().expect("closed");
    let report = verify_file(&path, None).expect("read");
    assert_eq!((findings(&report), report.verdict()), (vec!["recovered -".to_owned()], Verdict::Intact));
}

#[test]
fn what_was_left_behind_can_not_be_changed_later() {
    let folder = folder();
    let (path, bytes) = killed_log(folder.path());
    let cut = line_starts(&bytes)[2] + 40;
    put(&path, &bytes[..cut]);
    drop(Log::open_file(&path, options()).expect("opened"));
    let head = Beside::of(&path).head;
    let signed = fs::read(&head).expect("head");
    let check = |change: fn(&mut Vec<u8>, usize), want: &[&str]| {
        let mut changed = fs::read(&path).expect("read");
        let untouched = changed.clone();
        change(&mut changed, cut);
        put(&path, &changed);
        fs::write(&head, &signed).expect("written");
        assert_eq!(findings(&verify_file(&path, None).expect("read")), want);
        put(&path, &untouched);
        fs::write(&head, &signed).expect("written");
    };
    check(|log, cut| log[cut - 3] ^= 1, &["not a record -", "edited 3"]);
    check(|log, cut| drop(log.drain(cut - 40..=cut)), &["edited 3"]);
}

#[test]
fn a_log_that_was_changed_at_its_end_is_not_gone_on_with() {
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    let log = Log::open_file(&path, options()).expect("opened");
    log.record(call("Oslo")).expect("recorded");
    log.close().expect("closed");
    let bytes = fs::read(&path).expect("read");
    let head = Beside::of(&path).head;
    let signed = fs::read(&head).expect("head");
    let check = |bytes: &[u8], want: &str| {
        fs::write(&path, bytes).expect("written");
        fs::write(&head, &signed).expect("written");
        let error = Log::open_file(&path, options()).expect_err("changed");
        let end = "; keep it as evidence, run `ringfence audit verify` on it, and start a new log";
        assert_eq!(error.to_string(), format!("audit log `{}` was changed: {want}{end}", path.display()));
        assert_eq!(fs::read(&path).expect("read"), bytes);
    };
    let starts = line_starts(&bytes);
    check(&bytes[..starts[2]], "it ends at record 2, but reached record 3");
    check(b"", "it ends at record 0, but reached record 3");
    let edited = String::from_utf8(bytes.clone()).expect("utf-8").replace("closed", "asked!");
    check(edited.as_bytes(), "its last complete record does not have the hash it names");
    check(&[&bytes, b"hello\n".as_slice()].concat(), "it ends in a line that is no part of an audit log");
    fs::write(&path, &bytes).expect("written");
    fs::remove_file(&head).expect("removed");
    assert!(matches!(Log::open_file(&path, options()), Err(AuditError::Tampered { .. })));
    fs::write(&head, "3 nonsense").expect("written");
    assert!(matches!(Log::open_file(&path, options()), Err(AuditError::Tampered { .. })));
}
