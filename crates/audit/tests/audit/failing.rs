//! A log that can't be written says so, and goes on saying so.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;
use ringfence_audit::{
    AuditError, Beside, FileSink, Keypair, Log, LogOptions, MemorySink, Sink, Verdict, check_file, verify_file,
    verify_file_unanchored,
};

struct Failing {
    memory: MemorySink,
    broken: Arc<AtomicBool>,
}

impl Sink for Failing {
    fn name(&self) -> String {
        "`failing`".to_owned()
    }
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"));
        }
        self.memory.append(lines)
    }
}

#[test]
fn the_first_failure_stays() {
    let broken = Arc::new(AtomicBool::new(false));
    let memory = MemorySink::new();
    let sink = Failing { memory: memory.clone(), broken: broken.clone() };
    let log = Log::open(Box::new(sink), options()).expect("opened");
    assert_eq!(log.record(call("Oslo")).expect("recorded"), 2);
    broken.store(true, Ordering::SeqCst);
    let first = "audit log `failing` could not be written: no space left; nothing runs until it can";
    assert_eq!(log.record(call("Rome")).expect_err("full").to_string(), first);
    broken.store(false, Ordering::SeqCst);
    let stays =
        format!("the audit log failed earlier and takes no more records: {first}; mend the cause and start again");
    assert_eq!(log.record(call("Rome")).expect_err("failed").to_string(), stays);
    assert_eq!(log.close().expect_err("failed").to_string(), stays);
    assert_eq!(memory.text().lines().count(), 2);
}

#[test]
fn a_closed_log_takes_nothing() {
    log_of(options(), |log| {
        assert_eq!(log.close().expect("closed"), 2);
        let want = "the audit log is closed and takes no more records; open it again";
        assert_eq!(log.record(call("Rome")).expect_err("closed").to_string(), want);
        assert_eq!(log.close().expect_err("closed").to_string(), want);
    });
}

#[test]
fn a_log_that_is_removed_or_cut_while_open_fails() {
    let folder = folder();
    let check = |name: &str, harm: fn(&std::path::Path), want: &str| {
        let path = folder.path().join(name);
        let log = Log::open_file(&path, options()).expect("opened");
        harm(&path);
        let error = log.record(call("Oslo")).expect_err("harmed");
        let end = "; keep it as evidence, run `ringfence audit verify` on it, and start a new log";
        assert_eq!(error.to_string(), format!("audit log `{}` was changed: {want}{end}", path.display()));
    };
    check("removed", |path| fs::remove_file(path).expect("removed"), "it was removed while it was open");
    check("cut", |path| fs::write(path, "").expect("cut"), "it became shorter while it was open");
}

#[cfg(unix)]
#[test]
fn files_that_others_can_use_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let mode = |path: &std::path::Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let (key, log) = (folder.path().join("key"), folder.path().join("audit.jsonl"));
    let made = Keypair::load_or_create(&key).expect("made");
    assert_eq!(Keypair::load_or_create(&key).expect("loaded").public(), made.public());
    drop(Log::open_file(&log, LogOptions { key: Some(made), ..options() }).expect("opened"));
    for path in [&key, &log, &Beside::of(&log).head, &Beside::of(&log).public_key, &Beside::of(&log).writers] {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    let check = |path: &std::path::Path, bits: u32, open: &dyn Fn() -> Result<(), AuditError>| {
        fs::set_permissions(path, PermissionsExt::from_mode(bits)).expect("set");
        let want = format!("`{}` is open to other users (mode {bits:o}); run `chmod 600` on it", path.display());
        assert_eq!(open().expect_err("exposed").to_string(), want);
    };
    check(&key, 0o640, &|| Keypair::load_or_create(&key).map(drop));
    check(&log, 0o660, &|| FileSink::open(&log, None).map(drop));
}

#[test]
fn another_key_is_refused() {
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    drop(Log::open_file(&path, options()).expect("opened"));
    let check = |key: Option<Keypair>, given: &str| {
        let error = Log::open_file(&path, LogOptions { key, ..options() }).expect_err("another");
        let (path, found) = (path.display(), key_text());
        let want =
            format!("audit log `{path}` is signed with key {found}, not {given}; use that key or start a new log");
        assert_eq!(error.to_string(), want);
    };
    let other = Keypair::from_secret([8; 32]);
    let given = other.public().to_string();
    check(Some(other), &given);
    check(None, "none");
}

fn key_text() -> String {
    key().public().to_string()
}

#[test]
fn a_key_file_without_a_key_is_refused() {
    let folder = folder();
    let path = folder.path().join("key");
    drop(Keypair::load_or_create(&path).expect("made"));
    fs::write(&path, "hello\n").expect("written");
    let want = "does not hold a signing key (64 hexadecimal digits); restore it, or remove it to make a new one";
    let error = Keypair::load_or_create(&path).expect_err("no key");
    assert_eq!(error.to_string(), format!("`{}` {want}", path.display()));
}

#[test]
fn a_log_without_a_key_says_so() {
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    drop(Log::open_file(&path, LogOptions { key: None, ..options() }).expect("opened"));
    drop(Log::open_file(&path, LogOptions { key: None, ..options() }).expect("opened"));
    let report = verify_file(&path, None).expect("read");
    assert_eq!(
        report.to_string(),
        "not anchored: nothing proves that this is the whole log; 4 records hold together; signatures not checked, no public key given"
    );
    assert!(Log::open_file(&path, options()).is_err(), "a log that was not signed can't be signed later");
}

#[test]
fn a_missing_head_shows() {
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    drop(Log::open_file(&path, options()).expect("opened"));
    fs::remove_file(Beside::of(&path).head).expect("removed");
    assert_eq!(findings(&verify_file(&path, None).expect("read")), ["bad head -"]);
    let report = verify_file_unanchored(&path, None).expect("read");
    let text = "not anchored: nothing proves that this is the whole log; 2 records hold together";
    assert_eq!((report.verdict(), report.to_string().as_str()), (Verdict::Unanchored, text));
}

#[test]
fn a_file_that_is_no_log_is_refused_and_nothing_is_made_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let accounts = folder.path().join("passwd");
    fs::write(&accounts, "root:x:0:0\n").expect("written");
    fs::set_permissions(&accounts, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("private");
    let below = folder.path().join("folder");
    fs::create_dir(&below).expect("made");
    for path in [accounts.as_path(), &below, std::path::Path::new("/dev/null")] {
        assert!(check_file(path).is_err(), "{}", path.display());
        assert!(FileSink::open(path, None).is_err(), "{}", path.display());
        assert!(!Beside::of(path).writers.exists(), "{}", path.display());
    }
    assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 2);
}
