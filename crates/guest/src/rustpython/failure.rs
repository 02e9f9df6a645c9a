//! From an exception of the interpreter to what the host is told: type, message, the program's own frames, causes.
//!
//! Answers to: the engine. Must not: grow without bound, or fail where the program's own `__str__` does.

use std::collections::VecDeque;

use ringfence_types::{GuestException, Stream, TraceFrame};
use rustpython_vm::builtins::{PyBaseExceptionRef, PyCode, PyInt, PyList, PyStr};
use rustpython_vm::{AsObject, Py, PyObject, PyRef, VirtualMachine};

use super::missing;
use super::sys::host;
use crate::engine::{Ended, Unsupported};

/// The longest message that is told.
const MESSAGE: usize = 64 << 10;
/// The longest class, file or function name, and source line.
const NAME: usize = 512;
/// Causes that are followed: with the exception itself as many as a frame may hold.
const CAUSES: usize = 7;
/// Frames that are told: this many outermost and innermost ones.
const FRAMES: (usize, usize) = (20, 80);
/// Notes that are told.
const NOTES: usize = 16;
/// What CPython says where no thread can be had.
const NO_THREAD: &str = "can't start new thread";
/// Snippets whose source lines are remembered.
const SNIPPETS: usize = 64;

/// The snippets that ran, newest last: which code is the program's, and its text.
#[derive(Default)]
pub struct Snippets(VecDeque<(PyRef<PyCode>, Box<str>)>);

impl Snippets {
    /// Remembers one.
    pub fn add(&mut self, code: PyRef<PyCode>, source: &str) {
        if self.0.len() >= SNIPPETS {
            self.0.pop_front();
        }
        self.0.push_back((code, source.into()));
    }

    fn has_file(&self, file: &str) -> bool {
        self.0.iter().any(|(code, _)| code.source_path().as_str() == file)
    }

    fn line_of(&self, code: &Py<PyCode>, line: usize) -> Option<String> {
        let (_, source) = self.0.iter().rev().find(|(module, _)| holds(module, code))?;
        line_of(source, line)
    }
}

fn holds(module: &Py<PyCode>, code: &Py<PyCode>) -> bool {
    if module.is(code) {
        return true;
    }
    module.code.constants.iter().any(|constant| {
        let inner: &PyObject = constant.as_object();
        inner.downcast_ref::<PyCode>().is_some_and(|inner| holds(inner, code))
    })
}

fn line_of(source: &str, line: usize) -> Option<String> {
    let text = source.lines().nth(line.checked_sub(1)?)?.trim();
    Some(cut(text, NAME))
}

fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// How a snippet ended that raised.
pub fn ended(error: &PyBaseExceptionRef, snippets: &Snippets, vm: &VirtualMachine) -> Ended {
    let told = told(error, snippets, vm, 0);
    let line = told.frames.last().map(|frame| frame.line);
    if error.fast_isinstance(vm.ctx.exceptions.module_not_found_error)
        && let Some(name) = attribute(error, "name", vm).and_then(|name| text_of(&name))
        && let Some(module) = missing::known(&name)
    {
        let module = asked_for(error, snippets).filter(|_| name.starts_with('_')).unwrap_or(module);
        return Ended::Unsupported(Unsupported { feature: format!("module {module}"), line });
    }
    if told.kind == "RuntimeError" && told.message == NO_THREAD {
        let feature = "threads that go on beside the program".to_owned();
        return Ended::Unsupported(Unsupported { feature, line });
    }
    Ended::Raised(told)
}

/// The frozen module that the program imported, where that one in turn wanted something that is not here.
fn asked_for(error: &PyBaseExceptionRef, snippets: &Snippets) -> Option<String> {
    let mut found = None;
    let mut at = error.__traceback__();
    while let Some(traceback) = at {
        let file = traceback.frame.code.source_path().as_str();
        if snippets.has_file(file) {
            found = None;
        } else if found.is_none() && !file.starts_with("_frozen") && !file.starts_with('<') {
            found = Some(cut(file, NAME));
        }
        at = traceback.next.lock().clone();
    }
    found
}

/// A source that did not compile.
pub fn not_compiled(error: &PyBaseExceptionRef, source: &str, file: &str, vm: &VirtualMachine) -> Ended {
    let mut told = told(error, &Snippets::default(), vm, 0);
    if let Some(message) = attribute(error, "msg", vm).and_then(|message| text_of(&message)) {
        told.message = cut(&message, MESSAGE);
    }
    let line = attribute(error, "lineno", vm).and_then(|line| line.try_into_value::<u32>(vm).ok()).unwrap_or(1);
    told.frames.push(frame(file, line, "<module>", line_of(source, line as usize)));
    Ended::Raised(told)
}

/// A source that nests deeper than the native stack could follow.
pub fn too_deep(source: &str, file: &str, line: u32) -> Ended {
    Ended::Raised(GuestException {
        kind: "SyntaxError".to_owned(),
        message: "too many nested expressions or blocks".to_owned(),
        frames: vec![frame(file, line, "<module>", line_of(source, line as usize))],
        cause: None,
        notes: Vec::new(),
        exit_code: None,
    })
}

fn frame(file: &str, line: u32, function: &str, source: Option<String>) -> TraceFrame {
    TraceFrame { file: cut(file, NAME), line, function: cut(function, NAME), source }
}

fn told(error: &PyBaseExceptionRef, snippets: &Snippets, vm: &VirtualMachine, depth: usize) -> GuestException {
    let exit_code = exit_code(error, vm, depth);
    let message = match error.as_object().str(vm) {
        _ if exit_code == Some(0) => String::new(),
        Ok(text) => cut(&text.to_string_lossy(), MESSAGE),
        Err(_) => "<exception str() failed>".to_owned(),
    };
    let silent = attribute(error, "__suppress_context__", vm).is_some_and(|flag| flag.is(&vm.ctx.true_value));
    let cause = error.__cause__().or_else(|| error.__context__().filter(|_| !silent));
    let cause = cause.filter(|cause| depth < CAUSES && !cause.is(error));
    GuestException {
        kind: cut(&error.class().name(), NAME),
        message,
        frames: frames(error, snippets),
        cause: cause.map(|cause| Box::new(told(&cause, snippets, vm, depth + 1))),
        notes: notes(error, vm),
        exit_code,
    }
}

fn frames(error: &PyBaseExceptionRef, snippets: &Snippets) -> Vec<TraceFrame> {
    let mut frames = Vec::new();
    let mut at = error.__traceback__();
    while let Some(traceback) = at {
        let code = &traceback.frame.code;
        let file = code.source_path().as_str();
        if snippets.has_file(file) {
            let line = traceback.lineno.get();
            let shown = u32::try_from(line).unwrap_or(u32::MAX);
            frames.push(frame(file, shown, code.obj_name.as_str(), snippets.line_of(code, line)));
            if frames.len() > FRAMES.0 + FRAMES.1 {
                frames.remove(FRAMES.0);
            }
        }
        at = traceback.next.lock().clone();
    }
    frames
}

fn notes(error: &PyBaseExceptionRef, vm: &VirtualMachine) -> Vec<String> {
    let Some(notes) = attribute(error, "__notes__", vm) else { return Vec::new() };
    let Some(notes) = notes.downcast_ref::<PyList>() else { return Vec::new() };
    let notes = notes.borrow_vec();
    notes.iter().take(NOTES).filter_map(|note| Some(cut(&text_of(note)?, 4096))).collect()
}

/// The code of a `SystemExit`; a text is printed, as the interpreter would on its way out.
fn exit_code(error: &PyBaseExceptionRef, vm: &VirtualMachine, depth: usize) -> Option<i32> {
    if depth > 0 || !error.fast_isinstance(vm.ctx.exceptions.system_exit) {
        return None;
    }
    let code = attribute(error, "code", vm)?;
    if vm.is_none(&code) {
        return Some(0);
    }
    if let Some(number) = code.downcast_ref::<PyInt>() {
        return Some(number.as_bigint().try_into().unwrap_or(-1));
    }
    if code.is(&vm.ctx.true_value) || code.is(&vm.ctx.false_value) {
        return Some(i32::from(code.is(&vm.ctx.true_value)));
    }
    let text = code.str(vm).map(|text| cut(&text.to_string_lossy(), MESSAGE)).unwrap_or_default();
    host(|host| host.print(Stream::Stderr, format!("{text}\n").as_bytes()));
    Some(1)
}

fn attribute(
    error: &PyBaseExceptionRef,
    name: &'static str,
    vm: &VirtualMachine,
) -> Option<rustpython_vm::PyObjectRef> {
    error.as_object().get_attr(name, vm).ok()
}

fn text_of(object: &PyObject) -> Option<String> {
    Some(object.downcast_ref::<PyStr>()?.to_string_lossy().into_owned())
}
