//! From a plain [`Value`] to an object of the interpreter, and from a [`GuestError`] to an exception.
//!
//! Answers to: host calls and inputs. Must not: fail on a value that the wire let through.

use ringfence_types::{GuestError, Record, RecordKind, Value};
use rustpython_vm::builtins::{PyBaseException, PyBaseExceptionRef, PyFrozenSet, PySet};
use rustpython_vm::{PyObjectRef, PyPayload, PyResult, VirtualMachine};

use super::helpers::{Helpers, helpers};

/// The object for a value.
pub fn object_of(value: Value, vm: &VirtualMachine) -> PyResult {
    let ctx = &vm.ctx;
    Ok(match value {
        Value::None => ctx.none(),
        Value::Bool(flag) => ctx.new_bool(flag).into(),
        Value::Int(number) => ctx.new_int(number).into(),
        Value::BigInt(number) => ctx.new_bigint(&number).into(),
        Value::Float(number) => ctx.new_float(number).into(),
        Value::Str(text) => ctx.new_str(text).into(),
        Value::Bytes(bytes) => ctx.new_bytes(bytes).into(),
        Value::List(items) => ctx.new_list(objects_of(items, vm)?).into(),
        Value::Tuple(items) => ctx.new_tuple(objects_of(items, vm)?).into(),
        Value::Dict(pairs) => {
            let dict = ctx.new_dict();
            for (key, value) in pairs {
                dict.set_item(&*object_of(key, vm)?, object_of(value, vm)?, vm)?;
            }
            dict.into()
        }
        Value::Set(items) => {
            let set = PySet::default().into_ref(ctx);
            for item in items {
                set.add(object_of(item, vm)?, vm)?;
            }
            set.into()
        }
        Value::FrozenSet(items) => PyFrozenSet::from_iter(vm, objects_of(items, vm)?)?.into_ref(ctx).into(),
        Value::Date(text) => standard("date", ctx.new_str(text).into(), vm)?,
        Value::DateTime(text) => standard("datetime", ctx.new_str(text).into(), vm)?,
        Value::Time(text) => standard("time", ctx.new_str(text).into(), vm)?,
        Value::Decimal(text) => standard("decimal", ctx.new_str(text).into(), vm)?,
        Value::Path(text) => standard("path", ctx.new_str(text).into(), vm)?,
        Value::Uuid(id) => standard("uuid", ctx.new_bytes(id.to_vec()).into(), vm)?,
        Value::TimeDelta { days, seconds, microseconds } => {
            standard("timedelta", vm.new_pyobj((days, seconds, microseconds)), vm)?
        }
        Value::Record(record) => record_of(*record, vm)?,
    })
}

fn objects_of(values: Vec<Value>, vm: &VirtualMachine) -> PyResult<Vec<PyObjectRef>> {
    values.into_iter().map(|value| object_of(value, vm)).collect()
}

fn known(vm: &VirtualMachine) -> PyResult<&'static Helpers> {
    helpers().ok_or_else(|| vm.new_runtime_error("the interpreter is not warmed".to_owned()))
}

fn standard(kind: &'static str, data: PyObjectRef, vm: &VirtualMachine) -> PyResult {
    known(vm)?.standard.call((kind, data), vm)
}

fn record_of(record: Record, vm: &VirtualMachine) -> PyResult {
    let fields = vm.ctx.new_dict();
    for (name, value) in record.fields {
        fields.set_item(name.as_str(), object_of(value, vm)?, vm)?;
    }
    let kind = match record.kind {
        RecordKind::TypedDict => return Ok(fields.into()),
        RecordKind::Dataclass => "dataclass",
        RecordKind::NamedTuple => "namedtuple",
    };
    known(vm)?.record.call((kind, record.name, fields), vm)
}

/// The exception of that name where it is a builtin one; else a `RuntimeError` that names it.
pub fn raised(error: &GuestError, vm: &VirtualMachine) -> PyBaseExceptionRef {
    let class = helpers().and_then(|helpers| helpers.exceptions.get(error.exception.as_str()));
    let made = class.and_then(|class| {
        let made = class.call((error.message.clone(),), vm).ok()?;
        made.downcast::<PyBaseException>().ok()
    });
    made.unwrap_or_else(|| match error.exception.as_str() {
        "RuntimeError" | "" => vm.new_runtime_error(error.message.clone()),
        other => vm.new_runtime_error(format!("{other}: {}", error.message)),
    })
}
