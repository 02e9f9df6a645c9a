//! Output in order, threads, subprocesses and multiprocessing.
//!
//! Answers to: what a program's reader would see on a terminal.

use crate::support::Guest;

#[test]
fn output_is_handed_on_as_it_is_written() {
    let mut guest = Guest::new();
    for (code, want) in [
        ("print('a', 1, sep='-')", "a-1\n"),
        ("import sys\nsys.stdout.write('x'); sys.stdout.flush(); sys.stdout.buffer.write(b'y\\xc3\\xa9')", "xyé"),
        ("import sys\nprint(sys.stdout.isatty(), sys.stdout.encoding, sys.stdin.isatty())", "False utf-8 False\n"),
        ("print('\\ud800 \\udcff')", "\\ud800 \u{fffd}\n"),
        ("import os\n_ = os.write(1, b'raw\\n')", "raw\n"),
        (
            "import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): print('in')\nprint(b.getvalue().upper())",
            "IN\n\n",
        ),
        ("sys.stdout.writelines(['a', 'b'])\nprint('c', file=sys.stdout, flush=True)", "abc\n"),
        ("print(sys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.name, sys.stdout.mode)", "1 2 <stdout> w\n"),
        ("_ = sys.stdout.buffer.raw.write(memoryview(b'ab'))", "ab"),
        (
            "sys.stdout.reconfigure(write_through=True)\nprint('a', end='')\nsys.stdout.reconfigure(write_through=False)",
            "a",
        ),
    ] {
        guest.prints(code, want);
    }
    let ran = guest.run("import logging\nprint('e', file=sys.stderr)\nlogging.warning('w')");
    assert_eq!(ran.err, "e\nWARNING:root:w\n");
    let ran = guest.run("print('x' * 1_000_000); print('y' * 100, end='')");
    assert_eq!(ran.out.len(), 1_000_101);
    let ran = guest.run("for n in range(5000): print(n)");
    assert_eq!(ran.out, (0..5000).map(|n| format!("{n}\n")).collect::<String>());
    let ran = guest.run("for n in range(50): print(n); print(n, file=sys.stderr)");
    assert_eq!(ran.both, (0..50).map(|n| format!("{n}\n{n}\n")).collect::<String>());
}

#[test]
fn output_and_calls_keep_their_order() {
    let mut guest = Guest::new();
    guest.sees("print('a', end=''); same(1); print('b', end=''); display(1); print('c')", "a[call]b[shown]c\n");
}

#[test]
fn a_process_that_is_started_writes_after_what_was_printed() {
    let mut guest = Guest::new();
    for code in [
        "import subprocess\nfor n in range(20):\n    print(n, 'a'); _ = subprocess.run(['sh', '-c', f'echo {n} b; echo {n} c >&2'])",
        "import os\nfor n in range(20):\n    print(n, 'a'); _ = os.system(f'echo {n} b; echo {n} c >&2')",
        "import os\nfor n in range(20):\n    print(n, 'a'); _ = os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', f'echo {n} b; echo {n} c >&2'], os.environ), 0)",
        "import os\nfor n in range(20):\n    print(n, 'a')\n    pid = os.fork()\n    if pid == 0:\n        print(n, 'b'); os.write(2, b'%d c\\n' % n); os._exit(0)\n    _ = os.waitpid(pid, 0)",
        "import os\nfor n in range(20):\n    print(n, 'a')\n    pid = os.fork()\n    if pid == 0: os.execv('/bin/sh', ['sh', '-c', f'echo {n} b; echo {n} c >&2'])\n    _ = os.waitpid(pid, 0)",
    ] {
        let ran = guest.run(code);
        let order = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        // The two pipes have no order between each other.
        let want = |kept: &str| {
            let lines = (0..20).flat_map(|n| ["a", "b", "c"].map(|at| (n, at)));
            lines.filter(|(_, at)| kept.contains(at)).map(|(n, at)| format!("{n} {at}")).collect::<Vec<_>>()
        };
        assert_eq!(order(&ran.out), want("ab"), "{code}\n{}\n{}", ran.ended, ran.err);
        assert_eq!(order(&ran.err), want("c"), "{code}");
        let ends: Vec<_> = ran.both.lines().filter(|line| !line.ends_with('c')).map(str::to_owned).collect();
        assert_eq!(ends, want("ab"), "{code}");
    }
    guest.check(
        "print('x', end='')\nsubprocess = __import__('subprocess')\nsubprocess.check_output(['echo', 'b'])",
        "Bytes([98, 10])",
    );
}

#[test]
fn threads_are_waited_for_as_at_the_end_of_a_program() {
    let mut guest = Guest::new();
    guest.prints(
        "import threading, time\ndef work():\n    time.sleep(0.05)\n    print('worked')\nthreading.Thread(target=work).start()",
        "worked\n",
    );
    let ran = guest.run(
        "ts = [threading.Thread(target=print, args=(n,)) for n in range(30)]\nfor t in ts: t.start()\nfor t in ts: t.join()\nprint('all')",
    );
    let mut lines: Vec<_> = ran.out.lines().collect();
    assert_eq!(lines.pop(), Some("all"));
    lines.sort_by_key(|line| line.parse::<u32>().expect("a whole line"));
    assert_eq!(lines, (0..30).map(|n| n.to_string()).collect::<Vec<_>>());
    let ran = guest.run("t = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()");
    assert!(ran.err.ends_with("ZeroDivisionError: division by zero\n"), "{}", ran.err);
}

#[test]
fn multiprocessing_works_by_every_method() {
    for method in ["fork", "spawn", "forkserver"] {
        let mut guest = Guest::new();
        guest.check("def triple(n): return 3 * n", "None");
        let code = format!(
            concat!(
                "import multiprocessing as mp\ndef double(n): return 2 * n\n",
                "def say(n): print('child', n)\n",
                "if __name__ == '__main__':\n",
                "    c = mp.get_context('{}')\n    print('before')\n",
                "    p = c.Process(target=say, args=(1,)); p.start(); p.join()\n",
                "    print('between')\n",
                "    with c.Pool(2) as pool: r = pool.map(double, range(4)) + pool.map(triple, [1])\n",
                "    print('after')\n",
                "r if __name__ == '__main__' else None"
            ),
            method
        );
        let ran = guest.run(&code);
        assert_eq!(ran.ended, "List([Int(0), Int(2), Int(4), Int(6), Int(3)])", "{method}\n{}", ran.err);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("before\nchild 1\nbetween\nafter\n", ""), "{method}");
        guest.check("import os; os.listdir()", "List([])");
        guest.check(
            "import concurrent.futures\nwith concurrent.futures.ProcessPoolExecutor(2, mp_context=mp.get_context('fork')) as e: r = list(e.map(double, [1, 2]))\nr",
            "List([Int(2), Int(4)])",
        );
    }
}

#[test]
fn a_process_left_alone_is_waited_for() {
    let mut guest = Guest::new();
    guest.prints(
        "import multiprocessing as mp, time\ndef late():\n    time.sleep(0.05); print('late')\nmp.get_context('fork').Process(target=late).start()",
        "late\n",
    );
}

#[test]
fn files_left_open_are_written() {
    let mut guest = Guest::new();
    guest.check("import io\nf = io.open('left.txt', 'w')\nf.write('abc')", "Int(3)");
    let path = guest.path("left.txt");
    assert_eq!(guest.file(ringfence_types::FileOp::Get { path }), "\"abc\"");
}
