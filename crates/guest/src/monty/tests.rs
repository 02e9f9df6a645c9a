//! The engine against a host that answers from a table and can take a snapshot at any call.

use std::collections::VecDeque;
use std::time::Duration;

use num_bigint::BigInt;
use ringfence_types::{FunctionSpec, MimeBundle};

use super::*;
use crate::engine::Pause;
use crate::files::Files;

/// `double(x)` doubles, `fail(type, message)` fails, `echo(x)` and `later(x)` give back, `give(name)` has odd values.
#[derive(Default)]
struct Fake {
    out: String,
    calls: Vec<String>,
    files: Files,
    number: u64,
    waiting: VecDeque<Call>,
    /// A snapshot is taken at each call to this function.
    snap_at: &'static str,
    snaps: Vec<Vec<u8>>,
}

impl Fake {
    fn answer(&self, call: &Call) -> Result<Value, GuestError> {
        let text = |at: usize| match call.args.get(at) {
            Some(Value::Str(text)) => text.clone(),
            _ => String::new(),
        };
        match (call.function.as_str(), call.args.first()) {
            ("double", Some(Value::Int(number))) => Ok(Value::Int(number * 2)),
            ("fail", _) => Err(GuestError { exception: text(0), message: text(1) }),
            ("give", _) if text(0) == "decimal" => Ok(Value::Decimal("1.10".to_owned())),
            ("give", _) if text(0) == "uuid" => Ok(Value::Uuid([1; 16])),
            (_, first) => Ok(first.cloned().unwrap_or(Value::None)),
        }
    }
}

impl Host for Fake {
    fn print(&mut self, _: Stream, bytes: &[u8]) {
        self.out.push_str(std::str::from_utf8(bytes).expect("monty prints text"));
    }
    fn show(&mut self, _: MimeBundle) {}
    fn next_call(&mut self) -> CallId {
        self.number += 1;
        CallId(self.number)
    }
    fn call(&mut self, call: Call, pause: &dyn Pause) -> Result<Value, GuestError> {
        self.calls.push(format!("{} {:?} {:?}", call.function, call.args, call.kwargs));
        if call.function == self.snap_at {
            self.snaps.push(pause.dump().expect("can be written down here"));
        }
        self.answer(&call)
    }
    fn defer(&mut self, call: Call) {
        assert!(call.deferred);
        self.waiting.push_back(call);
    }
    fn wait(
        &mut self,
        pending: &[CallId],
        _: Option<Duration>,
        pause: &dyn Pause,
    ) -> Option<(CallId, Result<Value, GuestError>)> {
        if self.snap_at == "wait" {
            self.snaps.push(pause.dump().expect("can be written down here"));
        }
        // The last one first: order must not matter.
        let at = self.waiting.iter().rposition(|call| pending.contains(&call.id))?;
        let call = self.waiting.remove(at)?;
        Some((call.id, self.answer(&call)))
    }
    fn sleep(&mut self, _: Duration) {}
    fn files(&mut self) -> &mut Files {
        &mut self.files
    }
}

fn host(snap_at: &'static str) -> Fake {
    Fake { files: Files::new(1000), snap_at, ..Fake::default() }
}

fn session() -> Monty {
    let mut monty = Monty::new();
    let later = FunctionSpec { is_async: true, ..FunctionSpec::new("later") };
    monty.declare(&[
        FunctionSpec::new("double"),
        FunctionSpec::new("fail"),
        FunctionSpec::new("give"),
        FunctionSpec::new("echo"),
        later,
    ]);
    monty
}

/// How a snippet ended, in one line, after what it printed.
fn told(ended: &Ended, out: &str) -> String {
    let end = match ended {
        Ended::Done(value) => format!("{value:?}"),
        Ended::Raised(raised) => {
            let frames = raised.frames.iter().map(|frame| format!(" {}:{}:{}", frame.file, frame.line, frame.function));
            format!("{}: {}{}", raised.kind, raised.message, frames.collect::<String>())
        }
        Ended::Unsupported(lacking) => format!("unsupported {} at {:?}", lacking.feature, lacking.line),
        Ended::NoValue(error) => format!("no value: {error}"),
    };
    format!("{out}{end}")
}

/// Interpreters need more stack than a test thread has; workers have 64 MiB.
fn on_a_worker_stack(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, test);
        assert!(thread.expect("a thread").join().is_ok());
    });
}

#[track_caller]
fn check(code: &str, want: &str) {
    let mut host = host("");
    let ended = session().run(&Source::new(code), &mut host);
    assert_eq!(told(&ended, &host.out), want, "{code}");
}

#[track_caller]
fn check_crossing(value: Value) {
    let source = Source { inputs: vec![("x".to_owned(), value.clone())], ..Source::new("echo(x)") };
    assert_eq!(session().run(&source, &mut host("")), Ended::Done(value));
}

#[test]
fn snippets_end_with_their_value() {
    check("print('hi'); 6*7", "hi\nInt(42)");
    check("x = 1", "None");
    check("", "None");
    check("# only this", "None");
    check("print('a', 'b', sep='-', end='')", "a-bNone");
    check("10**30", "BigInt(1000000000000000000000000000000)");
    check("{'a': [1, (2.5, None)]}", "Dict([(Str(\"a\"), List([Int(1), Tuple([Float(2.5), None])]))])");
}

#[test]
fn state_and_inputs_persist() {
    let mut monty = session();
    let mut host = host("");
    let first = Source { inputs: vec![("n".to_owned(), Value::Int(4))], ..Source::new("def f(x): return x * n") };
    assert_eq!(monty.run(&first, &mut host), Ended::Done(Value::None));
    assert_eq!(
        told(&monty.run(&Source::new("1/0"), &mut host), ""),
        "ZeroDivisionError: division by zero main.py:1:<module>"
    );
    assert_eq!(monty.run(&Source::new("f(5)"), &mut host), Ended::Done(Value::Int(20)));
    let late = Source { file: "b.py".to_owned(), ..Source::new("\nf(None)") };
    let want = "TypeError: unsupported operand type(s) for *: 'NoneType' and 'int' b.py:2:<module> main.py:1:f";
    assert_eq!(told(&monty.run(&late, &mut host), ""), want);
    monty.run(&Source::new("def double(x): return 'mine'"), &mut host);
    assert_eq!(monty.run(&Source::new("double(1)"), &mut host), Ended::Done(Value::from("mine")));
}

#[test]
fn every_value_crosses_unchanged() {
    let big = BigInt::from(i64::MAX) * 8;
    let of = |values: Vec<Value>| Value::List(values);
    check_crossing(of(vec![Value::None, Value::Bool(true), Value::Int(-1), Value::BigInt(big), Value::Float(0.5)]));
    check_crossing(of(vec![Value::from("é\0"), Value::Bytes(vec![0, 255]), Value::Tuple(vec![]), of(vec![])]));
    check_crossing(Value::Dict(vec![(Value::Tuple(vec![Value::Int(1)]), Value::Float(f64::INFINITY))]));
    check_crossing(Value::Set(vec![Value::Int(3), Value::Int(1)]));
    check_crossing(Value::FrozenSet(vec![Value::from("a")]));
    check_crossing(Value::Date("2024-02-29".to_owned()));
    check_crossing(Value::DateTime("2024-02-29T01:02:03.000004-05:30".to_owned()));
    check_crossing(Value::Time("01:02:03".to_owned()));
    check_crossing(Value::TimeDelta { days: -1, seconds: 86_399, microseconds: 5 });
    check_crossing(Value::Path("/workspace/a".to_owned()));
    let fields = vec![("x".to_owned(), Value::Int(1)), ("y".to_owned(), Value::from("b"))];
    let record =
        ringfence_types::Record { kind: ringfence_types::RecordKind::NamedTuple, name: "P".to_owned(), fields };
    check_crossing(Value::Record(Box::new(record)));
}

#[test]
fn what_cannot_cross_says_where() {
    check(
        "[1, {'rows': [len]}]",
        "no value: a value of type `builtin_function_or_method` at `value[1].rows[0]` cannot cross between guest and host",
    );
    check(
        "a = [1]; a.append(a); a",
        "no value: the value at `value[1]` contains itself and cannot cross between guest and host",
    );
    check(
        "a = []\nfor _ in range(70): a = [a]\na",
        &format!("no value: the value at `value{}` is over the limit of 64 levels", "[0]".repeat(64)),
    );
    check("list(range(300000))", "no value: the value at `value[199999]` is over the limit of 200000 values");
    check("['x' * 3000000] * 2", "no value: the value at `value[1]` is over the limit of 4194304 bytes");
    check("class A: pass\nA()", "no value: a value of type `A` at `value` cannot cross between guest and host");
    check("range(3)", "no value: a value of type `range` at `value` cannot cross between guest and host");
    check(
        "double({'f': print})",
        "TypeError: a value of type `builtin_function_or_method` at `args[0].f` cannot cross between guest and host main.py:1:<module>",
    );
    let decimal = Source { inputs: vec![("x".to_owned(), Value::Decimal("1".to_owned()))], ..Source::new("x") };
    assert_eq!(told(&session().run(&decimal, &mut host("")), ""), "unsupported Decimal values at None");
    check("give('decimal')", "unsupported Decimal values at None");
    check("give('uuid')", "unsupported UUID values at None");
}

#[test]
fn calls_keep_their_arguments_as_written() {
    let mut host = host("");
    let ended = session().run(&Source::new("echo(1, 'a', k=2, j=[3]); echo(); double(21)"), &mut host);
    assert_eq!(ended, Ended::Done(Value::Int(42)));
    let want =
        ["echo [Int(1), Str(\"a\")] [(\"k\", Int(2)), (\"j\", List([Int(3)]))]", "echo [] []", "double [Int(21)] []"];
    assert_eq!(host.calls, want);
}

#[test]
fn host_errors_are_exceptions() {
    check("try:\n    fail('ValueError', 'bad')\nexcept ValueError as e:\n    print(e)", "bad\nNone");
    check("fail('KeyError', 'k')", "KeyError: 'k' main.py:1:<module>");
    check("{}[1]", "KeyError: 1 main.py:1:<module>");
    check("fail('MyError', 'm')", "RuntimeError: MyError: m main.py:1:<module>");
    check("fail('SystemExit', '0')", "RuntimeError: SystemExit: 0 main.py:1:<module>");
    check("sorted([1], key=lambda x: double(x))", "unsupported a host call inside a library callback at Some(1)");
}

#[test]
fn async_functions_run_together() {
    check("await later(5)", "Int(5)");
    let both =
        "import asyncio\nasync def main():\n    a, b = await asyncio.gather(later(1), later(2))\n    return (a, b)\n";
    check(&format!("{both}asyncio.run(main())"), "Tuple([Int(1), Int(2)])");
    check("f = later(5)\n7", "RuntimeWarning: coroutine 'later' was never awaited\nInt(7)");
}

#[test]
fn gaps_of_the_engine_are_not_the_programs_fault() {
    check("\nclass A(Exception): pass", "unsupported class inheritance and metaclasses at Some(2)");
    check("def f():\n    yield 1", "unsupported yield expressions at Some(2)");
    check("import numpy.linalg", "unsupported module numpy at Some(1)");
    check("from math import hypot", "unsupported math.hypot at Some(1)");
    check("'a'.translate({})", "unsupported str.translate at Some(1)");
    check("callable(1)", "unsupported the built-in name callable at Some(1)");
    check("1 + True", "unsupported what raised `unsupported operand type(s) for +: 'int' and 'bool'` at Some(1)");
    check("raise NotImplementedError('mine')", "NotImplementedError: mine main.py:1:<module>");
    check("x = (1", "SyntaxError: unexpected EOF while parsing main.py:1:<module>");
    check("nothing", "NameError: name 'nothing' is not defined main.py:1:<module>");
    check("raise SystemExit('3')", "SystemExit: 3 main.py:1:<module>");
}

#[test]
fn files_are_the_sessions_own() {
    check("with open('a.txt', 'w') as f:\n    f.write('x\\ny')\nopen('/workspace/a.txt').read()", "Str(\"x\\ny\")");
    check(
        "open('/etc/passwd').read()",
        "FileNotFoundError: [Errno 2] No such file or directory: '/etc/passwd' main.py:1:<module>",
    );
    check("open('/etc/x', 'w')", "PermissionError: [Errno 13] Permission denied: '/etc/x' main.py:1:<module>");
    check("import os\nos.getenv('HOME', 'none')", "Str(\"none\")");
    check("import os\nos.mkdir('d'); os.listdir('/workspace')", "List([Str(\"d\")])");
    check(
        "open('big', 'w').write('x' * 2000)",
        "OSError: [Errno 28] No space left on device: 'big' main.py:1:<module>",
    );
}

#[test]
fn deep_source_and_deep_recursion_end_cleanly() {
    on_a_worker_stack(|| {
        let deep = "(".repeat(10_000_000);
        check(&deep, "SyntaxError: too many nested parentheses main.py:1:<module>");
        check(&format!("x = {}1", "-".repeat(2_900)), "SyntaxError: Source is too deeply nested main.py:1:<module>");
        check("def f(n): return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    print('deep')", "deep\nNone");
        let repr = "class A:\n    def __repr__(self): return repr(self)\ntry:\n    repr(A())\nexcept RecursionError:\n    print('deep')";
        check(repr, "deep\nNone");
        let key = "def f(x): return sorted([1], key=f)\ntry:\n    f(0)\nexcept RecursionError:\n    print('deep')";
        check(key, "deep\nNone");
    });
}

#[test]
fn a_snapshot_in_mid_call_goes_on_elsewhere_and_twice() {
    let code = "k = 3\nprint('before')\nx = double(k)\nprint('after', x)\n[x, double(x)]";
    let mut first = host("double");
    let ended = session().run(&Source::new(code), &mut first);
    assert_eq!(told(&ended, &first.out), "before\nafter 6\nList([Int(6), Int(12)])");
    for fork in 0..2 {
        let mut other = Monty::new();
        let mut second = host("");
        let end = other.restore(&first.snaps[0], &mut second).expect("restores").expect("was in mid-program");
        assert_eq!(told(&end, &second.out), "after 6\nList([Int(6), Int(12)])");
        assert_eq!(second.calls, ["double [Int(3)] []", "double [Int(6)] []"]);
        let next = Source::new(format!("k + x + {fork}"));
        assert_eq!(other.run(&next, &mut second), Ended::Done(Value::Int(9 + fork)));
    }
}

#[test]
fn deferred_calls_are_asked_again_after_a_restore() {
    let code = "import asyncio\nasync def main():\n    return await asyncio.gather(later('a'), later('b'), later('c'))\nasyncio.run(main())";
    let want = Ended::Done(Value::List(["a", "b", "c"].map(Value::from).to_vec()));
    let mut first = host("wait");
    assert_eq!(session().run(&Source::new(code), &mut first), want);
    assert_eq!(first.snaps.len(), 3);
    for (answered, snap) in first.snaps.iter().enumerate() {
        let mut second = host("");
        assert_eq!(Monty::new().restore(snap, &mut second), Ok(Some(want.clone())));
        assert_eq!(second.number, 3 - answered as u64);
    }
}

#[test]
fn an_idle_snapshot_keeps_the_session() {
    let mut monty = session();
    monty.run(
        &Source::new("total = 1\ndef add(n):\n    global total\n    total += double(n)\n    return total"),
        &mut host(""),
    );
    let bytes = monty.snapshot().expect("is idle");
    for _ in 0..2 {
        let mut fork = Monty::new();
        assert_eq!(fork.restore(&bytes, &mut host("")), Ok(None));
        assert_eq!(fork.run(&Source::new("add(2)"), &mut host("")), Ended::Done(Value::Int(5)));
    }
    let refused = |bytes: &[u8]| Monty::new().restore(bytes, &mut host("")).expect_err("refused").feature;
    assert_eq!(refused(b""), "this snapshot: it is empty");
    assert_eq!(refused(&[9, 1, 2]), "this snapshot: its format is 9, this engine reads 1");
    assert!(Monty::new().snapshot().is_ok());
}
