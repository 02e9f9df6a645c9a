//! The control socket against an engine without tiers: what is asked, what is answered, who is heard.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use ringfence_audit::{Log, LogOptions, MemorySink};
use ringfence_bridge::{Hold, HoldTarget};
use ringfence_policy::Policy;
use ringfence_session::{Engine, Parts, Request as Opening, SnapshotKey, Target};

use super::client::ask_all_in;
use super::{Listener, Reply, Request, Wanted};

fn engine() -> Engine {
    let log = Log::open(Box::new(MemorySink::newest(1 << 20)), LogOptions::default()).expect("in memory");
    Engine::new(Parts {
        tiers: Vec::new(),
        log: Arc::new(log),
        snapshot_key: SnapshotKey::new([7; 32]),
        environments: None,
    })
}

fn hold(target: HoldTarget) -> Hold {
    Hold { target, by: "a test".to_owned(), reason: None }
}

#[track_caller]
fn check(folder: &tempfile::TempDir, request: Request, want: Reply) {
    let answers: Vec<_> = ask_all_in(folder.path(), &request).into_iter().map(|answered| answered.reply).collect();
    assert_eq!(answers, [Ok(want)]);
}

#[test]
fn sessions_are_listed_killed_and_held() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine();
    let _listener = Listener::start_in(folder.path(), engine.clone()).expect("a socket");
    let session = engine.session(Opening::new(Policy::closed())).expect("granted");
    let answers = ask_all_in(folder.path(), &Request::List);
    let [answered] = answers.as_slice() else { panic!("one process answers") };
    let Ok(Reply::Sessions { sessions }) = &answered.reply else { panic!("with its sessions") };
    assert_eq!(sessions.iter().map(|row| &row.session).collect::<Vec<_>>(), [session.id()]);

    let kill = |target, hold| Request::Kill { target: Wanted(target), by: "a test".to_owned(), reason: None, hold };
    check(&folder, kill(Target::Function("f".to_owned()), None), Reply::Killed { count: 0 });
    check(&folder, kill(Target::All, Some(hold(HoldTarget::All))), Reply::Killed { count: 1 });
    assert!(engine.session(Opening::new(Policy::closed())).is_err());
    check(&folder, Request::Release { hold: hold(HoldTarget::All) }, Reply::Done);
    assert!(engine.session(Opening::new(Policy::closed())).is_ok());
}

#[test]
fn what_is_no_request_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = Listener::start_in(folder.path(), engine()).expect("a socket");
    let check = |line: &str, want: &str| {
        let mut peer = UnixStream::connect(listener.path()).expect("it listens");
        peer.write_all(line.as_bytes()).expect("it reads");
        let mut answer = String::new();
        BufReader::new(peer).read_line(&mut answer).expect("it answers");
        assert_eq!(answer, want, "{line}");
    };
    let failed = |why: &str| format!("{{\"reply\":\"failed\",\"why\":\"not a request: {why}\"}}\n");
    check("{}\n", &failed("missing field `op` at line 1 column 2"));
    check("[\n", &failed("EOF while parsing a list at line 2 column 0"));
    check(
        "{\"op\":\"kill\",\"target\":\"nobody\",\"by\":\"x\"}\n",
        &failed("`nobody` is neither a run (`run_…`) nor a session (`ses_…`); `ringfence ps` lists them"),
    );
}

#[test]
fn sockets_of_processes_that_are_gone_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    // Above what the kernel gives out, so that there is no such process.
    let stale = folder.path().join("4194999.sock");
    drop(UnixListener::bind(&stale).expect("a socket"));
    let own = folder.path().join(format!("{}.sock", std::process::id()));
    drop(UnixListener::bind(&own).expect("a socket"));
    std::fs::write(folder.path().join("notes.txt"), "").expect("own folder");
    assert!(ask_all_in(folder.path(), &Request::List).is_empty());
    assert_eq!((stale.exists(), own.exists()), (false, true));
}

#[test]
fn a_socket_goes_with_its_listener() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = Listener::start_in(folder.path(), engine()).expect("a socket");
    let path = listener.path().to_owned();
    assert!(path.exists());
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn wanted_sessions_read_back() {
    let check = |text: &str, good: bool| {
        let read = text.parse::<Wanted>().ok().map(String::from);
        assert_eq!(read, good.then(|| text.to_owned()), "{text}");
    };
    check("all", true);
    check("tenant:acme", true);
    check("tenant:a b", false);
    check("function:send_mail", true);
    check("function:", false);
    check("run_0123", true);
    check("ses_0123", true);
    check("everything", false);
    check("", false);
}
