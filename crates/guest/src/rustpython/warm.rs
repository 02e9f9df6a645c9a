//! An interpreter that has imported what programs import, ready to be forked.
//!
//! Answers to: the worker's template process. Must not: read a file or start a thread; all modules are frozen in.

use rustpython_vm::builtins::{PyBaseExceptionRef, PyModule};
use rustpython_vm::compiler::{CompileOpts, Mode};
use rustpython_vm::scope::Scope;
use rustpython_vm::{Interpreter, PyRef, PyResult, Settings, VirtualMachine};

use super::{helpers, mended, natives, rehearsal};

/// Native modules that a session may import. The others reach for sockets, processes, devices or memory.
const NATIVE: &[&str] = &[
    "_abc",
    "_types",
    "_ast",
    "atexit",
    "_codecs",
    "_collections",
    "errno",
    "_functools",
    "gc",
    "_imp",
    "_io",
    "itertools",
    "marshal",
    "_operator",
    "_signal",
    "_sre",
    "_stat",
    "_string",
    "_symtable",
    "_sysconfigdata",
    "_sysconfig",
    "time",
    "_typing",
    "_warnings",
    "_weakref",
    "_asyncio",
    "_opcode",
    "array",
    "binascii",
    "_bisect",
    "_blake2",
    "_bz2",
    "cmath",
    "_contextvars",
    "_hashlib",
    "_json",
    "_locale",
    "_lzma",
    "math",
    "_md5",
    "_struct",
    "_random",
    "_sha1",
    "_sha256",
    "_sha2",
    "_sha3",
    "_sha512",
    "_statistics",
    "_suggestions",
    "_tokenize",
    "unicodedata",
    "zlib",
    "builtins",
    "sys",
];

/// What is imported before the fork.
const IMPORTED: &[&str] = &[
    "abc",
    "argparse",
    "array",
    "ast",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "codecs",
    "collections",
    "collections.abc",
    "concurrent.futures",
    "configparser",
    "contextlib",
    "contextvars",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "email.utils",
    "enum",
    "fnmatch",
    "fractions",
    "functools",
    "getpass",
    "glob",
    "graphlib",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "html.parser",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "math",
    "numbers",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "platform",
    "pprint",
    "queue",
    "random",
    "re",
    "reprlib",
    "secrets",
    "shlex",
    "shutil",
    "signal",
    "statistics",
    "string",
    "struct",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "token",
    "tokenize",
    "tomllib",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "unittest.mock",
    "urllib.parse",
    "uuid",
    "warnings",
    "weakref",
    "xml.etree.ElementTree",
    "zipfile",
    "zlib",
    "zoneinfo",
];

const POSIX: &str = include_str!("posix.py");
const FILES: &str = include_str!("files.py");
const SESSION: &str = include_str!("session.py");
const LOOP: &str = include_str!("loop.py");
const REFUSALS: &str = include_str!("refusals.py");

/// An interpreter that could not be made: a fault of the build, not of a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the interpreter could not be warmed: {0}")]
pub struct NotWarm(String);

impl NotWarm {
    /// From the exception that was raised.
    pub(super) fn of(error: &PyBaseExceptionRef, vm: &VirtualMachine) -> Self {
        let mut text = String::new();
        let _ = vm.write_exception(&mut text, error);
        Self(text)
    }
}

/// A warm interpreter.
pub struct Warm {
    pub(super) preloaded: bool,
    pub(super) interpreter: Interpreter,
    pub(super) scope: Scope,
}

impl Warm {
    /// Makes one; takes tens of milliseconds. Call it on the thread that will run programs, before any lock.
    pub fn new() -> Result<Self, NotWarm> {
        Self::made(true)
    }

    /// Makes one that has imported only what it needs itself: ready in a fraction of the time, for a single session
    /// that imports the rest when it wants it.
    pub fn lean() -> Result<Self, NotWarm> {
        Self::made(false)
    }

    fn made(preloaded: bool) -> Result<Self, NotWarm> {
        let mut settings = Settings::default();
        settings.install_signal_handlers = false;
        settings.import_site = false;
        settings.user_site_directory = false;
        settings.ignore_environment = true;
        settings.isolated = true;
        settings.safe_path = true;
        settings.write_bytecode = false;
        settings.allow_external_library = false;
        settings.utf8_mode = 1;
        settings.argv = vec!["main.py".to_owned()];
        let builder = Interpreter::builder(settings);
        let natives = rustpython_stdlib::stdlib_module_defs(&builder.ctx);
        let interpreter = builder
            .add_native_modules(&natives)
            .add_frozen_modules(rustpython_pylib::FROZEN_STDLIB)
            .init_hook(|vm| {
                if let Some(state) = rustpython_vm::common::rc::PyRc::get_mut(&mut vm.state) {
                    state.module_defs.retain(|name, _| NATIVE.contains(name) || name.starts_with("_sysconfigdata"));
                }
            })
            .build();
        let modules = if preloaded { IMPORTED } else { &[] };
        let scope = interpreter.enter(|vm| warm(vm, modules).map_err(|error| NotWarm::of(&error, vm)))?;
        if preloaded {
            rehearsal::rehearse(&interpreter, 3);
        }
        Ok(Self { preloaded, interpreter, scope })
    }
}

fn warm(vm: &VirtualMachine, modules: &[&'static str]) -> PyResult<Scope> {
    natives::install(vm)?;
    let names = vm.sys_module.get_attr("builtin_module_names", vm)?;
    let names = vm._add(&names, &vm.new_pyobj(("posix".to_owned(),)))?;
    vm.sys_module.set_attr("builtin_module_names", names, vm)?;
    part("posix", POSIX, vm)?;
    let mending = part("ringfence_mended", mended::PART, vm)?;
    mended::install(&mending, vm)?;
    let files = part("ringfence_files", FILES, vm)?;
    call(&files, "install", vm)?;
    let refusals = part("ringfence_refusals", REFUSALS, vm)?;
    call(&refusals, "lend", vm)?;
    vm.import("asyncio", 0)?;
    vm.import("asyncio.unix_events", 0)?;
    call(&refusals, "take_back", vm)?;
    for name in modules {
        vm.import(*name, 0)?;
    }
    let session = part("ringfence_session", SESSION, vm)?;
    call(&session, "install", vm)?;
    let event_loop = part("ringfence_loop", LOOP, vm)?;
    call(&event_loop, "install", vm)?;
    call(&refusals, "install", vm)?;
    fix_code_objects(vm);
    helpers::take_up(&session, &event_loop, vm)?;
    vm.new_scope_with_main()
}

/// Code objects are made by the compiler only: one that was put together by hand could end the worker.
fn fix_code_objects(vm: &VirtualMachine) {
    let code = vm.ctx.types.code_type;
    let mut attributes = code.attributes.write();
    for name in ["replace", "__replace__"] {
        attributes.shift_remove(vm.ctx.intern_str(name));
    }
    code.slots.new.store(None);
}

/// Runs one of the Python parts as a module of that name.
fn part(name: &'static str, source: &'static str, vm: &VirtualMachine) -> PyResult<PyRef<PyModule>> {
    let file = format!("<ringfence {name}>");
    let code = vm
        .compile_with_opts(source, Mode::Exec, file, CompileOpts::default())
        .map_err(|error| vm.new_syntax_error(&error, Some(source)))?;
    let scope = vm.new_scope_with_builtins();
    let module = vm.new_module(name, scope.globals.clone(), None);
    vm.sys_module.get_attr("modules", vm)?.set_item(name, module.clone().into(), vm)?;
    vm.run_code_obj(code, scope)?;
    Ok(module)
}

fn call(module: &PyRef<PyModule>, name: &'static str, vm: &VirtualMachine) -> PyResult<()> {
    module.get_attr(name, vm)?.call((), vm).map(|_| ())
}
