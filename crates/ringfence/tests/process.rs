//! The process tier through the library: a native CPython, its limits, and what is left of it.
//!
//! Answers to: the promises of `limitations/process.md`. Where the tier does not work the tests fail and say why: a
//! machine without user namespaces can't vouch for it.

mod support;

use std::sync::Arc;

use ringfence::{Engine, Outcome, Policy, Session, Status, Tenant, Value};

use support::told;

const POLICY: &str = "version = 1\n[isolation]\ntiers = [\"process\"]\n[limits]\nwall = \"20s\"\ncpu = \"10s\"\n\
                      memory = \"96MiB\"\nprocesses = 12\nopen_files = 64\n[filesystem]\nworkspace = \"8MiB\"\n";

fn engine() -> Engine {
    Engine::builder().worker(env!("CARGO_BIN_EXE_ringfence")).warm(1).build().expect("an engine")
}

fn session(engine: &Engine, tenant: &str) -> Session {
    let policy = Policy::parse(POLICY, "test").expect("a good policy");
    let tenant: Tenant = tenant.parse().expect("a good name");
    engine.session_with(policy).tenant(tenant).open().expect("granted")
}

async fn run(code: &str) -> Outcome {
    session(&engine(), "local").run(code).await.expect("recorded")
}

async fn check(code: &str, want: &str) {
    let outcome = run(code).await;
    assert_eq!(told(&outcome), want, "{code}: {:?} {:?}", outcome.reason, outcome.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_cpython_and_says_where_it_ran() {
    let outcome = run("import sys, json\nprint('hi')\njson.dumps([sys.implementation.name, 6 * 7])").await;
    assert_eq!(outcome.value, Some(Value::from("[\"cpython\", 42]")), "{:?}", outcome.reason);
    assert_eq!((outcome.stdout.as_str(), outcome.status), ("hi\n", Status::Completed));
    assert_eq!(outcome.tier.map(|tier| tier.to_string()).as_deref(), Some("process"));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_name_themselves() {
    check("bytearray(400 << 20); 1", "limited memory").await;
    check("x = []\nwhile True: x.append(bytearray(1 << 20))", "limited memory").await;
    check("open('/workspace/x', 'wb').write(bytes(64 << 20))", "raised OSError").await;
    check("files = [open('/dev/null') for _ in range(100)]", "raised OSError").await;
    let forks = "import os, time\nfor n in range(40):\n    if os.fork() == 0: time.sleep(60)";
    check(forks, "raised BlockingIOError").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_starts_ends_with_it() {
    let engine = engine();
    let mut session = session(&engine, "local");
    let code = "import subprocess\nfor n in range(3): subprocess.Popen(['sleep', '12321'])\n1";
    let outcome = session.run(code).await.expect("recorded");
    assert_eq!(told(&outcome), "completed Int(1)", "{:?}", outcome.reason);
    drop(session);
    drop(engine);
    let left: Vec<String> = std::fs::read_dir("/proc")
        .expect("there is one")
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.starts_with("sleep 12321"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_keep_their_state_and_share_nothing() {
    let engine = engine();
    let (mut one, mut two) = (session(&engine, "local"), session(&engine, "local"));
    let first = one.run("x = 1\nopen('/tmp/x', 'w').write('one')\nopen('/workspace/y', 'w').write('1')").await;
    assert_eq!(first.expect("recorded").status, Status::Completed);
    assert_eq!(told(&one.run("x + len(open('/tmp/x').read())").await.expect("recorded")), "completed Int(4)");
    let look = "import os\n('x' in dir(), os.path.exists('/tmp/x'), os.listdir('/workspace'))";
    let seen = two.run(look).await.expect("recorded").value;
    let nothing = Value::Tuple(vec![Value::Bool(false), Value::Bool(false), Value::List(Vec::new())]);
    assert_eq!(seen, Some(nothing));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_random_is_shared() {
    let engine = engine();
    let code = "import os, random, uuid, ssl, tempfile\n\
                [os.urandom(8).hex(), random.random(), str(uuid.uuid4()), ssl.RAND_bytes(8).hex(), tempfile.mktemp()]";
    let mut drawn = Vec::new();
    for _ in 0..3 {
        let outcome = session(&engine, "local").run(code).await.expect("recorded");
        let Some(Value::List(items)) = outcome.value else { panic!("{:?}", outcome.reason) };
        drawn.push(items);
    }
    for (at, first) in drawn.iter().enumerate() {
        for second in drawn.iter().skip(at + 1) {
            assert!(first.iter().zip(second).all(|(a, b)| a != b), "{first:?} {second:?}");
        }
    }
    let hash = async |tenant: &str| session(&engine, tenant).run("hash('a')").await.expect("recorded").value;
    assert_ne!(hash("one").await, hash("two").await, "tenants have interpreters of their own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_costs_one_session_only() {
    let engine = engine();
    let mut lost = session(&engine, "local");
    let outcome = lost.run("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)").await.expect("recorded");
    assert_eq!(told(&outcome), "crashed", "{:?}", outcome.reason);
    assert_eq!(told(&session(&engine, "local").run("1").await.expect("recorded")), "completed Int(1)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_ends_every_process_of_a_session() {
    let engine = Arc::new(engine());
    let mut session = session(&engine, "local");
    let handle = session.handle();
    let started =
        "import subprocess, time\nsubprocess.Popen(['sleep', '32123'])\nprint('up', flush=True)\ntime.sleep(60)";
    let run = tokio::spawn(async move { session.run(started).await });
    // The switch is pulled while the program sleeps, or before: either way nothing of it is left.
    handle.kill("a test");
    let outcome = run.await.expect("it ends").expect("recorded");
    assert_eq!(outcome.status, Status::Killed, "{:?}", outcome.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_other_programs_is_in_its_place() {
    let code =
        "import subprocess, os\nprint('a')\nsubprocess.run(['echo', 'b'])\nprint('c')\nos.system('echo d')\nprint('e')";
    let outcome = run(code).await;
    assert_eq!((outcome.stdout.as_str(), outcome.status), ("a\nb\nc\nd\ne\n", Status::Completed));
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_are_seen_also_from_below_the_folder_that_the_root_is_built_in() {
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    std::fs::write(folder.path().join("ro.txt"), "original").expect("written");
    let mount = format!("mounts = [{{ host = \"{}\", at = \"/data\", mode = \"ro\" }}]\n", folder.path().display());
    let policy = Policy::parse(&format!("{POLICY}{mount}"), "test").expect("a good policy");
    let mut session = engine().session_with(policy).open().expect("granted");
    let read = session.run("open('/data/ro.txt').read()").await.expect("recorded");
    assert_eq!(read.value, Some(Value::from("original")), "{:?}", read.reason);
    let write = session.run("open('/data/ro.txt', 'w')").await.expect("recorded");
    assert_eq!(told(&write), "raised OSError", "{:?}", write.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_a_child_keeps_its_files() {
    let code = "import os\n\
                def inner():\n    file = os.open('/dev/null', os.O_RDONLY)\n    return file == 3 and ended(lambda: os.fstat(file))\n\
                def ended(body):\n    pid = os.fork()\n    if pid == 0:\n        try: os._exit(0 if body() else 1)\n\
                \x20       except OSError: os._exit(2)\n    return os.waitpid(pid, 0)[1] == 0\n\
                ended(inner)";
    check(code, "completed Bool(true)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_other_programs_are_told() {
    check("import subprocess\nsubprocess.run(['sh', '-c', 'exit 3']).returncode", "completed Int(3)").await;
    check(
        "import os\npid = os.fork()\nif pid == 0: os._exit(4)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
        "completed Int(4)",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_however_many_policies_come_after_it() {
    let engine = engine();
    let mut first = session(&engine, "local");
    assert_eq!(told(&first.run("x = 41").await.expect("recorded")), "completed None");
    let mut others = Vec::new();
    // More than there are jails kept without need.
    for files in 0..9 {
        let policy = POLICY.replace("open_files = 64", &format!("open_files = {}", 65 + files));
        let mut other =
            engine.session_with(Policy::parse(&policy, "test").expect("a good policy")).open().expect("granted");
        assert_eq!(told(&other.run("1").await.expect("recorded")), "completed Int(1)");
        others.push(other);
    }
    assert_eq!(told(&first.run("x + 1").await.expect("recorded")), "completed Int(42)");
}
