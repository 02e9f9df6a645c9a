//! `__format__` of texts, ints, bools and floats, which f-strings, `format` and `str.format` all come to.
//!
//! Answers to: `Warm`, which puts these functions into the types. Must not: be put there once a program runs.

use rustpython_vm::builtins::{PyBaseExceptionRef, PyFloat, PyInt, PyStr, PyStrRef, try_bigint_to_f64};
use rustpython_vm::{AsObject, PyRef, PyResult, VirtualMachine};

use super::mended::method;
use super::spec::{Misfit, Spec};

/// Puts them into the types. A bool is formatted as the int that it is.
pub fn mend(vm: &VirtualMachine) {
    let types = &vm.ctx.types;
    method(types.str_type, "__format__", of_text, vm);
    method(types.int_type, "__format__", of_int, vm);
    method(types.bool_type, "__format__", of_int, vm);
    method(types.float_type, "__format__", of_float, vm);
}

fn raised(misfit: &Misfit, vm: &VirtualMachine) -> PyBaseExceptionRef {
    match misfit {
        Misfit::Value(text) => vm.new_value_error(text.clone()),
        Misfit::Character => vm.new_overflow_error(misfit.to_string()),
        Misfit::Memory => vm.new_memory_error(misfit.to_string()),
    }
}

fn plain(text: &PyStrRef, vm: &VirtualMachine) -> PyResult<String> {
    let lone = || vm.new_value_error("a lone surrogate can't be formatted to a width or a precision".to_owned());
    text.to_str().map(str::to_owned).ok_or_else(lone)
}

fn of_text(value: PyRef<PyStr>, spec: PyStrRef, vm: &VirtualMachine) -> PyResult {
    if spec.is_empty() {
        return Ok(value.as_object().str(vm)?.into());
    }
    let spec = Spec::read(&plain(&spec, vm)?, "str", '<').map_err(|misfit| raised(&misfit, vm))?;
    let made = spec.text(&plain(&value, vm)?).map_err(|misfit| raised(&misfit, vm))?;
    Ok(vm.ctx.new_str(made).into())
}

fn of_int(value: PyRef<PyInt>, spec: PyStrRef, vm: &VirtualMachine) -> PyResult {
    if spec.is_empty() {
        return Ok(value.as_object().str(vm)?.into());
    }
    let of = if value.class().is(vm.ctx.types.bool_type) { "bool" } else { "int" };
    let number = value.as_bigint();
    let made = Spec::read(&plain(&spec, vm)?, of, '>').and_then(|spec| {
        if spec.wants_float() {
            return Ok(Err(spec));
        }
        if !spec.fits_int() {
            return spec.unknown().map(Ok);
        }
        let negative = number < &0.into();
        let magnitude = |base: u32| number.to_str_radix(base).trim_start_matches('-').to_owned();
        let letter = u32::try_from(number).ok().and_then(char::from_u32);
        spec.int(negative, magnitude, letter).map(Ok)
    });
    let made = match made.map_err(|misfit| raised(&misfit, vm))? {
        Ok(text) => text,
        Err(spec) => {
            let float = try_bigint_to_f64(number, vm)?;
            spec.float(float).map_err(|misfit| raised(&misfit, vm))?
        }
    };
    Ok(vm.ctx.new_str(made).into())
}

fn of_float(value: PyRef<PyFloat>, spec: PyStrRef, vm: &VirtualMachine) -> PyResult {
    if spec.is_empty() {
        return Ok(value.as_object().str(vm)?.into());
    }
    let made = Spec::read(&plain(&spec, vm)?, "float", '>').and_then(|spec| spec.float(value.to_f64()));
    Ok(vm.ctx.new_str(made.map_err(|misfit| raised(&misfit, vm))?).into())
}
