//! Programs that break what the driver stands on, hosts that break the form, and operations on files.
//!
//! Answers to: nobody is harmed, and the next snippet runs.

use ringfence_types::{FileOp, GuestPath, Source};
use ringfence_wire::{FromGuest, ToGuest};

use crate::support::Guest;

#[test]
fn the_next_snippet_runs_whatever_this_one_did() {
    for code in [
        "import sys\ndel sys.stdout, sys.stderr, sys.stdin",
        "import sys\nsys.stdout = sys.stderr = None",
        "import sys\nsys.stdout.close(); sys.stderr.close()",
        "import sys\nsys.stdout.detach()",
        "import io, sys\nsys.stdout = io.open('log.txt', 'w')\nprint('in the log')\nsys.stdout.close()",
        "import io, sys\nwith io.open('log.txt', 'w') as sys.stdout: print('in the log')",
        "import os\nos.close(1); os.close(2); os.close(0)",
        "import os\nos.chdir('/')",
        "import sys\nsys.settrace(lambda *_: 1 / 0)",
        "import sys\nsys.setprofile(lambda *_: 1 / 0)",
        "import sys\ndef bad(*_): raise ValueError\nsys.settrace(bad)",
        "import sys\nsys.setrecursionlimit(60)",
        "import gc\ngc.disable()",
        "import warnings\nwarnings.simplefilter('error')",
        "import json, io, struct, os, linecache, threading, select\nfor m in (json, io, struct, os, linecache, threading, select):\n    for name in list(vars(m)):\n        if not name.startswith('__'): setattr(m, name, None)",
        "import sys\ndel sys.modules['__main__']\nsys.path.clear(); sys.meta_path.clear()",
        "import signal\nfor n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)",
        "import signal, os\nsignal.signal(signal.SIGTERM, lambda *_: 1 / 0)\nos.kill(os.getpid(), signal.SIGTERM)",
        "globals().clear()",
        "import threading\n[threading.Thread(target=lambda: 1 / 0, daemon=True).start() for _ in range(4)]",
        "import faulthandler, sys\nfaulthandler.enable()",
        "import sys\nsys.excepthook = sys.displayhook = None",
        "import asyncio\nasyncio.set_event_loop(None)",
        "import sys\nsys.flags = sys.argv = sys.path = None",
        "import signal, time\nsignal.signal(signal.SIGALRM, lambda *_: 1 / 0)\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\ntime.sleep(1)",
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))",
    ] {
        let mut guest = Guest::new();
        guest.run(code);
        guest.check("6 * 7", "Int(42)");
        let ran = guest.run("import sys; sys.stdout.write('still here\\n'); same(8)");
        assert_eq!((ran.ended.as_str(), ran.out.as_str()), ("Int(8)", "still here\n"), "{code}\n{}", ran.err);
    }
}

/// What no program could go on from; the session still answers.
#[test]
fn a_session_without_builtins_or_modules_still_answers() {
    for code in [
        "import builtins\nbuiltins.print = None\nfor name in ('len', 'isinstance', 'type', 'list', 'range', 'vars', 'compile', 'exec', 'eval', 'memoryview', 'bytes', 'str', 'dict', 'getattr', '__import__', 'repr'): setattr(builtins, name, None)\n__builtins__ = builtins",
        "import sys\nsys.modules.clear()",
    ] {
        let mut guest = Guest::new();
        guest.run(code);
        guest.check("6 * 7", "Int(42)");
        guest.check("same(8)", "Int(8)");
    }
}

#[test]
fn a_handler_that_raises_tears_no_frame() {
    let mut guest = Guest::new();
    guest.check(
        concat!(
            "import signal\nclass Late(Exception): pass\ndef late(*_): raise Late\n",
            "signal.signal(signal.SIGALRM, late)\ncount = 0\n",
            "for n in range(300):\n    try:\n        signal.setitimer(signal.ITIMER_REAL, 0.0001 * (n % 30 + 1))\n",
            "        while True: same('x' * 50_000)\n    except Late: count += 1\ncount"
        ),
        "Int(300)",
    );
    guest.check("same(5)", "Int(5)");
    // A handler that calls the host itself, in the middle of calls.
    guest.check(
        concat!(
            "seen = []\nsignal.signal(signal.SIGALRM, lambda *_: seen.append(same(len(seen))))\n",
            "while len(seen) < 8:\n    before = len(seen)\n    signal.setitimer(signal.ITIMER_REAL, 0.0001 * (len(seen) % 20 + 1))\n",
            "    while len(seen) == before: same('x' * 10_000)\n",
            "seen == list(range(8))"
        ),
        "Bool(true)",
    );
}

#[test]
fn a_handler_may_go_off_between_two_snippets() {
    let mut guest = Guest::new();
    guest.check("import signal, os\nsignal.signal(signal.SIGALRM, lambda *_: 1 / 0)\nsignal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)", "Tuple([Float(0.0), Float(0.0)])");
    for _ in 0..20 {
        let ran = guest.run("x = sum(range(100))");
        let known = ran.ended == "None" || ran.ended.starts_with("ZeroDivisionError: division by zero");
        assert!(known, "{}", ran.ended);
    }
}

#[test]
fn ending_the_process_is_seen_with_what_was_printed() {
    let mut guest = Guest::new();
    let ran = guest.run("import os\nfor n in range(2000): print(n)\nos._exit(3)");
    assert_eq!((ran.ended.as_str(), ran.out.lines().count()), ("gone", 2000));
    assert_eq!(guest.exit_code(), Some(3));
}

#[test]
fn the_process_ends_with_its_host_and_where_the_form_is_broken() {
    for (bytes, code) in [
        (vec![0, 0, 0, 0, 9], 70),
        (vec![255, 255, 255, 255, 1], 70),
        (vec![1, 0, 0, 0, 2, 0], 70),
        (vec![2, 0, 0, 0, 1, 0, 0], 70),
        (vec![1, 0, 0, 0, 5, 9], 70),
        (ToGuest::Snapshot.encode(), -1),
    ] {
        let mut guest = Guest::new();
        guest.send_bytes(&bytes);
        if code == -1 {
            assert_eq!(guest.frame(), Some(FromGuest::Unsupported("a snapshot".to_owned(), None)));
            continue;
        }
        assert_eq!(guest.frame(), None);
        assert_eq!(guest.exit_code(), Some(code), "{bytes:?}");
    }
    let mut guest = Guest::new();
    guest.hang_up();
    assert_eq!(guest.exit_code(), Some(0));
}

#[test]
fn exit_handlers_of_the_program_are_not_run() {
    let mut guest = Guest::new();
    guest.check("import atexit, io\n_ = atexit.register(lambda: io.open('ran.txt', 'w').close())", "None");
    guest.hang_up();
    assert_eq!(guest.exit_code(), Some(0));
    assert!(!guest.folder.0.join("workspace/ran.txt").exists());
}

#[test]
fn files_are_put_fetched_listed_and_removed() {
    let mut guest = Guest::new();
    let base = guest.path("").to_string();
    let at = |name: &str| GuestPath::resolve(&format!("{base}/{name}")).expect("a good path");
    let put =
        |name: &str, content: &[u8], read_only| FileOp::Put { path: at(name), content: content.to_vec(), read_only };
    assert_eq!(guest.file(put("a/b/c.txt", b"one\n", false)), "Some(Filed(Done))");
    assert_eq!(guest.file(put("ro.txt", b"two", true)), "Some(Filed(Done))");
    assert_eq!(guest.file(put("ro.txt", b"three", true)), "Some(Filed(Done))");
    assert_eq!(guest.file(FileOp::Get { path: at("ro.txt") }), "\"three\"");
    assert_eq!(guest.file(FileOp::List { path: at("") }), "/workspace/a 0/, /workspace/ro.txt 5");
    guest.check(
        "import os, io\nio.open('a/b/c.txt').read(), oct(os.stat('ro.txt').st_mode & 0o777)",
        "Tuple([Str(\"one\\n\"), Str(\"0o444\")])",
    );
    guest.check(
        concat!(
            "os.mkfifo('fifo'); os.symlink('/etc', 'link'); os.symlink('/etc/passwd', 'password'); os.link('ro.txt', 'hard')\n",
            "with io.open('large', 'wb') as f: f.truncate(70 << 20)\n",
            "os.mkdir('full'); os.symlink('/etc', 'full/etc'); io.open('full/x', 'w').close(); io.open(b'full/\\xff', 'w').close()"
        ),
        "None",
    );
    let denied = |name: &str| format!("permission denied: `/workspace/{name}`");
    for (op, want) in [
        (FileOp::Get { path: at("fifo") }, denied("fifo")),
        (FileOp::Get { path: at("password") }, denied("password")),
        (FileOp::Get { path: at("link/passwd") }, "`/workspace/link/passwd` is not a folder".to_owned()),
        (FileOp::Get { path: at("hard") }, denied("hard")),
        (FileOp::Get { path: at("none") }, "no such file: `/workspace/none`".to_owned()),
        (FileOp::Get { path: at("a") }, "`/workspace/a` is a folder".to_owned()),
        (FileOp::Get { path: at("large") }, "Some(Limit(Size, 73400320))".to_owned()),
        (FileOp::List { path: at("ro.txt") }, "`/workspace/ro.txt` is not a folder".to_owned()),
        (FileOp::List { path: at("full") }, "/workspace/full/x 0".to_owned()),
        (put("a", b"", false), "`/workspace/a` is a folder".to_owned()),
        (put("link/x", b"", false), "`/workspace/link/x` is not a folder".to_owned()),
        (put("ro.txt/x", b"", false), "`/workspace/ro.txt/x` is not a folder".to_owned()),
        (put("password", b"mine", false), "Some(Filed(Done))".to_owned()),
        (put("fifo", b"mine", false), "Some(Filed(Done))".to_owned()),
        (FileOp::Get { path: at("password") }, "\"mine\"".to_owned()),
        (FileOp::Remove { path: at("full") }, "Some(Filed(Done))".to_owned()),
        (FileOp::Remove { path: at("link") }, "Some(Filed(Done))".to_owned()),
        (FileOp::Remove { path: at("none") }, "no such file: `/workspace/none`".to_owned()),
        (
            FileOp::List { path: at("") },
            "/workspace/a 0/, /workspace/fifo 4, /workspace/hard 5, /workspace/large 73400320, \
             /workspace/password 4, /workspace/ro.txt 5"
                .to_owned(),
        ),
    ] {
        let shown = format!("{op:?}");
        assert_eq!(guest.file(op), want, "{shown}");
    }
    assert!(std::path::Path::new("/etc/passwd").exists());
}

#[test]
fn stdin_is_fresh_for_each_snippet() {
    let mut guest = Guest::new();
    guest.check("import sys\nsys.stdin.close()", "None");
    let ran = guest.run_source(Source { stdin: "again".to_owned(), ..Source::new("input()") });
    assert_eq!(ran.ended, "Str(\"again\")");
}
