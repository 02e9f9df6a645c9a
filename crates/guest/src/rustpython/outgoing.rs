//! From an object of the interpreter to a plain [`Value`], under a budget that is counted while walking.
//!
//! Answers to: host calls and the last expression's value. Must not: call a method that the program wrote on a
//! builtin's subclass; it reads the data that lies below.

use ringfence_types::{Record, RecordKind, Value, ValueBudget, ValueError};
use rustpython_vm::builtins::{
    PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyStr, PyTuple,
};
use rustpython_vm::{AsObject, Py, PyObjectRef, VirtualMachine};

use super::helpers::helpers;

/// Walks objects; one walker has one budget.
pub struct Walker<'vm> {
    vm: &'vm VirtualMachine,
    budget: ValueBudget,
    nodes: usize,
    bytes: usize,
    /// The containers that are being walked, by identity.
    open: Vec<usize>,
    path: String,
}

type Walked = Result<Value, ValueError>;

impl<'vm> Walker<'vm> {
    /// A walker with the default budget.
    pub fn new(vm: &'vm VirtualMachine) -> Self {
        let budget = ValueBudget::DEFAULT;
        Self { vm, budget, nodes: 0, bytes: 0, open: Vec::new(), path: String::new() }
    }

    /// The plain form of `object`, which errors call `path`.
    pub fn value_at(&mut self, path: &str, object: &PyObjectRef) -> Walked {
        path.clone_into(&mut self.path);
        self.walk(object)
    }

    fn walk(&mut self, object: &PyObjectRef) -> Walked {
        self.nodes += 1;
        if self.nodes > self.budget.nodes {
            return Err(self.too_large("values", self.budget.nodes));
        }
        // A value counts as a level of its own, as it does for whoever reads the frame.
        if self.open.len() >= self.budget.depth {
            return Err(self.too_large("levels", self.budget.depth));
        }
        self.weigh(8)?;
        let types = self.vm.ctx.types.int_type;
        if self.vm.is_none(object) {
            return Ok(Value::None);
        }
        if object.class().is(self.vm.ctx.types.bool_type) {
            return Ok(Value::Bool(object.is(&self.vm.ctx.true_value)));
        }
        if object.class().fast_issubclass(types)
            && let Some(int) = object.downcast_ref::<PyInt>()
        {
            self.weigh(usize::try_from(int.as_bigint().bits() / 8).unwrap_or(usize::MAX))?;
            return Ok(Value::int(int.as_bigint().clone()));
        }
        if let Some(float) = object.downcast_ref::<PyFloat>() {
            return Ok(Value::Float(float.to_f64()));
        }
        if let Some(text) = object.downcast_ref::<PyStr>() {
            return self.text(text).map(Value::Str);
        }
        if let Some(bytes) = object.downcast_ref::<PyBytes>() {
            self.weigh(bytes.as_bytes().len())?;
            return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
        }
        if let Some(bytes) = object.downcast_ref::<PyByteArray>() {
            self.weigh(bytes.borrow_buf().len())?;
            return Ok(Value::Bytes(bytes.borrow_buf().to_vec()));
        }
        self.container(object)
    }

    fn container(&mut self, object: &PyObjectRef) -> Walked {
        let identity = object.get_id();
        if self.open.contains(&identity) {
            return Err(ValueError::Cycle { path: self.path.clone() });
        }
        self.open.push(identity);
        let walked = self.inside(object);
        self.open.pop();
        walked
    }

    fn inside(&mut self, object: &PyObjectRef) -> Walked {
        if let Some(list) = object.downcast_ref::<PyList>() {
            self.room(list.borrow_vec().len())?;
            let items = list.borrow_vec().to_vec();
            return self.items(&items).map(Value::List);
        }
        if let Some(tuple) = object.downcast_ref::<PyTuple>() {
            let named = !object.class().is(self.vm.ctx.types.tuple_type);
            if named && let Some(walked) = self.described(object) {
                return walked;
            }
            self.room(tuple.len())?;
            return self.items(tuple.as_slice()).map(Value::Tuple);
        }
        if let Some(dict) = object.downcast_ref::<PyDict>() {
            return self.dict(dict);
        }
        if let Some(set) = object.downcast_ref::<PySet>() {
            return self.items(&set.elements()).map(Value::Set);
        }
        if let Some(set) = object.downcast_ref::<PyFrozenSet>() {
            return self.items(&set.elements()).map(Value::FrozenSet);
        }
        self.described(object).unwrap_or_else(|| Err(self.not_plain(object)))
    }

    fn items(&mut self, items: &[PyObjectRef]) -> Result<Vec<Value>, ValueError> {
        self.room(items.len())?;
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            values.push(self.step(format_args!("[{index}]"), |walker| walker.walk(item))?);
        }
        Ok(values)
    }

    fn dict(&mut self, dict: &Py<PyDict>) -> Walked {
        self.room(dict.__len__().saturating_mul(2))?;
        let mut pairs = Vec::with_capacity(dict.__len__());
        for (index, (key, value)) in dict.items_vec().into_iter().enumerate() {
            let name = key.downcast_ref::<PyStr>().and_then(|key| key.to_str()).filter(|key| is_name(key));
            let step = name.map_or_else(|| format!("[{index}]"), |name| format!(".{name}"));
            let pair = self.step(format_args!("{step}"), |walker| Ok((walker.walk(&key)?, walker.walk(&value)?)))?;
            pairs.push(pair);
        }
        Ok(Value::Dict(pairs))
    }

    /// Objects of the standard library and records, described by `session.py`.
    fn described(&mut self, object: &PyObjectRef) -> Option<Walked> {
        let described = helpers()?.plain.call((object.clone(),), self.vm).ok()?;
        let described = described.downcast_ref::<PyTuple>()?.as_slice();
        let kind = described.first()?.downcast_ref::<PyStr>()?.to_str()?;
        let data = described.get(1)?;
        match kind {
            "dataclass" | "namedtuple" => {
                let kind = if kind == "dataclass" { RecordKind::Dataclass } else { RecordKind::NamedTuple };
                Some(self.record(kind, data, described.get(2)?))
            }
            "uuid" => {
                <[u8; 16]>::try_from(data.downcast_ref::<PyBytes>()?.as_bytes()).ok().map(|id| Ok(Value::Uuid(id)))
            }
            "timedelta" => {
                let parts = data.downcast_ref::<PyTuple>()?.as_slice();
                let part = |index: usize| parts.get(index)?.clone().try_into_value::<i64>(self.vm).ok();
                Some(Ok(Value::TimeDelta {
                    days: part(0)?,
                    seconds: u32::try_from(part(1)?).ok()?,
                    microseconds: u32::try_from(part(2)?).ok()?,
                }))
            }
            _ => {
                let text = match self.text(data.downcast_ref::<PyStr>()?) {
                    Ok(text) => text,
                    Err(error) => return Some(Err(error)),
                };
                Some(Ok(match kind {
                    "date" => Value::Date(text),
                    "datetime" => Value::DateTime(text),
                    "time" => Value::Time(text),
                    "decimal" => Value::Decimal(text),
                    "path" => Value::Path(text),
                    _ => return None,
                }))
            }
        }
    }

    fn record(&mut self, kind: RecordKind, name: &PyObjectRef, rows: &PyObjectRef) -> Walked {
        let name = self.field(name)?;
        let rows: Vec<PyObjectRef> =
            rows.downcast_ref::<PyList>().map(|rows| rows.borrow_vec().to_vec()).unwrap_or_default();
        let mut fields = Vec::with_capacity(rows.len());
        for row in &rows {
            if let Some([field, value]) = row.downcast_ref::<PyTuple>().map(|row| row.as_slice()) {
                let field = self.field(field)?;
                let walked = self.step(format_args!(".{field}"), |walker| walker.walk(value))?;
                fields.push((field.clone(), walked));
            }
        }
        Ok(Value::Record(Box::new(Record { kind, name, fields })))
    }

    fn field(&mut self, object: &PyObjectRef) -> Result<String, ValueError> {
        match object.downcast_ref::<PyStr>() {
            Some(text) => self.text(text),
            None => Err(self.not_plain(object)),
        }
    }

    fn text(&mut self, text: &Py<PyStr>) -> Result<String, ValueError> {
        self.weigh(text.byte_len())?;
        match text.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(ValueError::Surrogate { path: self.path.clone() }),
        }
    }

    fn step<T>(
        &mut self,
        step: std::fmt::Arguments<'_>,
        walk: impl FnOnce(&mut Self) -> Result<T, ValueError>,
    ) -> Result<T, ValueError> {
        let length = self.path.len();
        // The path is only ever shown; beyond this length it says no more.
        if length < 200 {
            use std::fmt::Write;
            let _ = write!(self.path, "{step}");
        }
        let walked = walk(self);
        self.path.truncate(length);
        walked
    }

    fn weigh(&mut self, bytes: usize) -> Result<(), ValueError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.budget.bytes { Err(self.too_large("bytes", self.budget.bytes)) } else { Ok(()) }
    }

    /// Refuses a container before it is copied.
    fn room(&self, count: usize) -> Result<(), ValueError> {
        if self.nodes.saturating_add(count) > self.budget.nodes {
            return Err(self.too_large("values", self.budget.nodes));
        }
        Ok(())
    }

    fn too_large(&self, what: &'static str, allowed: usize) -> ValueError {
        ValueError::TooLarge { path: self.path.clone(), what, allowed }
    }

    fn not_plain(&self, object: &PyObjectRef) -> ValueError {
        let type_name = object.class().name().chars().take(120).collect();
        ValueError::NotPlainData { path: self.path.clone(), type_name }
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= 64 && text.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}
