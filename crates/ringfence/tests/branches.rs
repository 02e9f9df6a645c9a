//! Sessions that are forked from one: what each has, what each is held to, and what is left of them.
//!
//! Answers to: what `limitations/process.md` promises of branches. Where the tier does not work the tests fail and say why.

mod support;

use std::path::Path;

use ringfence::{Engine, HostError, Policy, Session, SessionError, Status, Value};

use support::told;

const LIMITS: &str = "wall = \"20s\"\ncpu = \"10s\"\nmemory = \"128MiB\"\nprocesses = 24\nopen_files = 64\n";

fn engine() -> Engine {
    Engine::builder().worker(support::program()).warm(1).build().expect("an engine")
}

fn policy(tier: &str, limits: &str, more: &str) -> Policy {
    let text = format!("version = 1\n[isolation]\ntiers = [\"{tier}\"]\n[limits]\n{limits}{more}");
    Policy::parse(&text, "test").expect("a good policy")
}

fn session(engine: &Engine) -> Session {
    engine.session(policy("process", LIMITS, "[filesystem]\nworkspace = \"8MiB\"\n")).expect("granted")
}

async fn run(session: &mut Session, code: &str) -> String {
    let outcome = session.run(code).await.expect("recorded");
    let why = outcome.reason.as_deref().unwrap_or_default();
    format!("{} {why}", told(&outcome)).trim_end().to_owned()
}

/// A session that ran this, and so many branches of it.
async fn forked(engine: &Engine, code: &str, count: usize) -> (Session, Vec<Session>) {
    let mut origin = session(engine);
    let outcome = origin.run(code).await.expect("recorded");
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let branches = origin.fork(count).await.expect("forked");
    (origin, branches)
}

fn refused(fork: Result<Vec<Session>, SessionError>) -> String {
    fork.map(|made| made.len().to_string()).unwrap_or_else(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_have_the_state_and_none_sees_what_another_changes() {
    let engine = engine();
    let (mut origin, mut branches) = forked(&engine, "data = {'rows': list(range(1000))}\nstep = 0", 4).await;
    for (number, branch) in branches.iter_mut().enumerate() {
        let change = format!("step += {}\ndata['rows'].append(step)\nsum(data['rows']), step", number + 1);
        let want = format!("completed Tuple([Int({}), Int({})])", 499_500 + number + 1, number + 1);
        assert_eq!(run(branch, &change).await, want);
    }
    assert_eq!(run(&mut origin, "len(data['rows']), step").await, "completed Tuple([Int(1000), Int(0)])");
    for (number, branch) in branches.iter_mut().enumerate() {
        assert_eq!(run(branch, "step").await, format!("completed Int({})", number + 1));
    }
    assert_ne!(origin.handle().session(), branches[0].handle().session());
}

/// A branch can be forked itself, and one whose origin is gone works on.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_outlives_its_origin_and_can_be_forked_itself() {
    let engine = engine();
    let (origin, mut branches) = forked(&engine, "x = 40", 2).await;
    let mut first = branches.remove(0);
    assert_eq!(run(&mut first, "x += 1").await, "completed None");
    let mut below = first.fork(2).await.expect("forked");
    drop(origin);
    drop(first);
    assert_eq!(run(&mut branches[0], "x").await, "completed Int(40)");
    for branch in &mut below {
        assert_eq!(run(branch, "x += 1\nx").await, "completed Int(42)");
    }
    let out = "import subprocess, sys\nprint('a')\nsubprocess.run(['echo', 'b'])\nprint('c', file=sys.stderr)";
    let outcome = below[0].run(out).await.expect("recorded");
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("a\nb\n", "c\n"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_random_is_shared() {
    let engine = engine();
    let (origin, branches) = forked(&engine, "import os, random, uuid, ssl, tempfile\nrandom.random()", 2).await;
    let draw = "[os.urandom(8).hex(), random.random(), str(uuid.uuid4()), str(uuid.uuid1()), ssl.RAND_bytes(8).hex(), \
                tempfile.mktemp()]";
    let mut drawn = Vec::new();
    for mut session in branches.into_iter().chain([origin]) {
        let outcome = session.run(draw).await.expect("recorded");
        let Some(Value::List(items)) = outcome.value else { panic!("{outcome:?}") };
        drawn.push(items);
    }
    for (at, first) in drawn.iter().enumerate() {
        for second in drawn.iter().skip(at + 1) {
            assert!(first.iter().zip(second).all(|(a, b)| a != b), "{first:?} {second:?}");
        }
    }
}

/// Each ends by itself, and no other notices.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_ends_badly_ends_alone() {
    let engine = engine();
    let (mut origin, mut branches) = forked(&engine, "x = 7", 4).await;
    let mut last = branches.pop().expect("four");
    let ends = [
        ("import os\nos._exit(3)", "crashed the process worker died in mid-run; the session is lost, open a new one"),
        ("y = bytearray(500 << 20)", "limited memory the limit on memory struck: 134217728 bytes allowed"),
        ("while True: pass", "killed ended by a test"),
    ];
    for (branch, (code, want)) in branches.iter_mut().zip(ends) {
        let handle = branch.handle();
        let is_endless = code.starts_with("while");
        let code = if is_endless { format!("print('on', flush=True)\n{code}") } else { code.to_owned() };
        let on_word = move |_: ringfence::Progress<'_>| {
            if is_endless {
                handle.kill("a test");
            }
        };
        let outcome = branch.run_watched(ringfence::Source::new(code), on_word).await.expect("recorded");
        let told = format!("{} {}", told(&outcome), outcome.reason.unwrap_or_default());
        assert!(told.starts_with(want), "{told}");
        assert_eq!(run(&mut origin, "x").await, "completed Int(7)");
        assert_eq!(run(&mut last, "x").await, "completed Int(7)");
    }
    // The one that all came from may end too.
    assert_eq!(origin.run("import os\nos._exit(3)").await.expect("recorded").status, Status::Crashed);
    assert_eq!(run(&mut last, "x").await, "completed Int(7)");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_branch_started_ends_with_it_and_with_no_other() {
    let engine = engine();
    let (mut origin, mut branches) = forked(&engine, "import subprocess, os", 2).await;
    let start =
        |word: &str| format!("p = subprocess.Popen(['sleep', '{word}'], start_new_session=False)\np.poll() is None");
    for (session, word) in [&mut origin].into_iter().chain(&mut branches).zip(["71711", "71712", "71713"]) {
        assert_eq!(run(session, &start(word)).await, "completed Bool(true)");
    }
    drop(branches.remove(0));
    until(|| sleeping("71712") == 0);
    assert_eq!((sleeping("71711"), sleeping("71713")), (1, 1));
    drop(origin);
    until(|| sleeping("71711") == 0);
    assert_eq!(run(&mut branches[0], "p.poll() is None").await, "completed Bool(true)");
    drop(branches);
    drop(engine);
    assert_eq!(sleeping("71713"), 0);
}

/// Where there are control groups, also what has left its branch in every way that a program knows.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_left_its_branch_ends_with_it_where_there_are_groups() {
    let engine = engine();
    let (_origin, mut branches) = forked(&engine, "import os", 1).await;
    let leave = "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.execvp('sleep', ['sleep', '81811'])\n    \
                 os._exit(0)\nos.wait()[0] > 0";
    assert_eq!(run(&mut branches[0], leave).await, "completed Bool(true)");
    until(|| sleeping("81811") == 1);
    drop(branches);
    if support::has_groups() {
        until(|| sleeping("81811") == 0);
    }
    drop(_origin);
    until(|| sleeping("81811") == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left() {
    let before = (groups(), inside());
    let engine = engine();
    let (origin, branches) = forked(&engine, "x = 1", 8).await;
    assert!(inside() > before.1, "the sessions are there");
    drop(origin);
    drop(branches);
    drop(engine);
    assert_eq!((groups(), inside()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_count_for_each_from_its_beginning() {
    let engine = engine();
    let limits =
        "wall = \"20s\"\ncpu = \"2s\"\nmemory = \"128MiB\"\nprocesses = 8\noutput = \"64KiB\"\nhost_calls = 2\n";
    let functions = "[functions.ask]\nmax_calls = 2\n";
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let mut origin = engine
        .session_with(policy("process", limits, functions))
        .function("ask", "Seven.", |Nothing {}: Nothing| Ok::<i64, HostError>(7))
        .open()
        .expect("granted");
    let spend = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass\n\
                 print('x' * 60000)\nask() + ask()";
    assert_eq!(run(&mut origin, spend).await, "completed Int(14)");
    let mut branches = origin.fork(3).await.expect("forked");
    for branch in &mut branches {
        assert_eq!(run(branch, spend).await, "completed Int(14)");
    }
    assert_eq!(run(&mut origin, "try: ask()\nexcept PermissionError: 1\n").await, "completed None");
    // Each may have as many processes as the policy says, where each has a group.
    if support::has_groups() {
        let many = "import os, time\nmade = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n        \
                    made += 1\nexcept BlockingIOError: pass\nmade";
        for branch in &mut branches {
            assert_eq!(run(branch, many).await, "completed Int(7)");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_forked_says_why() {
    let engine = engine();
    let mut origin = session(&engine);
    assert_eq!(refused(origin.fork(2).await), "a session that ran nothing has no state to fork");
    assert_eq!(run(&mut origin, "x = 1").await, "completed None");
    for count in [0, 101] {
        let want = format!("a fork makes 1 to 100 sessions, and not {count}");
        assert_eq!(refused(origin.fork(count).await), want);
    }
    origin.freeze().expect("it can stand still");
    assert_eq!(refused(origin.fork(2).await), "the session is frozen; thaw it first");
    origin.thaw().expect("it can go on");
    let because = async |origin: &mut Session, code: &str, why: &str| {
        assert_eq!(run(origin, code).await, "completed None", "{code}");
        assert_eq!(refused(origin.fork(2).await), format!("the session can't be forked: {why}"));
    };
    let thread =
        "import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait, daemon=True)\nt.start()";
    let why = "it has 1 threads besides its first, which a fork would lose; let them end first";
    because(&mut origin, thread, why).await;
    assert_eq!(run(&mut origin, "go.set()\nt.join()").await, "completed None");
    let files = "files = []\ntry:\n    while True: files.append(open('/dev/null'))\nexcept OSError: pass";
    let why = "no descriptor is left for its socket and pipes; close files, or raise `limits.open_files`";
    because(&mut origin, files, why).await;
    assert_eq!(run(&mut origin, "for file in files: file.close()").await, "completed None");
    let task = "import asyncio\nlater = asyncio.ensure_future(asyncio.sleep(60))\nawait asyncio.sleep(0)";
    let why = "tasks of its event loop are under way, which a fork would lose; await them first";
    because(&mut origin, task, why).await;
    assert_eq!(run(&mut origin, "later.cancel()\nawait asyncio.sleep(0)").await, "completed None");
    assert_eq!(origin.fork(2).await.expect("forked").len(), 2, "after all that");
    let network = "[network]\nallow = [{ host = \"example.com\", ports = [443] }]\n";
    let mut online = engine.session(policy("process", LIMITS, network)).expect("granted");
    assert_eq!(run(&mut online, "x = 1").await, "completed None");
    assert!(
        refused(online.fork(1).await).starts_with("the session can't be forked: its branches would share one line out")
    );
}

/// What a program registers with `os.register_at_fork`, and its loop, in each branch.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_begins_as_a_forked_process_of_python_does() {
    let engine = engine();
    let code = "import os, asyncio, threading\nseen = []\n\
                os.register_at_fork(before=lambda: seen.append('before'), after_in_child=lambda: seen.append('child'), \
                after_in_parent=lambda: seen.append('parent'))\nawait asyncio.sleep(0)\nlock = threading.Lock()";
    let (mut origin, mut branches) = forked(&engine, code, 2).await;
    let look = "await asyncio.sleep(0.001)\nwith lock: pass\nseen";
    for branch in &mut branches {
        let want = "completed List([Str(\"before\"), Str(\"child\")])";
        assert_eq!(run(branch, look).await, want);
    }
    assert_eq!(run(&mut origin, look).await, "completed List([])");
    let children = "try: os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError: seen.append('none')\nseen";
    assert_eq!(run(&mut origin, children).await, "completed List([Str(\"none\")])", "branches are nobody's children");
}

/// What all in one place share, and what each has: said in `limitations/process.md`.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_shared_and_the_difference_too() {
    let engine = engine();
    let stage = tempfile::tempdir().expect("a folder");
    std::fs::write(stage.path().join("a"), "a").expect("written");
    let mount = format!("mounts = [{{ host = {:?}, at = \"/data\", mode = \"cow\" }}]\n", stage.path());
    let files = format!("[filesystem]\nworkspace = \"8MiB\"\n{mount}");
    let mut origin = engine.session(policy("process", LIMITS, &files)).expect("granted");
    assert_eq!(run(&mut origin, "x = open('/workspace/x', 'w').write('one')").await, "completed None");
    let mut branches = origin.fork(2).await.expect("forked");
    branches[0].put_file("/workspace/y", b"two".to_vec()).await.expect("put");
    let write = "open('/data/a', 'w').write('b') + len(open('/workspace/x').read() + open('/workspace/y').read())";
    assert_eq!(run(&mut branches[1], write).await, "completed Int(7)");
    drop((origin, branches.remove(1)));
    assert_eq!(branches[0].changed_file("/data/a").await.expect("it is there"), b"b");
    assert_eq!(branches[0].get_file("/workspace/y").await.expect("it is there"), b"two");
    assert_eq!(std::fs::read_to_string(stage.path().join("a")).expect("there"), "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stands_still_runs_commands_and_is_metered_for_itself() {
    let engine = engine();
    let (mut origin, mut branches) = forked(&engine, "spent = 0", 2).await;
    let busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass";
    let usage = branches[0].run(busy).await.expect("recorded").usage;
    assert!((250.0..5000.0).contains(&usage.cpu_ms), "{usage:?}");
    let usage = branches[1].run("1").await.expect("recorded").usage;
    assert!(usage.cpu_ms < 250.0 && usage.peak_memory < 64 << 20, "{usage:?}");
    branches[0].freeze().expect("it can stand still");
    assert_eq!(run(&mut branches[1], "spent += 1\nspent").await, "completed Int(1)");
    assert_eq!(run(&mut origin, "spent").await, "completed Int(0)");
    branches[0].thaw().expect("it can go on");
    assert_eq!(run(&mut branches[0], "spent").await, "completed Int(0)");
    let command = ringfence::Command::new(["sh", "-c", "echo from below; exit 4"]).expect("a command");
    let outcome = branches[0].exec(command).await.expect("recorded");
    assert_eq!((outcome.exit_code, outcome.stdout.as_str()), (Some(4), "from below\n"), "{outcome:?}");
    let endless = ringfence::Command::new(["sleep", "91919"]).expect("a command");
    let handle = branches[0].handle();
    let kill = std::thread::spawn(move || {
        until(|| sleeping("91919") == 1);
        handle.kill("a test");
    });
    assert_eq!(branches[0].exec(endless).await.expect("recorded").status, Status::Killed);
    kill.join().expect("no panic");
    until(|| sleeping("91919") == 0);
    assert_eq!(run(&mut branches[1], "spent").await, "completed Int(1)");
}

/// A branch of a branch, and so on: the kernel bounds how deep.
#[tokio::test(flavor = "multi_thread")]
async fn forks_in_a_row_have_a_bound_that_is_told() {
    let engine = engine();
    let (mut last, _) = forked(&engine, "depth = 0", 1).await;
    let mut kept = Vec::new();
    let why = loop {
        match last.fork(1).await {
            Ok(mut made) => kept.push(std::mem::replace(&mut last, made.remove(0))),
            Err(error) => break error.to_string(),
        }
        assert!(kept.len() < 32, "it has a bound");
    };
    let want = "the session can't be forked: a branch can't begin: [Errno 7] it was forked too often in a row (Argument \
                list too long)";
    assert_eq!((why.as_str(), kept.len() >= 10), (want, true), "{}", kept.len());
    assert_eq!(run(&mut last, "depth").await, "completed Int(0)");
}

/// A program that keeps the session's socket under another number has one that nobody listens to.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_can_not_speak_for_the_session_that_it_came_from() {
    let engine = engine();
    let (mut origin, mut branches) = forked(&engine, "import os\nkept = os.dup(3)\nasked = 0", 1).await;
    let speak = "import threading, time\ndef speak():\n    try:\n        os.write(kept, b'\\xff' * 64)\n    except OSError as e:\n        \
                 global asked\n        asked = e.errno\nspeak()\nasked";
    assert_eq!(run(&mut branches[0], speak).await, format!("completed Int({})", 32));
    assert_eq!(run(&mut origin, "asked").await, "completed Int(0)");
    assert_eq!(run(&mut origin, "os.write(kept, b'x')").await, "raised BrokenPipeError");
}

/// Until a branch is in its own group it would count for the session; and what it takes of memory is told.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_session_bound_no_number_of_branches_but_its_memory_does() {
    let engine = engine();
    let open = |limits: &str| engine.session(policy("process", limits, "")).expect("granted");
    let mut few = open("wall = \"20s\"\nmemory = \"256MiB\"\nprocesses = 4\n");
    assert_eq!(run(&mut few, "x = 1").await, "completed None");
    if !support::has_groups() {
        // There they are counted together, and no memory is.
        let why = refused(few.fork(12).await);
        assert!(why.contains("`limits.processes` may be too low"), "{why}");
        return;
    }
    let mut branches = few.fork(12).await.expect("forked");
    assert_eq!(run(branches.last_mut().expect("twelve"), "x").await, "completed Int(1)");
    let mut small = open("wall = \"20s\"\nmemory = \"16MiB\"\nprocesses = 4\n");
    assert_eq!(run(&mut small, "x = 1").await, "completed None");
    let why = refused(small.fork(100).await);
    assert!(why.contains("it ran out of memory while it forked"), "{why}");
}

/// No boundary of a jail stands between branches; but none can signal or look into another that was forked beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_reaches_no_other_process() {
    let engine = engine();
    let (mut origin, mut branches) = forked(&engine, "import os, signal\nsecret = 'canary'", 2).await;
    let Ok(Some(Value::Int(origins))) = origin.run("os.getpid()").await.map(|outcome| outcome.value) else {
        panic!("a number")
    };
    let Ok(Some(Value::Int(others))) = branches[1].run("os.getpid()").await.map(|outcome| outcome.value) else {
        panic!("a number")
    };
    let limits = format!(
        "import resource\ntold = []\nfor pid in ({origins}, {others}):\n    for way in (lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0)),\n                lambda: os.sched_setaffinity(pid, {{0}}),\n                lambda: os.setpriority(os.PRIO_PROCESS, pid, 19), lambda: os.setpriority(os.PRIO_USER, 0, 19)):\n        \
         try:\n            way()\n            told.append('reached')\n        except PermissionError:\n            told.append('no')\n\
         os.nice(1), os.sched_setaffinity(0, os.sched_getaffinity(0)), resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\ntold"
    );
    assert_eq!(run(&mut branches[0], &limits).await, format!("completed List([{}])", ["Str(\"no\")"; 8].join(", ")));
    let reach = format!(
        "told = []\nfor pid in ({origins}, {others}):\n    for way in (lambda: os.kill(pid, 0), lambda: open(f'/proc/{{pid}}/mem', 'rb'),\n                lambda: os.readlink(f'/proc/{{pid}}/fd/3')):\n        \
         try:\n            way()\n            told.append('reached')\n        except (PermissionError, FileNotFoundError):\n            told.append('no')\ntold"
    );
    assert_eq!(run(&mut branches[0], &reach).await, format!("completed List([{}])", ["Str(\"no\")"; 6].join(", ")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_writes_its_state_down_forks_too() {
    let engine = engine();
    let mut origin = engine
        .session_with(policy("embedded", "wall = \"5s\"\n", ""))
        .engine(ringfence::call::Engine::Monty)
        .open()
        .expect("granted");
    assert_eq!(run(&mut origin, "x = [1, 2]").await, "completed None");
    for branch in &mut origin.fork(3).await.expect("forked") {
        assert_eq!(run(branch, "x.append(3)\nlen(x)").await, "completed Int(3)");
    }
    assert_eq!(run(&mut origin, "len(x)").await, "completed Int(2)");
    let rustpython = engine.session_with(policy("embedded", "wall = \"5s\"\n", ""));
    let mut other = rustpython.engine(ringfence::call::Engine::Rustpython).open().expect("granted");
    assert_eq!(run(&mut other, "x = 1").await, "completed None");
    let want =
        "the engine `rustpython` has no snapshots with the rustpython engine; open the session with the engine `monty`";
    assert_eq!(refused(other.fork(1).await), want);
}

/// What a program that was taken over may say by its own descriptor costs itself, and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_lies_of_forks_ends_itself_only() {
    let engine = engine();
    let frame = "import os, struct\ndef say(n): os.write(3, struct.pack('<IBI', 4, 14, n))\n";
    // Unasked, in a run.
    let (_origin, mut branches) = forked(&engine, frame, 2).await;
    let outcome = branches[0].run("say(0)").await.expect("recorded");
    assert_eq!(outcome.status, Status::Crashed, "{:?}", outcome.reason);
    assert_eq!(run(&mut branches[1], "1").await, "completed Int(1)");
    // More, or fewer, than was asked for; and a process that is none.
    let lies = [("waits", "say(5)"), ("says at once that all is done", "say(2)")];
    for (what, lie) in lies {
        let mut origin = session(&engine);
        let code = format!(
            "{frame}import sys\nlink = sys.modules['ringfence_guest.link'].Link\n\
                            sys.modules['ringfence_guest.branches'].Branches.make = lambda *_: {lie}"
        );
        assert_eq!(run(&mut origin, &code).await, "completed None", "{what}");
        let want = "the process worker broke the protocol: it forked another number than it was asked to";
        assert_eq!(refused(origin.fork(2).await), want, "{what}");
        assert_eq!(origin.run("1").await.expect("recorded").status, Status::Crashed, "{what}");
        assert_eq!(run(&mut branches[1], "1").await, "completed Int(1)");
    }
    // The session itself, as the branch.
    let mut origin = session(&engine);
    let code = format!(
        "{frame}branches = sys.modules['ringfence_guest.branches']\n\
         def lie(self, given):\n    os.write(given[0], struct.pack('<IBI', 4, 0, 2))\n    return False\n\
         branches.Branches._branch = lie"
    );
    assert_eq!(run(&mut origin, &format!("import sys\n{code}")).await, "completed None");
    let want = "the process worker broke the protocol: a branch is no process of the session's that could be one";
    assert_eq!(refused(origin.fork(1).await), want);
    assert_eq!(run(&mut branches[1], "1").await, "completed Int(1)");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_branch_begins_with_what_it_was_forked_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log.jsonl");
    let engine = Engine::builder().worker(support::program()).warm(1).audit(ringfence::AuditTo::File(log.clone()));
    let engine = engine.build().expect("an engine");
    let (origin, mut branches) = forked(&engine, "x = 1", 1).await;
    let branch = branches.remove(0).handle().session().to_string();
    let from = origin.handle().session().to_string();
    drop((origin, branches, engine));
    let verified = std::process::Command::new(support::program()).args(["audit", "verify"]).arg(&log).output();
    let verified = verified.expect("started");
    assert!(verified.status.success(), "{verified:?}");
    let records = records(&log);
    let of_branch: Vec<_> = records.iter().filter(|record| record["session"] == branch.as_str()).collect();
    let names: Vec<_> = of_branch.iter().filter_map(|record| record["event"].as_str()).collect();
    assert_eq!(names, ["session_forked", "granted", "cell_opened", "session_closed"]);
    assert_eq!(of_branch[0]["detail"], serde_json::json!({"from": from, "runs": 1}));
    let lines = of_branch[2]["detail"]["enforcement"].as_array().expect("a list");
    let others = lines.iter().find(|line| line["what"] == "other branches").expect("it is told");
    let why = "files and the numbers of processes are shared with the session that it was forked from";
    assert_eq!((&others["level"], &others["why"]), (&"partial".into(), &why.into()));
}

fn records(log: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(log).expect("there is a log");
    text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

/// What ends in moments, looked at until it has.
fn until(is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "it does not come about");
        std::thread::yield_now();
    }
}

fn lines() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("there is one").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

fn sleeping(word: &str) -> usize {
    lines().iter().filter(|line| line.starts_with(&format!("sleep {word}"))).count()
}

/// Processes that came from this one.
fn inside() -> usize {
    support::below(std::process::id()).len()
}

/// Control groups of this process's sessions.
fn groups() -> usize {
    let roots = ["memory", "pids", "cpuacct", "freezer", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let entries = roots.iter().filter_map(|root| std::fs::read_dir(root).ok()).flat_map(Iterator::flatten);
    let own = format!("ringfence-{}-", std::process::id());
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
}

/// Without control groups, and with his own rights.
#[test]
fn the_same_as_an_ordinary_user() {
    support::again_as_an_ordinary_user("the_same_as_an_ordinary_user");
}
