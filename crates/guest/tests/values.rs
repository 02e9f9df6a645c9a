//! Values that the RustPython engine once had wrong: each program of `tests/cases/values.jsonl` prints what CPython
//! 3.11 prints, and what can't be had right says so.

use std::time::Duration;

use ringfence_guest::engine::{Ended, Host, Interpreter, Pause, universal_newlines};
use ringfence_guest::files::Files;
use ringfence_guest::monty::Monty;
use ringfence_guest::rustpython::{RustPython, Warm};
use ringfence_types::{Call, CallId, GuestError, MimeBundle, Source, Stream, Value};

const ROWS: &str = include_str!("../../../tests/cases/values.jsonl");

/// A host that keeps what is printed and grants nothing.
struct Paper {
    out: String,
    files: Files,
}

impl Host for Paper {
    fn print(&mut self, _: Stream, bytes: &[u8]) {
        self.out.push_str(&String::from_utf8_lossy(bytes));
    }
    fn show(&mut self, _: MimeBundle) {}
    fn next_call(&mut self) -> CallId {
        CallId(0)
    }
    fn call(&mut self, call: Call, _: &dyn Pause) -> Result<Value, GuestError> {
        Err(GuestError { exception: "PermissionError".to_owned(), message: call.function })
    }
    fn defer(&mut self, _: Call) {}
    fn wait(
        &mut self,
        _: &[CallId],
        _: Option<Duration>,
        _: &dyn Pause,
    ) -> Option<(CallId, Result<Value, GuestError>)> {
        None
    }
    fn sleep(&mut self, _: Duration) {}
    fn files(&mut self) -> &mut Files {
        &mut self.files
    }
}

fn told(engine: &mut dyn Interpreter, code: &str) -> String {
    let mut paper = Paper { out: String::new(), files: Files::new(100_000) };
    match engine.run(&universal_newlines(&Source::new(code)), &mut paper) {
        Ended::Done(_) => paper.out,
        Ended::Raised(error) => format!("{}{}: {}", paper.out, error.kind, error.message),
        Ended::Unsupported(lacking) => format!("{}unsupported {} at {:?}", paper.out, lacking.feature, lacking.line),
        Ended::NoValue(error) => format!("{}no value: {error}", paper.out),
    }
}

/// Interpreters need more stack than a test thread has; workers have 64 MiB. The library serves one thread of a
/// process: all is run on this one, in turn.
fn on_a_worker_stack(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, test);
        assert!(thread.expect("a thread").join().is_ok(), "see the panic above");
    });
}

#[test]
fn programs_print_what_cpython_prints_or_are_unsupported() {
    on_a_worker_stack(|| {
        let mut engine = RustPython::new(Warm::new().expect("the interpreter warms"));
        let mut count = 0;
        for line in ROWS.lines() {
            let row: serde_json::Value = serde_json::from_str(line).expect("a row of JSON");
            let of = |key: &str| row.get(key).and_then(serde_json::Value::as_str).expect("a text").to_owned();
            assert_eq!(told(&mut engine, &of("code")), of("stdout"), "{}", of("name"));
            count += 1;
        }
        assert_eq!(count, 34);
        let mut check = |code: &str, want: &str| assert_eq!(told(&mut engine, code), want, "{code}");
        check(
            "import xml.etree.ElementTree as E\nprint(1)\nE.fromstring('<r a=\"1\"/>')",
            "1\nunsupported module xml.parsers.expat at Some(3)",
        );
        check(
            "import xml.dom.minidom\nxml.dom.minidom.parseString('<a/>')",
            "unsupported module xml.parsers.expat at Some(2)",
        );
        check("import xml.etree.ElementTree as E\nprint(E.tostring(E.Element('r', a='1')))", "b'<r a=\"1\" />'\n");
        let two_lines = "x = '''a\r\nb'''\r\nprint(len(x))\r\n1 / 0";
        check(two_lines, "3\nZeroDivisionError: division by zero");
        assert_eq!(told(&mut Monty::new(), two_lines), "3\nZeroDivisionError: division by zero");
    });
}

#[test]
fn a_lean_interpreter_has_the_same_values() {
    on_a_worker_stack(|| {
        let mut engine = RustPython::new(Warm::lean().expect("the interpreter warms"));
        let code = "import csv, json\nprint(next(csv.reader(['\"a,b\",c'])), json.loads('[1e2]'), round(2.675, 2))";
        assert_eq!(told(&mut engine, code), "['a,b', 'c'] [100.0] 2.67\n");
    });
}
