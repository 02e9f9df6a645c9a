//! A few snippets that are run before the fork, so that what the interpreter makes on first use is made once, and
//! again after it, so that the pages they touch are there when the program comes.
//!
//! Answers to: `Warm`. Must not: leave anything behind in the session's names, or reach a real host.

use std::time::Duration;

use ringfence_types::{Call, CallId, GuestError, MimeBundle, Source, Stream, Value};
use rustpython_vm::Interpreter;

use super::failure::Snippets;
use super::sys::with_host;
use crate::engine::{Host, Pause};
use crate::files::Files;

/// What programs do most, in small.
const SNIPPETS: [&str; 3] = [
    "x = [n * 2 for n in range(5)]\nprint(f'{sum(x)=}', len(x), file=None)\nsorted(x, key=lambda n: -n)",
    "import json, re, math, datetime, random, collections\n\
     class A:\n    def __init__(self, n): self.n = n\n    def m(self): return self.n + 1\n\
     try:\n    [A(n).m() for n in range(9)][99]\nexcept IndexError as e:\n    s = str(e)\n\
     json.dumps({'k': [1, re.sub('a', 'b', 'aa'), math.sqrt(2)]}), collections.Counter('ab'), random.random()",
    "1 / 0",
];

/// Runs them `rounds` times against a host that is not there.
pub fn rehearse(interpreter: &Interpreter, rounds: usize) {
    let mut nobody = Nobody(Files::new(0));
    let mut snippets = Snippets::default();
    with_host(&mut nobody, || {
        interpreter.enter(|vm| {
            let scope = vm.new_scope_with_builtins();
            for _ in 0..rounds {
                for code in SNIPPETS {
                    super::run(&Source::new(code), &scope, &mut snippets, vm);
                }
            }
        });
    });
}

/// A host that keeps nothing and grants nothing.
pub(crate) struct Nobody(pub(crate) Files);

impl Host for Nobody {
    fn print(&mut self, _: Stream, _: &[u8]) {}
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
        &mut self.0
    }
}
