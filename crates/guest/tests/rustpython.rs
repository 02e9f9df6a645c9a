//! The RustPython engine against a host that records what is printed and answers calls from a table.
//!
//! Answers to: the contract of `engine.rs`. One interpreter on one thread serves all tests, since the library is for
//! one thread; what a test needs it defines itself.

use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use ringfence_guest::engine::{Ended, Host, Interpreter, Pause};
use ringfence_guest::files::Files;
use ringfence_guest::rustpython::{RustPython, Warm};
use ringfence_types::{
    Call, CallId, FileOp, FunctionSpec, GuestError, GuestException, GuestPath, MimeBundle, Parameter, ParameterKind,
    Record, RecordKind, Source, Stream, Value,
};

/// A host that writes everything down. Its clock moves only when somebody sleeps.
struct Recorder {
    out: String,
    err: String,
    log: Vec<String>,
    calls: u64,
    deferred: Vec<Call>,
    files: Files,
}

impl Recorder {
    fn new() -> Self {
        let mut files = Files::new(100_000);
        let path = GuestPath::resolve("/data/given.txt").expect("a good path");
        files.apply(FileOp::Put { path, content: b"one\ntwo\n".to_vec(), read_only: true });
        Self { out: String::new(), err: String::new(), log: Vec::new(), calls: 0, deferred: Vec::new(), files }
    }
}

fn answer(call: &Call) -> Result<Value, GuestError> {
    let fail = |exception: &str, message: &str| {
        Err(GuestError { exception: exception.to_owned(), message: message.to_owned() })
    };
    match call.function.as_str() {
        "fails" => match call.args.first() {
            Some(Value::Str(kind)) => fail(kind, "no luck"),
            _ => fail("ValueError", "what?"),
        },
        "record" => Ok(Value::Record(Box::new(Record {
            kind: RecordKind::Dataclass,
            name: "Point".to_owned(),
            fields: vec![("x".to_owned(), Value::Int(1)), ("y".to_owned(), Value::Int(2))],
        }))),
        "row" => Ok(Value::Record(Box::new(Record {
            kind: RecordKind::NamedTuple,
            name: "Row".to_owned(),
            fields: vec![("id".to_owned(), Value::Int(7)), ("name".to_owned(), Value::from("a"))],
        }))),
        "moment" => Ok(Value::DateTime("2024-05-06T07:08:09+02:00".to_owned())),
        _ => Ok(call.args.first().or(call.kwargs.first().map(|(_, value)| value)).cloned().unwrap_or(Value::None)),
    }
}

impl Host for Recorder {
    fn print(&mut self, stream: Stream, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        match stream {
            Stream::Stdout => self.out.push_str(&text),
            Stream::Stderr => self.err.push_str(&text),
        }
    }
    fn show(&mut self, bundle: MimeBundle) {
        self.log.push(format!("show {:?}", bundle.0));
    }
    fn next_call(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }
    fn call(&mut self, call: Call, pause: &dyn Pause) -> Result<Value, GuestError> {
        assert!(pause.dump().is_err(), "this engine has no snapshots");
        self.log.push(format!("{} {:?} {:?}", call.function, call.args, call.kwargs));
        answer(&call)
    }
    fn defer(&mut self, call: Call) {
        assert!(call.deferred);
        self.log.push(format!("defer {} {:?}", call.function, call.args));
        self.deferred.push(call);
    }
    fn wait(
        &mut self,
        pending: &[CallId],
        timeout: Option<Duration>,
        _: &dyn Pause,
    ) -> Option<(CallId, Result<Value, GuestError>)> {
        self.log.push(format!("wait {} {timeout:?}", pending.len()));
        // The last that was asked for is answered first; `never` is not answered at all.
        let at = self.deferred.iter().rposition(|call| pending.contains(&call.id) && call.function != "never")?;
        let call = self.deferred.remove(at);
        Some((call.id, answer(&call)))
    }
    fn sleep(&mut self, duration: Duration) {
        self.log.push(format!("sleep {duration:?}"));
    }
    fn files(&mut self) -> &mut Files {
        &mut self.files
    }
}

type Job = Box<dyn FnOnce(&mut RustPython) + Send>;

static ENGINE: LazyLock<Sender<Job>> = LazyLock::new(|| {
    let (sender, jobs) = channel::<Job>();
    let serve = move || {
        let mut engine = RustPython::new(Warm::new().expect("the interpreter warms"));
        engine.reseed().expect("the interpreter reseeds");
        engine.declare(&functions());
        for job in jobs {
            job(&mut engine);
        }
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(serve).expect("a thread");
    sender
});

fn functions() -> Vec<FunctionSpec> {
    let parameter = |name: &str, kind, default: Option<&str>| Parameter {
        name: name.to_owned(),
        kind,
        annotation: Some("int".to_owned()),
        schema: None,
        default: default.map(|source| ringfence_types::Default { source: source.to_owned() }),
    };
    let any = |name: &str, is_async| FunctionSpec {
        parameters: vec![Parameter { annotation: None, ..parameter("args", ParameterKind::VarPositional, None) }],
        is_async,
        ..FunctionSpec::new(name)
    };
    let full = FunctionSpec {
        doc: "Looks a thing up.".to_owned(),
        parameters: vec![
            parameter("a", ParameterKind::PositionalOnly, None),
            parameter("b", ParameterKind::PositionalOrKeyword, Some("10")),
            parameter("c", ParameterKind::KeywordOnly, Some("None")),
        ],
        returns: Some("dict[str, int]".to_owned()),
        ..FunctionSpec::new("look_up")
    };
    vec![
        full,
        any("same", false),
        any("fails", false),
        any("record", false),
        any("row", false),
        any("moment", false),
        any("later", true),
        any("never", true),
    ]
}

/// One snippet in the shared session: how it ended, and what the host saw.
fn run_source(source: Source) -> (Ended, Recorder) {
    let (sender, answer) = channel();
    let job = move |engine: &mut RustPython| {
        let mut host = Recorder::new();
        let ended = engine.run(&source, &mut host);
        sender.send((ended, host)).expect("the test waits");
    };
    ENGINE.send(Box::new(job)).expect("the engine's thread lives");
    answer.recv().expect("the engine's thread lives")
}

fn shown(ended: &Ended) -> String {
    match ended {
        Ended::Done(value) => format!("{value:?}"),
        Ended::NoValue(error) => format!("no value: {error}"),
        Ended::Unsupported(at) => format!("unsupported {} at {:?}", at.feature, at.line),
        Ended::Raised(error) => raised(error),
    }
}

fn raised(error: &GuestException) -> String {
    let mut text = format!("{}: {}", error.kind, error.message);
    for frame in &error.frames {
        let source = frame.source.as_deref().unwrap_or("?");
        text += &format!(" @{}:{} {} `{source}`", frame.file, frame.line, frame.function);
    }
    for note in &error.notes {
        text += &format!(" note {note}");
    }
    if let Some(code) = error.exit_code {
        text += &format!(" exit {code}");
    }
    if let Some(cause) = &error.cause {
        text += &format!(" <- {}", raised(cause));
    }
    text
}

/// The value, or the error, of a snippet.
#[track_caller]
fn check(code: &str, want: &str) {
    let (ended, host) = run_source(Source::new(code));
    assert_eq!(shown(&ended), want, "{code}\nstdout: {}\nstderr: {}", host.out, host.err);
}

/// What a snippet prints.
#[track_caller]
fn prints(code: &str, want: &str) {
    let (ended, host) = run_source(Source::new(code));
    assert_eq!(host.out, want, "{code}\n{}\nstderr: {}", shown(&ended), host.err);
}

/// What the host is asked.
#[track_caller]
fn asks(code: &str, want: &[&str]) {
    let (ended, host) = run_source(Source::new(code));
    assert_eq!(host.log, want, "{code}\n{}\nstdout: {}\nstderr: {}", shown(&ended), host.out, host.err);
}

#[test]
fn the_last_expression_is_the_value() {
    check("6 * 7", "Int(42)");
    check("x = 1", "None");
    check("", "None");
    check("# nothing", "None");
    check("def f(): return 1", "None");
    check("class A: pass", "None");
    check("if True:\n    5", "None");
    check("x = 3; x + 1;", "Int(4)");
    check("'a doc'", "Str(\"a doc\")");
    check("__name__", "Str(\"__main__\")");
    check("state_a = 5", "None");
    check("state_a + 1", "Int(6)");
    check("import sys; sys.modules['__main__'].state_a", "Int(5)");
}

#[test]
fn every_plain_value_crosses_outwards() {
    check("2**70", "BigInt(1180591620717411303424)");
    check(
        "[None, True, -1, 1.5, 'é', b'\\x00a', (1,), {'k': [1]}, {1}, frozenset([2])]",
        concat!(
            "List([None, Bool(true), Int(-1), Float(1.5), Str(\"é\"), Bytes([0, 97]), Tuple([Int(1)]), ",
            "Dict([(Str(\"k\"), List([Int(1)]))]), Set([Int(1)]), FrozenSet([Int(2)])])"
        ),
    );
    check("import datetime as d\nd.date(2024, 1, 2)", "Date(\"2024-01-02\")");
    check("d.datetime(2024, 1, 2, 3, 4, 5, 6, d.timezone.utc)", "DateTime(\"2024-01-02T03:04:05.000006+00:00\")");
    check("d.datetime(2024, 1, 2)", "DateTime(\"2024-01-02T00:00:00\")");
    check("d.time(1, 2)", "Time(\"01:02:00\")");
    check("d.timedelta(days=-1, seconds=5)", "TimeDelta { days: -1, seconds: 5, microseconds: 0 }");
    check("import decimal\ndecimal.Decimal('1.50')", "Decimal(\"1.50\")");
    check("import uuid\nuuid.UUID(int=1)", "Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])");
    check("import pathlib\npathlib.Path('/a') / 'b'", "Path(\"/a/b\")");
    check(
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n    y: list\nP(1, [2])",
        "Record(Record { kind: Dataclass, name: \"P\", fields: [(\"x\", Int(1)), (\"y\", List([Int(2)]))] })",
    );
    check(
        "import collections\ncollections.namedtuple('N', 'a b')(1, 2)",
        "Record(Record { kind: NamedTuple, name: \"N\", fields: [(\"a\", Int(1)), (\"b\", Int(2))] })",
    );
    check("collections.Counter('aab')", "Dict([(Str(\"a\"), Int(2)), (Str(\"b\"), Int(1))])");
    check("collections.OrderedDict(a=1)", "Dict([(Str(\"a\"), Int(1))])");
}

#[test]
fn what_cannot_cross_is_said_with_its_place() {
    let cannot = |at: &str, kind: &str| {
        format!("no value: a value of type `{kind}` at `{at}` cannot cross between guest and host")
    };
    check("object()", &cannot("value", "object"));
    check("{'a': [1, {2: print}]}", &cannot("value.a[1][0]", "builtin_function_or_method"));
    check("class Odd: pass\n[Odd()]", &cannot("value[0]", "Odd"));
    check("len", &cannot("value", "builtin_function_or_method"));
    check(
        "x = []; x.append(x); x",
        "no value: the value at `value[0]` contains itself and cannot cross between guest and host",
    );
    check("'\\ud800'", "no value: the text at `value` holds a lone surrogate and cannot cross between guest and host");
    check(
        "x = []\nfor _ in range(70): x = [x]\nx",
        &format!("no value: the value at `value{}` is over the limit of 64 levels", "[0]".repeat(64)),
    );
    check("[0] * 300_000", "no value: the value at `value` is over the limit of 200000 values");
    check("'a' * 5_000_000", "no value: the value at `value` is over the limit of 4194304 bytes");
    check(
        "a = [1] * 1000; b = [a] * 1000; b",
        "no value: the value at `value[199]` is over the limit of 200000 values",
    );
    check(
        "same({'k': object()})",
        concat!(
            "TypeError: a value of type `object` at `args[0].k` cannot cross between guest and host",
            " @main.py:1 <module> `same({'k': object()})`"
        ),
    );
}

#[test]
fn subclasses_cannot_fool_the_conversion() {
    check("class I(int):\n    __int__ = __index__ = __repr__ = lambda self: 99\nI(5)", "Int(5)");
    check("class S(str):\n    __str__ = __repr__ = lambda self: 'no'\nS('yes')", "Str(\"yes\")");
    check(
        "class L(list):\n    __iter__ = lambda self: iter([9])\n    __len__ = lambda self: 9\nL([1])",
        "List([Int(1)])",
    );
    check("class D(dict):\n    items = keys = __iter__ = lambda self: [9]\nD(a=1)", "Dict([(Str(\"a\"), Int(1))])");
    check(
        "import datetime\nclass T(datetime.date):\n    isoformat = __str__ = lambda self: 'x'\nT(2024, 1, 1)",
        "Date(\"2024-01-01\")",
    );
    check("import decimal\nclass C(decimal.Decimal):\n    __str__ = lambda self: 'x'\nC('1.0')", "Decimal(\"1.0\")");
    check(
        "class Liar:\n    __class__ = property(lambda self: int)\n[Liar()]",
        "no value: a value of type `Liar` at `value[0]` cannot cross between guest and host",
    );
}

#[test]
fn inputs_and_results_become_python_objects() {
    let source = Source {
        inputs: vec![
            ("given".to_owned(), Value::List(vec![Value::Int(1), Value::Date("2024-02-03".to_owned())])),
            ("amount".to_owned(), Value::Decimal("2.50".to_owned())),
        ],
        ..Source::new("(given[0] + 1, given[1].year, amount * 2)")
    };
    assert_eq!(shown(&run_source(source).0), "Tuple([Int(2), Int(2024), Decimal(\"5.00\")])");
    check(
        "p = record(); (p.x, p.y, type(p).__name__, repr(p))",
        "Tuple([Int(1), Int(2), Str(\"Point\"), Str(\"Point(x=1, y=2)\")])",
    );
    check("r = row(); (r.id, r[1], repr(r))", "Tuple([Int(7), Str(\"a\"), Str(\"Row(id=7, name='a')\")])");
    check("moment().utcoffset().seconds", "Int(7200)");
    check(
        "same({1: {2}, 'x': (b'a', None, 2**65, frozenset([1]))})",
        concat!(
            "Dict([(Int(1), Set([Int(2)])), (Str(\"x\"), ",
            "Tuple([Bytes([97]), None, BigInt(36893488147419103232), FrozenSet([Int(1)])]))])"
        ),
    );
    check(
        "import uuid, pathlib, datetime, decimal\nx = [uuid.UUID(int=5), pathlib.Path('/a'), datetime.time(1), \
           datetime.timedelta(1, 2, 3), decimal.Decimal('1.0'), datetime.date(2024, 1, 1)]\nsame(x) == x",
        "Bool(true)",
    );
}

#[test]
fn host_functions_look_and_act_like_python_functions() {
    prints(
        "import inspect\nprint(inspect.signature(look_up), look_up.__doc__, look_up.__name__)",
        "(a: 'int', /, b: 'int' = 10, *, c: 'int' = None) -> 'dict[str, int]' Looks a thing up. look_up\n",
    );
    asks("look_up(1)", &["look_up [Int(1)] []"]);
    asks("look_up(1, 2)", &["look_up [Int(1), Int(2)] []"]);
    asks("look_up(1, b=2, c=3)", &["look_up [Int(1)] [(\"b\", Int(2)), (\"c\", Int(3))]"]);
    asks("look_up()", &[]);
    check(
        "look_up()",
        "TypeError: look_up() missing 1 required positional argument: 'a' @main.py:1 <module> `look_up()`",
    );
    check(
        "look_up(1, z=1)",
        "TypeError: look_up() got an unexpected keyword argument 'z' @main.py:1 <module> `look_up(1, z=1)`",
    );
    check("sorted([3, 1, 2], key=same)", "List([Int(1), Int(2), Int(3)])");
    check("list(map(same, [1, 2]))", "List([Int(1), Int(2)])");
    check("class R:\n    def __repr__(self): return same('repr')\nrepr(R())", "Str(\"repr\")");
    check("from collections import defaultdict\nd = defaultdict(lambda: same(4)); d['k']", "Int(4)");
    check("import functools\nfunctools.reduce(lambda a, b: same(a) + same(b), [1, 2, 3])", "Int(6)");
}

#[test]
fn the_hosts_errors_are_pythons() {
    check("fails('KeyError')", "KeyError: 'no luck' @main.py:1 <module> `fails('KeyError')`");
    check("fails('PermissionError')", "PermissionError: no luck @main.py:1 <module> `fails('PermissionError')`");
    check("fails('TimeoutError')", "TimeoutError: no luck @main.py:1 <module> `fails('TimeoutError')`");
    check("fails('ApiError')", "RuntimeError: ApiError: no luck @main.py:1 <module> `fails('ApiError')`");
    check(
        "fails('StopIteration')",
        "RuntimeError: StopIteration: no luck @main.py:1 <module> `fails('StopIteration')`",
    );
    check("fails('SystemExit')", "RuntimeError: SystemExit: no luck @main.py:1 <module> `fails('SystemExit')`");
    check("try:\n    fails('ValueError')\nexcept ValueError as e:\n    r = str(e)\nr", "Str(\"no luck\")");
}

#[test]
fn output_is_handed_on_as_it_is_written() {
    prints("print('a', 1, sep='-')", "a-1\n");
    prints("import sys\nsys.stdout.write('x'); sys.stdout.flush(); sys.stdout.buffer.write(b'y\\xc3\\xa9')", "xyé");
    prints("import sys\nprint(sys.stdout.isatty(), sys.stdout.encoding, sys.stdin.isatty())", "False utf-8 False\n");
    prints("print('\\ud800')", "\\ud800\n");
    prints("import os\nos.write(1, b'raw\\n')", "raw\n");
    prints(
        "import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): print('in')\nprint(b.getvalue().upper())",
        "IN\n\n",
    );
    prints("import sys\nsys.stdout.writelines(['a', 'b'])\nprint('c', file=sys.stdout, flush=True)", "abc\n");
    let (_, host) =
        run_source(Source::new("import sys, logging, warnings\nprint('e', file=sys.stderr)\nlogging.warning('w')"));
    assert_eq!(host.err, "e\nWARNING:root:w\n");
}

#[test]
fn input_is_the_given_text() {
    let given = |code: &str| {
        let (ended, host) = run_source(Source { stdin: "one\ntwo\n\nlast".to_owned(), ..Source::new(code) });
        (shown(&ended), host.out)
    };
    assert_eq!(
        given("[input('? '), input(), input(), input()]").0,
        "List([Str(\"one\"), Str(\"two\"), Str(\"\"), Str(\"last\")])"
    );
    assert_eq!(given("input('? ')").1, "? ");
    assert_eq!(
        given("import sys\n[line.strip() for line in sys.stdin]").0,
        "List([Str(\"one\"), Str(\"two\"), Str(\"\"), Str(\"last\")])"
    );
    check("input()", "EOFError: EOF when reading a line @main.py:1 <module> `input()`");
}

#[test]
fn leaving_does_not_end_the_session() {
    check("import sys; sys.exit()", "SystemExit:  @main.py:1 <module> `import sys; sys.exit()` exit 0");
    check("sys.exit(3)", "SystemExit: 3 @main.py:1 <module> `sys.exit(3)` exit 3");
    check("exit(2)", "SystemExit: 2 @main.py:1 <module> `exit(2)` exit 2");
    let (ended, host) = run_source(Source::new("sys.exit('bad news')"));
    assert_eq!(shown(&ended), "SystemExit: bad news @main.py:1 <module> `sys.exit('bad news')` exit 1");
    assert_eq!(host.err, "bad news\n");
    check(
        "import os; os._exit(1)",
        "PermissionError: [Errno 1] os._exit is not available in a sandboxed session @main.py:1 <module> `import os; os._exit(1)`",
    );
    check("1 + 1", "Int(2)");
}

#[test]
fn exceptions_tell_their_own_frames_causes_and_notes() {
    check(
        "def f(x):\n    return 1 / x\nf(0)",
        "ZeroDivisionError: division by zero @main.py:3 <module> `f(0)` @main.py:2 f `return 1 / x`",
    );
    check(
        "try:\n    {}['a']\nexcept KeyError as e:\n    raise RuntimeError('wrapped') from e",
        concat!(
            "RuntimeError: wrapped @main.py:4 <module> `raise RuntimeError('wrapped') from e`",
            " <- KeyError: 'a' @main.py:2 <module> `{}['a']`"
        ),
    );
    check(
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('v') from None",
        "ValueError: v @main.py:4 <module> `raise ValueError('v') from None`",
    );
    check(
        "e = ValueError('v'); e.add_note('look here'); raise e",
        "ValueError: v @main.py:1 <module> `e = ValueError('v'); e.add_note('look here'); raise e` note look here",
    );
    check(
        "class Bad(Exception):\n    def __str__(self): raise KeyError\nraise Bad",
        "Bad: <exception str() failed> @main.py:3 <module> `raise Bad`",
    );
    check(
        "import json\njson.loads('{')",
        concat!(
            "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
            " @main.py:2 <module> `json.loads('{')`"
        ),
    );
    check("def g():\n    raise ValueError('from before')", "None");
    check(
        "\n\n\n\ng()",
        "ValueError: from before @main.py:5 <module> `g()` @main.py:2 g `raise ValueError('from before')`",
    );
    let (ended, _) = run_source(Source::new("raise ValueError('x' * 100_000)"));
    let Ended::Raised(error) = ended else { panic!("it raises") };
    assert_eq!(error.message.len(), (64 << 10) + "…".len());
}

#[test]
fn sources_that_do_not_compile_are_syntax_errors() {
    check("x = 1\ny = = 2", "SyntaxError: invalid syntax @main.py:2 <module> `y = = 2`");
    check(
        "def f(:\n  pass",
        "SyntaxError: expected a parameter or the end of the parameter list @main.py:1 <module> `def f(:`",
    );
    check("return 1", "SyntaxError: 'return' outside function @main.py:1 <module> `return 1`");
    check("if 1:\nx", "IndentationError: expected an indented block after `if` statement @main.py:2 <module> `x`");
    check(
        &format!("x = {}1{}", "(".repeat(510), ")".repeat(510)),
        &format!("SyntaxError: too many nested expressions or blocks @main.py:1 <module> `x = {}…`", "(".repeat(508)),
    );
}

#[test]
fn modules_that_are_not_here_are_unsupported() {
    check("import json\nimport numpy as np", "unsupported module numpy at Some(2)");
    check("def f():\n    import pandas\nf()", "unsupported module pandas at Some(2)");
    check("import requests", "unsupported module requests at Some(1)");
    check("import socket", "unsupported module socket at Some(1)");
    check("import subprocess", "unsupported module subprocess at Some(1)");
    check("import ctypes", "unsupported module ctypes at Some(1)");
    check("import sqlite3", "unsupported module sqlite3 at Some(1)");
    check("import multiprocessing.pool", "unsupported module multiprocessing at Some(1)");
    check("import helpres", "ModuleNotFoundError: No module named 'helpres' @main.py:1 <module> `import helpres`");
    check("try:\n    import numpy\nexcept ImportError:\n    r = 'none'\nr", "Str(\"none\")");
}

#[test]
fn await_works_at_the_top() {
    check("await later(5)", "Int(5)");
    check("x: int = await later(1)\ny = x + 1\ny", "Int(2)");
    check("(x, y)", "Tuple([Int(1), Int(2)])");
    check(
        "import asyncio\nasync def w(n):\n    await asyncio.sleep(0)\n    return n\nawait asyncio.gather(w(1), w(2))",
        "List([Int(1), Int(2)])",
    );
    check("[await later(n) for n in range(3)]", "List([Int(0), Int(1), Int(2)])");
    check("await later(1)\n1 / 0", "ZeroDivisionError: division by zero @main.py:2 <module> `1 / 0`");
    check(
        "async def agen():\n    yield 1\n    yield 2\nout = []\nasync for item in agen():\n    out.append(item)\nout",
        "List([Int(1), Int(2)])",
    );
    check(
        "def f(): return y\nz = await later(f())\nfor i in range(2): pass\nclass K: v = z\n(f(), i, K.v)",
        "Tuple([Int(2), Int(1), Int(2)])",
    );
}

#[test]
fn asynchronous_calls_run_side_by_side() {
    asks(
        "import asyncio\nasync def main(): return await asyncio.gather(later(1), later(2), later(3))\nasyncio.run(main())",
        &[
            "defer later [Int(1)]",
            "defer later [Int(2)]",
            "defer later [Int(3)]",
            "wait 3 None",
            "wait 2 None",
            "wait 1 None",
        ],
    );
    check("asyncio.run(main())", "List([Int(1), Int(2), Int(3)])");
    check(
        "async def t():\n    try:\n        return await asyncio.wait_for(never(), 0.0)\n    except TimeoutError:\n        return 'late'\nasyncio.run(t())",
        "Str(\"late\")",
    );
    check(
        "async def t():\n    a = asyncio.create_task(later(1))\n    b = asyncio.create_task(later(2))\n    return await a + await b\nasyncio.run(t())",
        "Int(3)",
    );
    check(
        "async def t():\n    async with asyncio.TaskGroup() as g:\n        a = g.create_task(later(4))\n    return a.result()\nasyncio.run(t())",
        "Int(4)",
    );
    check("async def t(): return await asyncio.to_thread(lambda: 8)\nasyncio.run(t())", "Int(8)");
    check(
        "async def t():\n    q = asyncio.Queue()\n    await q.put(1)\n    return await q.get()\nasyncio.run(t())",
        "Int(1)",
    );
    check(
        "async def t(): await asyncio.Event().wait()\nasyncio.run(t())",
        "RuntimeError: the event loop would wait forever: no task can go on @main.py:2 <module> `asyncio.run(t())`",
    );
    check("import inspect\ninspect.iscoroutinefunction(later)", "Bool(true)");
}

#[test]
fn threads_are_run_at_once() {
    check(
        "from concurrent.futures import ThreadPoolExecutor, as_completed\nwith ThreadPoolExecutor(4) as pool:\n    r = list(pool.map(lambda n: n * n, range(4)))\nr",
        "List([Int(0), Int(1), Int(4), Int(9)])",
    );
    check(
        "with ThreadPoolExecutor() as pool:\n    fs = [pool.submit(same, n) for n in range(3)]\nsorted(f.result() for f in as_completed(fs))",
        "List([Int(0), Int(1), Int(2)])",
    );
    check(
        "import threading\nout = []\nt = threading.Thread(target=out.append, args=(1,)); t.start(); t.join(); out",
        "List([Int(1)])",
    );
    check("lock = threading.Lock()\nwith lock: r = 1\nr", "Int(1)");
}

#[test]
fn sleeping_is_the_hosts() {
    asks("import time\ntime.sleep(1.5)", &["sleep 1.5s"]);
    check("time.sleep(-1)", "ValueError: sleep length must be non-negative @main.py:1 <module> `time.sleep(-1)`");
}

#[test]
fn files_are_the_sessions_own() {
    check(
        "with open('a.txt', 'w') as f:\n    f.write('x\\ny\\n')\n    f.writelines(['z'])\nopen('a.txt').read()",
        "Str(\"x\\ny\\nz\")",
    );
    check("open('/data/given.txt').readlines()", "List([Str(\"one\\n\"), Str(\"two\\n\")])");
    check(
        "open('/data/given.txt', 'w')",
        "PermissionError: [Errno 13] Permission denied: '/data/given.txt' @main.py:1 <module> `open('/data/given.txt', 'w')`",
    );
    check(
        "open('/etc/passwd')",
        "FileNotFoundError: [Errno 2] No such file or directory: '/etc/passwd' @main.py:1 <module> `open('/etc/passwd')`",
    );
    check("open('/data')", "IsADirectoryError: [Errno 21] Is a directory: '/data' @main.py:1 <module> `open('/data')`");
    check(
        "with open('b.bin', 'wb') as f: f.write(bytes(200_000))",
        "OSError: [Errno 28] No space left on device @main.py:1 <module> `with open('b.bin', 'wb') as f: f.write(bytes(200_000))`",
    );
    check(
        "import os\nos.mkdir('d'); os.makedirs('d/e/f'); open('d/x', 'x').close()\nsorted(os.listdir('d'))",
        "List([Str(\"e\"), Str(\"x\")])",
    );
    check(
        "import os\nos.makedirs('w/e'); open('w/x', 'a').write('12')\n[(sorted(d), f) for _, d, f in os.walk('w')]",
        "List([Tuple([List([Str(\"e\")]), List([Str(\"x\")])]), Tuple([List([]), List([])])])",
    );
    check(
        "import os\nopen('m', 'w').write('q'); os.rename('m', 'n'); (os.path.exists('m'), os.path.getsize('n'), os.getcwd())",
        "Tuple([Bool(false), Int(1), Str(\"/workspace\")])",
    );
    check("f = open('r+', 'w+'); f.write('hello'); f.seek(1); r = f.read(2); f.close(); r", "Str(\"el\")");
    check(
        "f = open('r2', 'wb+'); f.write(b'hello'); f.seek(-2, 2); f.truncate(); f.seek(0); f.read()",
        "Bytes([104, 101, 108])",
    );
    check(
        "from pathlib import Path\np = Path('p'); p.mkdir(); (p / 'q.txt').write_text('é'); [x.name for x in p.iterdir()] + [(p / 'q.txt').read_bytes(), p.exists(), (p / 'q.txt').stat().st_size]",
        "List([Str(\"q.txt\"), Bytes([195, 169]), Bool(true), Int(2)])",
    );
    check(
        "Path('g').mkdir(); Path('g/a.py').touch(); Path('g/b.txt').touch(); sorted(map(str, Path('g').glob('*.py')))",
        "List([Str(\"g/a.py\")])",
    );
    check(
        "import csv\nwith open('t.csv', 'w', newline='') as f: csv.writer(f).writerows([['a', 'b'], [1, 'x,y']])\nlist(csv.DictReader(open('t.csv')))",
        "List([Dict([(Str(\"a\"), Str(\"1\")), (Str(\"b\"), Str(\"x,y\"))])])",
    );
    check(
        "import json\njson.dump({'k': 1}, open('j.json', 'w')); json.load(open('j.json'))",
        "Dict([(Str(\"k\"), Int(1))])",
    );
    check(
        "import tempfile\nwith tempfile.TemporaryDirectory() as t:\n    open(t + '/x', 'w').write('1'); r = os.listdir(t)\n(r, os.path.exists(t))",
        "Tuple([List([Str(\"x\")]), Bool(false)])",
    );
    check(
        "with tempfile.NamedTemporaryFile('w+', suffix='.txt') as f:\n    f.write('abc'); f.seek(0); r = f.read()\nr",
        "Str(\"abc\")",
    );
    check(
        "import shutil\nos.makedirs('s/t'); open('s/t/u', 'w').write('v'); shutil.copytree('s', 's2'); shutil.rmtree('s'); (open('s2/t/u').read(), os.path.exists('s'))",
        "Tuple([Str(\"v\"), Bool(false)])",
    );
    check(
        "os.makedirs('c', exist_ok=True); os.chdir('c'); open('here', 'w').close(); r = os.path.abspath('here'); os.chdir('/workspace'); r",
        "Str(\"/workspace/c/here\")",
    );
    check(
        "import zipfile, io\nb = io.BytesIO()\nwith zipfile.ZipFile(b, 'w') as z: z.writestr('a', 'b')\nzipfile.ZipFile(b).read('a')",
        "Bytes([98])",
    );
}

#[test]
fn an_unclosed_file_is_written_at_the_end_of_the_snippet() {
    let (_, mut host) = run_source(Source::new("kept = open('open.txt', 'w'); kept.write('abc'); kept.flush()"));
    let path = GuestPath::resolve("open.txt").expect("a good path");
    assert_eq!(host.files().read(&path), Ok(b"abc".as_slice()));
    check("kept.close()", "None");
}

#[test]
fn what_a_session_has_not_fails_as_python_does() {
    let refused = |name: &str, code: &str| {
        format!(
            "PermissionError: [Errno 1] {name} is not available in a sandboxed session @main.py:1 <module> `{code}`"
        )
    };
    for (name, code) in [
        ("os.fork", "import os; os.fork()"),
        ("os.kill", "import os; os.kill(1, 9)"),
        ("os.system", "import os; os.system('ls')"),
        ("os.abort", "import os; os.abort()"),
        ("signal.signal", "import signal; signal.signal(2, print)"),
        ("signal.alarm", "import signal; signal.alarm(1)"),
    ] {
        check(code, &refused(name, code));
    }
    check(
        "import os, sys\ndict(os.environ), sys.argv",
        "Tuple([Dict([(Str(\"HOME\"), Str(\"/workspace\"))]), List([Str(\"main.py\")])])",
    );
    check(
        "breakpoint()",
        "RuntimeError: breakpoint() is not available in a sandboxed session @main.py:1 <module> `breakpoint()`",
    );
    check("import faulthandler", "unsupported module faulthandler at Some(1)");
    prints(
        "help(look_up)",
        "Help on function look_up in module __main__\n\nlook_up(a: int, /, b: int = 10, *, c: int = None) -> dict[str, int]\n    Looks a thing up.\n\n",
    );
    check("import getpass\nr = None\ntry: getpass.getpass()\nexcept EOFError: r = 'eof'\nr", "Str(\"eof\")");
}

#[test]
fn recursion_ends_in_an_exception() {
    check("def f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError: r = 'deep'\nr", "Str(\"deep\")");
    check(
        "import sys\nsys.setrecursionlimit(10**6)\ntry: f(0)\nexcept RecursionError: r = 'clamped'\nsys.setrecursionlimit(1000)\nr",
        "Str(\"clamped\")",
    );
    check(
        "class R:\n    def __repr__(self): return repr(self)\ntry: repr(R())\nexcept RecursionError: r = 'repr'\nr",
        "Str(\"repr\")",
    );
    check(
        "x = []\nfor _ in range(100_000): x = [x]\ntry: repr(x)\nexcept RecursionError: r = 'list'\ndel x\nr",
        "Str(\"list\")",
    );
}

#[test]
fn snapshots_are_not_offered() {
    let (sender, answer) = channel();
    let job = move |engine: &mut RustPython| sender.send(engine.snapshot()).expect("the test waits");
    ENGINE.send(Box::new(job)).expect("the engine's thread lives");
    let got = answer.recv().expect("the engine's thread lives");
    assert_eq!(got.map_err(|error| error.feature), Err("snapshots with the rustpython engine".to_owned()));
}

#[test]
fn division_of_big_integers_is_exact() {
    check("(10**400 // 3) / (10**399)", "Float(3.3333333333333335)");
    check(
        "(2**1074 + 1) / 2**1074, 1 / 3**500, -7 / 2, 2**53 + 1 == (2**53 + 1) / 1",
        "Tuple([Float(1.0), Float(2.750252956203138e-239), Float(-3.5), Bool(false)])",
    );
    check(
        "try: 10**400 / 1\nexcept OverflowError as e: r = str(e)\nr",
        "Str(\"integer division result too large for a float\")",
    );
    check("(0.1).as_integer_ratio()", "Tuple([Int(3602879701896397), Int(36028797018963968)])");
}

#[test]
fn sockets_and_processes_of_asyncio_are_unsupported() {
    check("import asyncio\nawait asyncio.open_connection('a.example', 80)", "unsupported module socket at Some(2)");
    check("import asyncio\nawait asyncio.create_subprocess_exec('ls')", "unsupported module subprocess at Some(2)");
}
