//! Runs each file given in one session of the RustPython engine each, forked from nothing: a measure, not a sandbox.

use std::io::Write;
use std::time::{Duration, Instant};

use ringfence_guest::engine::{Ended, Host, Interpreter, Pause};
use ringfence_guest::files::Files;
use ringfence_guest::rustpython::{RustPython, Warm};
use ringfence_types::{Call, CallId, GuestError, MimeBundle, Source, Stream, Value};

struct Console(Files);

impl Host for Console {
    fn print(&mut self, stream: Stream, bytes: &[u8]) {
        let _ = match stream {
            Stream::Stdout => std::io::stdout().write_all(bytes),
            Stream::Stderr => std::io::stderr().write_all(bytes),
        };
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
    fn sleep(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }
    fn files(&mut self) -> &mut Files {
        &mut self.0
    }
}

fn main() {
    let runner = std::thread::Builder::new().stack_size(64 << 20).spawn(run_all);
    let ended = runner.map(std::thread::JoinHandle::join);
    std::process::exit(i32::from(!matches!(ended, Ok(Ok(true)))));
}

fn run_all() -> bool {
    let began = Instant::now();
    let warm = match Warm::new() {
        Ok(warm) => warm,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            return false;
        }
    };
    let warmed = began.elapsed();
    let mut engine = RustPython::new(warm);
    let mut host = Console(Files::new(1 << 20));
    let mut good = true;
    for path in std::env::args().skip(1) {
        let code = if let Some(code) = path.strip_prefix("-c") {
            code.to_owned()
        } else {
            std::fs::read_to_string(&path).unwrap_or_default()
        };
        let began = Instant::now();
        let ended = engine.run(&Source::new(code), &mut host);
        good &= matches!(ended, Ended::Done(_));
        let _ = writeln!(std::io::stdout(), "RESULT {ended:?}");
        let _ = writeln!(std::io::stderr(), "warm {warmed:?}, run {:?}", began.elapsed());
    }
    good
}
