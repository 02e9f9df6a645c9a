//! The RustPython engine: most of the language and of the standard library, started by a fork of a warm process.
//!
//! Answers to: the worker. Must not: keep a limit; the interpreter has none of its own, so its process is limited
//! from outside. The library serves one thread: make the [`Warm`] on the thread that will run, with a big stack.

mod await_at_top;
mod compile;
mod failure;
mod floats;
mod formats;
mod helpers;
mod incoming;
mod json;
mod mended;
mod missing;
mod natives;
mod nesting;
mod outgoing;
pub(crate) mod rehearsal;
mod rows;
mod spec;
mod sys;
mod texts;
mod warm;

use ringfence_types::{FunctionSpec, Source};
use rustpython_vm::scope::Scope;
use rustpython_vm::{PyObjectRef, PyResult, VirtualMachine};

pub use warm::{NotWarm, Warm};

use crate::engine::{Ended, Host, Interpreter, Unsupported};
use compile::{NoProgram, Program};
use failure::Snippets;
use helpers::helpers;
use outgoing::Walker;

/// A session in the RustPython interpreter.
pub struct RustPython {
    warm: Warm,
    scope: Scope,
    snippets: Snippets,
}

impl RustPython {
    /// The session that a warm interpreter becomes.
    pub fn new(warm: Warm) -> Self {
        let scope = warm.scope.clone();
        Self { warm, scope, snippets: Snippets::default() }
    }

    /// Takes new entropy, so that nothing random is shared by two sessions, and touches the memory that a first
    /// snippet needs. To be called in a process that was forked from a warm one, before it is given to a session.
    pub fn reseed(&mut self) -> Result<(), NotWarm> {
        if self.warm.preloaded {
            rehearsal::rehearse(&self.warm.interpreter, 1);
        }
        self.warm.interpreter.enter(|vm| match helpers() {
            Some(helpers) => helpers.reseed.call((), vm).map(|_| ()).map_err(|error| NotWarm::of(&error, vm)),
            None => Ok(()),
        })
    }
}

impl Interpreter for RustPython {
    fn declare(&mut self, functions: &[FunctionSpec]) {
        self.warm.interpreter.enter(|vm| {
            for function in functions {
                // A declaration that Python can't read still gives a function, with any arguments.
                let any = format!("def {}(*args, **kwargs)", function.name);
                let head = FunctionSpec { is_async: false, ..function.clone() }.head();
                let made = helpers().map(|helpers| {
                    let heads = vm.ctx.new_list(vec![vm.ctx.new_str(head).into(), vm.ctx.new_str(any).into()]);
                    let scope = self.scope.globals.clone();
                    let names = (function.name.clone(), function.doc.clone(), function.is_async);
                    helpers.declare.call((heads, names.0, names.1, names.2, scope), vm)
                });
                debug_assert!(matches!(made, Some(Ok(_))), "a function is declared by a Python identifier");
            }
        });
    }

    fn run(&mut self, source: &Source, host: &mut dyn Host) -> Ended {
        let Self { warm, scope, snippets } = self;
        sys::with_host(host, || warm.interpreter.enter(|vm| run(source, scope, snippets, vm)))
    }

    fn snapshot(&mut self) -> Result<Vec<u8>, Unsupported> {
        Err(no_snapshots())
    }

    fn restore(&mut self, _bytes: &[u8], _host: &mut dyn Host) -> Result<Option<Ended>, Unsupported> {
        Err(no_snapshots())
    }
}

fn no_snapshots() -> Unsupported {
    Unsupported { feature: natives::PAUSE.0.to_owned(), line: None }
}

fn run(source: &Source, scope: &Scope, snippets: &mut Snippets, vm: &VirtualMachine) -> Ended {
    let program = match compile::compile(&source.code, &source.file, vm) {
        Ok(program) => program,
        Err(NoProgram::TooDeep(line)) => return failure::too_deep(&source.code, &source.file, line),
        Err(NoProgram::Unknown(line)) => {
            return Ended::Unsupported(Unsupported { feature: "this syntax".to_owned(), line });
        }
        Err(NoProgram::Wrong(error)) => {
            let error = vm.new_syntax_error(&error, Some(&source.code));
            return failure::not_compiled(&error, &source.code, &source.file, vm);
        }
    };
    snippets.add(program.code.clone(), &source.code);
    let ran = prepare(source, scope, vm).and_then(|()| execute(program, scope, vm));
    let ended = match ran {
        Ok(value) => Walker::new(vm).value_at("value", &value).map_or_else(Ended::NoValue, Ended::Done),
        Err(error) => failure::ended(&error, snippets, vm),
    };
    if source.last {
        // As at the end of a program: after its result is known, before its output is closed.
        rustpython_vm::stdlib::atexit::_run_exitfuncs(vm);
    }
    match finish(vm) {
        Err(error) if matches!(ended, Ended::Done(_) | Ended::NoValue(_)) => failure::ended(&error, snippets, vm),
        _ => ended,
    }
}

/// Sets what the snippet reads: its inputs, its standard input, the lines its tracebacks show.
fn prepare(source: &Source, scope: &Scope, vm: &VirtualMachine) -> PyResult<()> {
    let Some(helpers) = helpers() else { return Ok(()) };
    helpers.begin.call((vm.ctx.new_bytes(source.stdin.clone().into_bytes()),), vm)?;
    for (name, value) in &source.inputs {
        scope.globals.set_item(name.as_str(), incoming::object_of(value.clone(), vm)?, vm)?;
    }
    let lines = source.code.split_inclusive('\n').map(|line| vm.ctx.new_str(line).into()).collect();
    let lines: PyObjectRef = vm.ctx.new_list(lines).into();
    let entry = vec![
        vm.ctx.new_int(source.code.len()).into(),
        vm.ctx.none(),
        lines,
        vm.ctx.new_str(source.file.as_str()).into(),
    ];
    helpers.lines.set_item(source.file.as_str(), vm.ctx.new_tuple(entry).into(), vm)
}

fn execute(program: Program, scope: &Scope, vm: &VirtualMachine) -> PyResult {
    vm.run_code_obj(program.code, scope.clone())?;
    if !program.awaits {
        return Ok(take(compile::VALUE, scope, vm)?.unwrap_or_else(|| vm.ctx.none()));
    }
    let (Some(function), Some(helpers)) = (take(await_at_top::NAME, scope, vm)?, helpers()) else {
        return Ok(vm.ctx.none());
    };
    helpers.run.call((function.call((), vm)?,), vm)
}

/// Takes a name of ours out of the program's names.
fn take(name: &'static str, scope: &Scope, vm: &VirtualMachine) -> PyResult<Option<PyObjectRef>> {
    let value = scope.globals.get_item_opt(name, vm)?;
    if value.is_some() {
        scope.globals.del_item(name, vm)?;
    }
    Ok(value)
}

/// Writes back what the snippet left open, and forgets the calls that nobody waits for.
fn finish(vm: &VirtualMachine) -> PyResult<()> {
    let Some(helpers) = helpers() else { return Ok(()) };
    helpers.forget.call((), vm)?;
    helpers.end.call((), vm)?;
    Ok(())
}
