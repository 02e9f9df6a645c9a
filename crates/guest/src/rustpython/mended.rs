//! What the interpreter has wrong, put right before a program runs: methods of its types and modules of its library.
//!
//! Answers to: `Warm`. Must not: touch a type once a program runs, or add what CPython has not.

use rustpython_vm::builtins::{PyListRef, PyModule, PyStrRef, PyTupleRef, PyType, PyTypeRef};
use rustpython_vm::function::{IntoPyNativeFn, PyMethodFlags};
use rustpython_vm::{Py, PyObjectRef, PyRef, PyResult, VirtualMachine};

use super::{floats, formats, json, rows, texts};

/// The Python part, which says what it puts where.
pub const PART: &str = include_str!("mended.py");
/// Modules of ours in place of native ones, made when they are imported.
const MODULES: [(&str, &str); 2] = [("_csv", include_str!("csv.py")), ("pyexpat", include_str!("expat.py"))];

/// Puts a method into a type of the interpreter.
pub fn method<Kind>(
    class: &'static Py<PyType>,
    name: &'static str,
    function: impl IntoPyNativeFn<Kind>,
    vm: &VirtualMachine,
) {
    let definition = vm.ctx.new_method_def(name, function, PyMethodFlags::METHOD, None);
    class.set_attr(vm.ctx.intern_str(name), definition.build_method(class, vm).into());
}

/// Once, while the interpreter is warmed and before the library is imported.
pub fn install(part: &PyRef<PyModule>, vm: &VirtualMachine) -> PyResult<()> {
    floats::mend(vm);
    formats::mend(vm);
    texts::mend(vm);
    let sources = vm.ctx.new_dict();
    for (name, source) in MODULES {
        sources.set_item(name, vm.ctx.new_str(source).into(), vm)?;
    }
    part.get_attr("install", vm)?
        .call((sources, vm.new_function("scan", json::scan), vm.new_function("row", rows::row)), vm)?;
    let methods: PyListRef = part.get_attr("METHODS", vm)?.try_into_value(vm)?;
    for row in methods.borrow_vec().iter() {
        let row = row.clone().try_into_value::<PyTupleRef>(vm)?;
        let (class, name, function) = row.extract_tuple::<(PyTypeRef, PyStrRef, PyObjectRef)>(vm)?;
        class.set_attr(vm.ctx.intern_str(name.to_string_lossy().as_ref()), function);
    }
    Ok(())
}
