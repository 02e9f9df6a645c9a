//! The native module `_ringfence`: all that the Python parts can ask of the host.
//!
//! Answers to: `session.py`, `posix.py`, `loop.py`. Must not: offer more than [`Host`] does: a program can call these
//! functions too.

use std::time::Duration;

use ringfence_types::{Call, CallId, FileFault, GuestPath, MimeBundle, Stream};
use rustpython_vm::builtins::{PyBaseExceptionRef, PyBytesRef, PyDictRef, PyListRef, PyStrRef, PyTupleRef};
use rustpython_vm::function::ArgBytesLike;
use rustpython_vm::{AsObject, PyObjectRef, PyResult, VirtualMachine};

use super::incoming::{object_of, raised};
use super::outgoing::Walker;
use super::sys::host;
use crate::engine::{Host, NoPause};
use crate::files::Files;

/// The longest that one wait takes: the host's clock ends the run long before.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What engines without snapshots say to a pause.
pub const PAUSE: NoPause = NoPause("snapshots with the rustpython engine");

/// Makes the module and puts it where Python finds it.
pub fn install(vm: &VirtualMachine) -> PyResult<()> {
    let dict = vm.ctx.new_dict();
    let module = vm.new_module("_ringfence", dict, None);
    macro_rules! offer {
        ($($name:ident),*) => {
            $(module.set_attr(stringify!($name), vm.new_function(stringify!($name), $name), vm)?;)*
        };
    }
    offer!(write, write_out, write_err, sleep, call, defer, wait, show, urandom);
    offer!(file_read, file_write, file_stat, file_list, file_mkdir, file_remove);
    vm.sys_module.get_attr("modules", vm)?.set_item("_ringfence", module.into(), vm)
}

fn asked<R>(vm: &VirtualMachine, run: impl FnOnce(&mut dyn Host) -> R) -> PyResult<R> {
    host(run).ok_or_else(|| vm.new_runtime_error("the host can be reached only while a program runs".to_owned()))
}

fn write(number: i32, data: ArgBytesLike, vm: &VirtualMachine) -> PyResult<()> {
    let stream = if number == 2 { Stream::Stderr } else { Stream::Stdout };
    let bytes = data.borrow_buf();
    asked(vm, |host| host.print(stream, &bytes))
}

fn write_out(text: PyStrRef, vm: &VirtualMachine) -> PyResult<usize> {
    write_text(Stream::Stdout, &text, vm)
}

fn write_err(text: PyStrRef, vm: &VirtualMachine) -> PyResult<usize> {
    write_text(Stream::Stderr, &text, vm)
}

/// Lone surrogates are written as escapes: the stream is UTF-8.
fn write_text(stream: Stream, text: &PyStrRef, vm: &VirtualMachine) -> PyResult<usize> {
    let count = text.char_len();
    match text.to_str() {
        Some(plain) => asked(vm, |host| host.print(stream, plain.as_bytes()))?,
        None => {
            let mut escaped = String::new();
            for point in text.as_wtf8().code_points() {
                match point.to_char() {
                    Some(letter) => escaped.push(letter),
                    None => escaped.push_str(&format!("\\u{:04x}", point.to_u32())),
                }
            }
            asked(vm, |host| host.print(stream, escaped.as_bytes()))?;
        }
    }
    Ok(count)
}

fn sleep(seconds: f64, vm: &VirtualMachine) -> PyResult<()> {
    let duration = Duration::try_from_secs_f64(seconds).map_or(LONGEST, |given| given.min(LONGEST));
    asked(vm, |host| host.sleep(duration))
}

/// The call in its plain form, under one budget for all its arguments.
fn call_of(name: &PyStrRef, args: &PyTupleRef, kwargs: &PyDictRef, vm: &VirtualMachine) -> PyResult<Call> {
    let mut walker = Walker::new(vm);
    // As Python's own encoders do: a cycle is a bad value, everything else a bad type.
    let refused = |error: ringfence_types::ValueError| match &error {
        ringfence_types::ValueError::Cycle { .. } => vm.new_value_error(error.to_string()),
        _ => vm.new_type_error(error.to_string()),
    };
    let function = name.to_string_lossy().into_owned();
    let mut call = Call { id: CallId(0), function, args: Vec::new(), kwargs: Vec::new(), deferred: false };
    for (index, value) in args.as_slice().iter().enumerate() {
        call.args.push(walker.value_at(&format!("args[{index}]"), value).map_err(refused)?);
    }
    for (key, value) in kwargs.items_vec() {
        let key = key.downcast_ref::<rustpython_vm::builtins::PyStr>().and_then(|key| key.to_str()).map(str::to_owned);
        let key = key.ok_or_else(|| vm.new_type_error("keywords must be strings".to_owned()))?;
        let value = walker.value_at(&format!("args.{key}"), &value).map_err(refused)?;
        call.kwargs.push((key, value));
    }
    call.id = asked(vm, |host| host.next_call())?;
    Ok(call)
}

fn call(name: PyStrRef, args: PyTupleRef, kwargs: PyDictRef, vm: &VirtualMachine) -> PyResult {
    let call = call_of(&name, &args, &kwargs, vm)?;
    match asked(vm, |host| host.call(call, &PAUSE))? {
        Ok(value) => object_of(value, vm),
        Err(error) => Err(raised(&error, vm)),
    }
}

fn defer(name: PyStrRef, args: PyTupleRef, kwargs: PyDictRef, vm: &VirtualMachine) -> PyResult<u64> {
    let call = Call { deferred: true, ..call_of(&name, &args, &kwargs, vm)? };
    let number = call.id.0;
    asked(vm, |host| host.defer(call))?;
    Ok(number)
}

/// The next answer as (number, whether it went well, value or exception), or `None` where the time is over.
fn wait(pending: PyListRef, timeout: Option<f64>, vm: &VirtualMachine) -> PyResult {
    let mut numbers = Vec::new();
    for number in pending.borrow_vec().iter() {
        numbers.push(CallId(number.clone().try_into_value::<u64>(vm)?));
    }
    let timeout = timeout.map(|given| Duration::try_from_secs_f64(given.max(0.0)).unwrap_or(LONGEST).min(LONGEST));
    let Some((number, answer)) = asked(vm, |host| host.wait(&numbers, timeout, &PAUSE))? else {
        return Ok(vm.ctx.none());
    };
    let (well, result) = match answer {
        Ok(value) => (true, object_of(value, vm)?),
        Err(error) => (false, raised(&error, vm).into()),
    };
    let row = vec![vm.ctx.new_int(number.0).into(), vm.ctx.new_bool(well).into(), result];
    Ok(vm.ctx.new_tuple(row).into())
}

fn show(rows: PyListRef, vm: &VirtualMachine) -> PyResult<()> {
    let mut bundle = MimeBundle::default();
    for row in rows.borrow_vec().iter() {
        let (kind, data) = row.clone().try_into_value::<PyTupleRef>(vm)?.extract_tuple::<(PyStrRef, PyBytesRef)>(vm)?;
        bundle.0.push((kind.to_string_lossy().into_owned(), data.as_bytes().to_vec()));
    }
    asked(vm, |host| host.show(bundle))
}

/// Entropy of the kernel, which the lock lets through.
fn urandom(size: usize, vm: &VirtualMachine) -> PyResult<PyBytesRef> {
    if size > 1 << 24 {
        return Err(vm.new_value_error("at most 16 MiB of random bytes at once".to_owned()));
    }
    let mut bytes = vec![0; size];
    getrandom::fill(&mut bytes).map_err(|error| vm.new_os_error(error.to_string()))?;
    Ok(vm.ctx.new_bytes(bytes))
}

fn path_of(path: &PyStrRef, vm: &VirtualMachine) -> PyResult<GuestPath> {
    let text = path.to_str().ok_or_else(|| vm.new_value_error("a path must be text without surrogates".to_owned()))?;
    GuestPath::resolve(text).map_err(|fault| os_error(&fault, vm))
}

fn os_error(fault: &FileFault, vm: &VirtualMachine) -> PyBaseExceptionRef {
    let (number, text) = match fault {
        FileFault::BadPath(_) => (22, "Invalid argument"),
        FileFault::NotFound(_) => (2, "No such file or directory"),
        FileFault::IsFolder(_) => (21, "Is a directory"),
        FileFault::NotFolder(_) => (20, "Not a directory"),
        FileFault::Denied(_) => (13, "Permission denied"),
        FileFault::NoSpace(_) => (28, "No space left on device"),
    };
    let class = vm.ctx.exceptions.os_error.as_object();
    let made = class.call((number, text), vm).and_then(|made| {
        made.downcast::<rustpython_vm::builtins::PyBaseException>().map_err(|_| vm.new_os_error(text.to_owned()))
    });
    made.unwrap_or_else(|error| error)
}

/// Asks the session's files; while no program runs (the interpreter is being warmed) there are none.
fn filed<R>(
    path: &PyStrRef,
    vm: &VirtualMachine,
    ask: impl FnOnce(&mut Files, &GuestPath) -> Result<R, FileFault>,
) -> PyResult<R> {
    let path = path_of(path, vm)?;
    let answer = host(|host| ask(host.files(), &path)).unwrap_or_else(|| Err(FileFault::NotFound(path.to_string())));
    answer.map_err(|fault| os_error(&fault, vm))
}

fn file_read(path: PyStrRef, vm: &VirtualMachine) -> PyResult<PyBytesRef> {
    let content = filed(&path, vm, |files, path| files.read(path).map(<[u8]>::to_vec))?;
    Ok(vm.ctx.new_bytes(content))
}

fn file_write(path: PyStrRef, data: ArgBytesLike, vm: &VirtualMachine) -> PyResult<()> {
    let content = data.borrow_buf().to_vec();
    filed(&path, vm, |files, path| files.write(path, content))
}

/// (whether it is a folder, its size), or `None` where nothing is there.
fn file_stat(path: PyStrRef, vm: &VirtualMachine) -> PyResult {
    let path = path_of(&path, vm)?;
    let state = host(|host| {
        let files = host.files();
        if files.is_folder(&path) {
            Some((true, 0))
        } else {
            files.read(&path).ok().map(|content| (false, content.len()))
        }
    });
    Ok(match state.flatten() {
        Some((folder, size)) => vm.new_pyobj((folder, size)),
        None => vm.ctx.none(),
    })
}

/// Rows of (name, whether it is a folder).
fn file_list(path: PyStrRef, vm: &VirtualMachine) -> PyResult {
    let rows = filed(&path, vm, |files, path| files.list(path))?;
    let rows: Vec<PyObjectRef> = rows
        .iter()
        .map(|row| {
            let name = row.path.as_str().rsplit('/').next().unwrap_or_default();
            vm.new_pyobj((name.to_owned(), row.folder))
        })
        .collect();
    Ok(vm.ctx.new_list(rows).into())
}

fn file_mkdir(path: PyStrRef, vm: &VirtualMachine) -> PyResult<()> {
    filed(&path, vm, Files::make_folder)
}

fn file_remove(path: PyStrRef, vm: &VirtualMachine) -> PyResult<()> {
    filed(&path, vm, Files::remove)
}
