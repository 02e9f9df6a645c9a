//! Exceptions, syntax errors and exits, as the host is told them.
//!
//! Answers to: the same tables as the other engines where they have them.

use ringfence_types::Source;

use crate::support::Guest;

#[test]
fn leaving_does_not_end_the_session() {
    let mut guest = Guest::new();
    guest.check("import sys; sys.exit()", "SystemExit:  @main.py:1 <module> `import sys; sys.exit()` exit 0");
    guest.check("sys.exit(3)", "SystemExit: 3 @main.py:1 <module> `sys.exit(3)` exit 3");
    guest.check("exit(2)", "SystemExit: 2 @main.py:1 <module> `exit(2)` exit 2");
    guest.check("sys.exit(True)", "SystemExit: True @main.py:1 <module> `sys.exit(True)` exit 1");
    guest.check("sys.exit(2**40)", "SystemExit: 1099511627776 @main.py:1 <module> `sys.exit(2**40)` exit -1");
    let ran = guest.run("sys.exit('bad news')");
    assert_eq!(ran.ended, "SystemExit: bad news @main.py:1 <module> `sys.exit('bad news')` exit 1");
    assert_eq!(ran.err, "bad news\n");
    guest.check("import threading\nt = threading.Thread(target=sys.exit)\nt.start()\nt.join()\n1 + 1", "Int(2)");
}

#[test]
fn exceptions_tell_their_own_frames_causes_and_notes() {
    let mut guest = Guest::new();
    for (code, want) in [
        (
            "def f(x):\n    return 1 / x\nf(0)",
            "ZeroDivisionError: division by zero @main.py:3 <module> `f(0)` @main.py:2 f `return 1 / x`",
        ),
        (
            "try:\n    {}['a']\nexcept KeyError as e:\n    raise RuntimeError('wrapped') from e",
            concat!(
                "RuntimeError: wrapped @main.py:4 <module> `raise RuntimeError('wrapped') from e`",
                " <- KeyError: 'a' @main.py:2 <module> `{}['a']`"
            ),
        ),
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('v') from None",
            "ValueError: v @main.py:4 <module> `raise ValueError('v') from None`",
        ),
        (
            "e = ValueError('v'); e.__notes__ = ['look here']; raise e",
            "ValueError: v @main.py:1 <module> `e = ValueError('v'); e.__notes__ = ['look here']; raise e` note look here",
        ),
        (
            "class Bad(Exception):\n    def __str__(self): raise SystemExit\nraise Bad",
            "Bad: <exception str() failed> @main.py:3 <module> `raise Bad`",
        ),
        (
            "import json\njson.loads('{')",
            concat!(
                "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
                " @main.py:2 <module> `json.loads('{')`"
            ),
        ),
        ("def g():\n    raise ValueError('from before')", "None"),
        (
            "\n\n\n\ng()",
            "ValueError: from before @main.py:5 <module> `g()` @main.py:2 g `raise ValueError('from before')`",
        ),
        (
            "import nowhere_at_all",
            "ModuleNotFoundError: No module named 'nowhere_at_all' @main.py:1 <module> `import nowhere_at_all`",
        ),
        ("raise KeyboardInterrupt", "KeyboardInterrupt:  @main.py:1 <module> `raise KeyboardInterrupt`"),
        ("raise MemoryError", "MemoryError:  @main.py:1 <module> `raise MemoryError`"),
        (
            "open_really = __import__('io').open\nopen_really('helper.py', 'w').write('def h():\\n    return 1 / 0')\nimport helper\nhelper.h()",
            concat!(
                "ZeroDivisionError: division by zero @main.py:4 <module> `helper.h()`",
                " @WORKSPACE/helper.py:2 h `return 1 / 0`"
            ),
        ),
    ] {
        let want = want.replace("WORKSPACE", &guest.folder.0.join("workspace").display().to_string());
        guest.check(code, &want);
    }
}

#[test]
fn long_failures_are_cut() {
    let mut guest = Guest::new();
    let ran = guest.run("raise ValueError('x' * 100_000)");
    let text = ran.ended.split(" @").next().expect("a message");
    assert_eq!(text.len(), "ValueError: ".len() + (64 << 10) + "…".len());
    let deep = "def f(n): return f(n - 1) if n else 1 / 0\nf(500)";
    assert_eq!(guest.run(deep).ended.matches(" @main.py").count(), 100);
    let ran = guest.run("def f(): return f()\nf()");
    assert!(ran.ended.starts_with("RecursionError: maximum recursion depth exceeded"), "{}", ran.ended);
    assert_eq!(ran.ended.matches(" @main.py").count(), 100);
    let chain = "e = None\nfor n in range(30):\n    new = ValueError('y' * 100_000 + str(n)); new.__cause__ = e; e = new\nraise e";
    assert_eq!(guest.run(chain).ended.matches(" <- ").count(), 1);
    let chain = "e = None\nfor n in range(30):\n    new = ValueError(n); new.__cause__ = e; e = new\nraise e";
    assert_eq!(guest.run(chain).ended.matches(" <- ").count(), 7);
    guest.check("1 + 1", "Int(2)");
}

#[test]
fn sources_that_do_not_compile_are_syntax_errors() {
    let mut guest = Guest::new();
    guest.check("x = 1\ny = = 2", "SyntaxError: invalid syntax @main.py:2 <module> `y = = 2`");
    guest.check("return 1", "SyntaxError: 'return' outside function @main.py:1 <module> `return 1`");
    let ran = guest.run("if 1:\nx");
    assert!(
        ran.ended.ends_with("@main.py:2 <module> `x`") && ran.ended.starts_with("IndentationError: "),
        "{}",
        ran.ended
    );
    guest.check(
        "eval('1 = = 1')",
        "SyntaxError: invalid syntax (<string>, line 1) @main.py:1 <module> `eval('1 = = 1')`",
    );
    let ran = guest.run_source(Source { file: "other.py".to_owned(), ..Source::new("1 / 0") });
    assert_eq!(ran.ended, "ZeroDivisionError: division by zero @other.py:1 <module> `1 / 0`");
}

#[test]
fn await_works_at_the_top() {
    let mut guest = Guest::new();
    for (code, want) in [
        ("await later(5)", "Int(5)"),
        ("x: int = await later(1)\ny = x + 1\ny", "Int(2)"),
        ("(x, y)", "Tuple([Int(1), Int(2)])"),
        (
            "import asyncio\nasync def w(n):\n    await asyncio.sleep(0)\n    return n\nawait asyncio.gather(w(1), w(2))",
            "List([Int(1), Int(2)])",
        ),
        ("[await later(n) for n in range(3)]", "List([Int(0), Int(1), Int(2)])"),
        ("await later(1)\n1 / 0", "ZeroDivisionError: division by zero @main.py:2 <module> `1 / 0`"),
        (
            "async def agen():\n    yield 1\n    yield 2\nout = []\nasync for item in agen():\n    out.append(item)\nout",
            "List([Int(1), Int(2)])",
        ),
        (
            "def f(): return y\nz = await later(f())\nfor i in range(2): pass\nclass K: v = z\n(f(), i, K.v)",
            "Tuple([Int(2), Int(1), Int(2)])",
        ),
        ("queue = asyncio.Queue()\nawait queue.put(3)", "None"),
        ("await queue.get()", "Int(3)"),
        ("l = asyncio.get_event_loop(); await asyncio.sleep(0); l is asyncio.get_running_loop()", "Bool(true)"),
        ("import sys\nawait asyncio.sleep(0)\nsys.exit(4)", "SystemExit: 4 @main.py:3 <module> `sys.exit(4)` exit 4"),
        ("await later(6)", "Int(6)"),
    ] {
        guest.check(code, want);
    }
}

#[test]
fn a_warning_shows_the_line_of_its_own_snippet() {
    let mut guest = Guest::new();
    guest.check("first = 'of the snippet before'", "None");
    let ran = guest.run("1 is 1");
    assert!(ran.err.contains("SyntaxWarning") && ran.err.contains("\n  1 is 1"), "{}", ran.err);
    // What can't be compiled leaves the lines of those before.
    guest.check("def f():\n    return 1 / 0", "None");
    guest.run("1 +");
    let ran = guest.run("import traceback\ntry: f()\nexcept ZeroDivisionError: traceback.print_exc()");
    assert!(ran.err.contains("ZeroDivisionError"), "{}", ran.err);
}
