//! The Python functions and classes that the engine itself calls, taken up while the interpreter is warmed.
//!
//! Answers to: the conversions. Must not: look a name up in a module at run time, where a program could have put
//! something else.

use std::cell::Cell;
use std::collections::HashMap;

use rustpython_vm::builtins::{PyModule, PyType};
use rustpython_vm::{PyObjectRef, PyRef, PyResult, VirtualMachine};

/// What is kept.
pub struct Helpers {
    /// `session.plain`.
    pub plain: PyObjectRef,
    /// `session.standard`.
    pub standard: PyObjectRef,
    /// `session.record`.
    pub record: PyObjectRef,
    /// `session.declare`.
    pub declare: PyObjectRef,
    /// `session.begin`.
    pub begin: PyObjectRef,
    /// `session.end`.
    pub end: PyObjectRef,
    /// `session.reseed`.
    pub reseed: PyObjectRef,
    /// `loop.run`.
    pub run: PyObjectRef,
    /// `loop.forget`.
    pub forget: PyObjectRef,
    /// The cache of `linecache`, which tracebacks read source lines from.
    pub lines: PyObjectRef,
    /// The builtin exceptions that a host function's error may become.
    pub exceptions: HashMap<String, PyObjectRef>,
}

thread_local! {
    static HELPERS: Cell<Option<&'static Helpers>> = const { Cell::new(None) };
}

/// The helpers of this thread's interpreter.
pub fn helpers() -> Option<&'static Helpers> {
    HELPERS.get()
}

/// Takes them up. They live as long as the process, like the interpreter they belong to.
pub fn take_up(session: &PyRef<PyModule>, event_loop: &PyRef<PyModule>, vm: &VirtualMachine) -> PyResult<()> {
    let of_session = |name: &'static str| session.get_attr(name, vm);
    let helpers = Helpers {
        plain: of_session("plain")?,
        standard: of_session("standard")?,
        record: of_session("record")?,
        declare: of_session("declare")?,
        begin: of_session("begin")?,
        end: of_session("end")?,
        reseed: of_session("reseed")?,
        run: event_loop.get_attr("run", vm)?,
        forget: event_loop.get_attr("forget", vm)?,
        lines: vm.import("linecache", 0)?.get_attr("cache", vm)?,
        exceptions: exceptions(vm),
    };
    HELPERS.set(Some(Box::leak(Box::new(helpers))));
    Ok(())
}

/// Ordinary exceptions that take one message. Those that steer the program (`StopIteration`, `SystemExit` …) are
/// left out: a host function's failure must be seen as one.
fn exceptions(vm: &VirtualMachine) -> HashMap<String, PyObjectRef> {
    const STEERING: [&str; 4] = ["StopIteration", "StopAsyncIteration", "UnicodeDecodeError", "UnicodeEncodeError"];
    let builtins = vm.builtins.dict().items_vec();
    let exceptions = builtins.into_iter().filter_map(|(_, object)| {
        let class = object.downcast_ref::<PyType>()?;
        let name = class.name().to_string();
        let ordinary = class.fast_issubclass(vm.ctx.exceptions.exception_type);
        let group = class.fast_issubclass(vm.ctx.exceptions.base_exception_group);
        (ordinary && !group && !STEERING.contains(&name.as_str())).then(|| (name, object.clone()))
    });
    exceptions.collect()
}
