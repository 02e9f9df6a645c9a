//! Values in and out of monty, by way of its boundary type `MontyObject`.
//!
//! Answers to: the engine, for inputs, arguments, answers and results. Must not: turn anything into its repr, or
//! build more than [`ValueBudget`] allows. What monty has no type for is [`Lacking`], never something similar.

use monty_types::{MontyClassInstance, MontyObject, MontyType};
use ringfence_types::{Record, RecordKind, Value, ValueBudget, ValueError};

use super::dates;

/// A type that monty doesn't have, as a user would say it: `Decimal values`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lacking(pub &'static str);

/// The value of a monty object, or why it can't cross. `root` names it in errors.
pub(super) fn to_value(object: &MontyObject, root: &str) -> Result<Value, ValueError> {
    let mut walk = Walk { budget: ValueBudget::DEFAULT, nodes: 0, bytes: 0, steps: vec![Step::Name(root)] };
    walk.value(object)
}

/// The monty object of a value.
pub(super) fn to_monty(value: &Value) -> Result<MontyObject, Lacking> {
    let all = |values: &[Value]| values.iter().map(to_monty).collect::<Result<Vec<_>, _>>();
    Ok(match value {
        Value::None => MontyObject::None,
        Value::Bool(flag) => MontyObject::Bool(*flag),
        Value::Int(number) => MontyObject::Int(*number),
        Value::BigInt(number) => MontyObject::BigInt(number.clone()),
        Value::Float(number) => MontyObject::Float(*number),
        Value::Str(text) => MontyObject::String(text.clone()),
        Value::Bytes(bytes) => MontyObject::Bytes(bytes.clone()),
        Value::List(values) => MontyObject::List(all(values)?),
        Value::Tuple(values) => MontyObject::Tuple(all(values)?),
        Value::Set(values) => MontyObject::Set(all(values)?),
        Value::FrozenSet(values) => MontyObject::FrozenSet(all(values)?),
        Value::Dict(pairs) => pairs_to_monty(pairs.iter().map(|(key, value)| (to_monty(key), value)))?,
        Value::Date(text) => dates::date(text).ok_or(Lacking("dates of this form"))?,
        Value::DateTime(text) => dates::date_time(text).ok_or(Lacking("datetimes of this form"))?,
        Value::Time(text) => dates::time(text).ok_or(Lacking("times of this form"))?,
        Value::TimeDelta { days, seconds, microseconds } => {
            dates::time_delta(*days, *seconds, *microseconds).ok_or(Lacking("timedeltas of this size"))?
        }
        Value::Path(path) => MontyObject::Path(path.clone()),
        Value::Decimal(_) => return Err(Lacking("Decimal values")),
        Value::Uuid(_) => return Err(Lacking("UUID values")),
        Value::Record(record) => record_to_monty(record)?,
    })
}

fn pairs_to_monty<'a>(
    pairs: impl Iterator<Item = (Result<MontyObject, Lacking>, &'a Value)>,
) -> Result<MontyObject, Lacking> {
    let pairs: Result<Vec<_>, Lacking> = pairs.map(|(key, value)| Ok((key?, to_monty(value)?))).collect();
    Ok(MontyObject::dict(pairs?))
}

/// A `TypedDict` is a dict at run time. Instances of host classes have no methods and no equality in monty, so
/// dataclasses from the host are refused.
fn record_to_monty(record: &Record) -> Result<MontyObject, Lacking> {
    let fields = record.fields.iter();
    match record.kind {
        RecordKind::TypedDict => {
            pairs_to_monty(fields.map(|(name, value)| (Ok(MontyObject::String(name.clone())), value)))
        }
        RecordKind::NamedTuple => Ok(MontyObject::NamedTuple {
            type_name: record.name.clone(),
            field_names: fields.clone().map(|(name, _)| name.clone()).collect(),
            values: fields.map(|(_, value)| to_monty(value)).collect::<Result<_, _>>()?,
        }),
        RecordKind::Dataclass => Err(Lacking("dataclass values from the host")),
    }
}

/// One step of the path to a value.
enum Step<'a> {
    Name(&'a str),
    Index(usize),
    Key(&'a MontyObject),
}

struct Walk<'a> {
    budget: ValueBudget,
    nodes: usize,
    bytes: usize,
    steps: Vec<Step<'a>>,
}

impl<'a> Walk<'a> {
    fn value(&mut self, object: &'a MontyObject) -> Result<Value, ValueError> {
        self.charge(object)?;
        Ok(match object {
            MontyObject::None => Value::None,
            MontyObject::Bool(flag) => Value::Bool(*flag),
            MontyObject::Int(number) => Value::Int(*number),
            MontyObject::BigInt(number) => Value::int(number.clone()),
            MontyObject::Float(number) => Value::Float(*number),
            MontyObject::String(text) => Value::Str(text.clone()),
            MontyObject::Bytes(bytes) => Value::Bytes(bytes.clone()),
            MontyObject::List(items) => Value::List(self.items(items)?),
            MontyObject::Tuple(items) => Value::Tuple(self.items(items)?),
            MontyObject::Set(items) => Value::Set(self.items(items)?),
            MontyObject::FrozenSet(items) => Value::FrozenSet(self.items(items)?),
            MontyObject::Dict(pairs) => Value::Dict(self.pairs(pairs.into_iter().map(|(key, value)| (key, value)))?),
            MontyObject::NamedTuple { type_name, field_names, values } => {
                let fields = field_names.iter().cloned().zip(self.items(values)?).collect();
                record(RecordKind::NamedTuple, type_name, fields)
            }
            MontyObject::ClassInstance(instance) if instance.class_type.is_dataclass => self.dataclass(instance)?,
            MontyObject::Date(date) => Value::Date(dates::date_text(date)),
            MontyObject::DateTime(moment) => Value::DateTime(dates::date_time_text(moment)),
            MontyObject::Time(time) => Value::Time(dates::time_text(time)),
            MontyObject::TimeDelta(delta) => Value::TimeDelta {
                days: i64::from(delta.days),
                seconds: u32::try_from(delta.seconds).unwrap_or(0),
                microseconds: u32::try_from(delta.microseconds).unwrap_or(0),
            },
            MontyObject::Path(path) => Value::Path(path.clone()),
            MontyObject::Cycle(..) => return Err(ValueError::Cycle { path: self.path() }),
            MontyObject::Repr(text) if text == "<deeply nested>" => return Err(self.too_large("levels")),
            other => return Err(ValueError::NotPlainData { path: self.path(), type_name: type_name(other) }),
        })
    }

    fn items(&mut self, items: &'a [MontyObject]) -> Result<Vec<Value>, ValueError> {
        // The budget bounds what is reserved here: each item is charged before it is built.
        let mut values = Vec::with_capacity(items.len().min(self.budget.nodes));
        for (index, item) in items.iter().enumerate() {
            values.push(self.under(Step::Index(index), item)?);
        }
        Ok(values)
    }

    fn pairs(
        &mut self,
        pairs: impl Iterator<Item = (&'a MontyObject, &'a MontyObject)>,
    ) -> Result<Vec<(Value, Value)>, ValueError> {
        pairs.map(|(key, value)| Ok((self.under(Step::Key(key), key)?, self.under(Step::Key(key), value)?))).collect()
    }

    fn dataclass(&mut self, instance: &'a MontyClassInstance) -> Result<Value, ValueError> {
        let pairs = self.pairs((&instance.attrs).into_iter().map(|(key, value)| (key, value)))?;
        let fields = pairs.into_iter().filter_map(|(name, value)| match name {
            Value::Str(name) => Some((name, value)),
            _ => None,
        });
        Ok(record(RecordKind::Dataclass, &instance.class_type.name, fields.collect()))
    }

    fn under(&mut self, step: Step<'a>, object: &'a MontyObject) -> Result<Value, ValueError> {
        self.steps.push(step);
        let value = self.value(object)?;
        self.steps.pop();
        Ok(value)
    }

    fn charge(&mut self, object: &MontyObject) -> Result<(), ValueError> {
        self.nodes += 1;
        self.bytes = self.bytes.saturating_add(weight(object));
        if self.steps.len() > self.budget.depth {
            Err(self.too_large("levels"))
        } else if self.nodes > self.budget.nodes {
            Err(self.too_large("values"))
        } else if self.bytes > self.budget.bytes {
            Err(self.too_large("bytes"))
        } else {
            Ok(())
        }
    }

    fn too_large(&self, what: &'static str) -> ValueError {
        let allowed = match what {
            "levels" => self.budget.depth,
            "values" => self.budget.nodes,
            _ => self.budget.bytes,
        };
        ValueError::TooLarge { path: self.path(), what, allowed }
    }

    fn path(&self) -> String {
        self.steps.iter().fold(String::new(), |path, step| match step {
            Step::Name(name) => path + name,
            Step::Index(index) => format!("{path}[{index}]"),
            Step::Key(MontyObject::String(name)) if is_identifier(name) => format!("{path}.{name}"),
            Step::Key(MontyObject::String(name)) => format!("{path}[{:?}]", name.chars().take(40).collect::<String>()),
            Step::Key(MontyObject::Int(number)) => format!("{path}[{number}]"),
            Step::Key(other) => format!("{path}[{}]", type_name(other)),
        })
    }
}

fn record(kind: RecordKind, name: &str, fields: Vec<(String, Value)>) -> Value {
    let name = name.rsplit('.').next().unwrap_or(name).to_owned();
    Value::Record(Box::new(Record { kind, name, fields }))
}

/// Bytes of an object by itself, in any sensible encoding.
fn weight(object: &MontyObject) -> usize {
    1 + match object {
        MontyObject::String(text) | MontyObject::Path(text) => text.len(),
        MontyObject::Bytes(bytes) => bytes.len(),
        MontyObject::BigInt(number) => usize::try_from(number.bits() / 8).unwrap_or(usize::MAX),
        MontyObject::Int(_) | MontyObject::Float(_) => 8,
        MontyObject::NamedTuple { field_names, .. } => field_names.iter().map(String::len).sum(),
        MontyObject::DateTime(_) | MontyObject::Date(_) | MontyObject::Time(_) | MontyObject::TimeDelta(_) => 32,
        _ => 0,
    }
}

/// The Python type of something that can't cross.
fn type_name(object: &MontyObject) -> String {
    match object {
        MontyObject::Repr(text) => type_name_in_repr(text),
        MontyObject::Exception { exc_type, .. } => exc_type.to_string(),
        MontyObject::Type(MontyType::Instance(_)) => "type".to_owned(),
        other => other.type_name().to_owned(),
    }
}

/// The type in `<map object at …>`, `range(0, 3)` or `<function f at …>`.
fn type_name_in_repr(text: &str) -> String {
    let inside = text.trim_start_matches('<');
    let name = match inside.split_once(" object") {
        Some((name, _)) if text.starts_with('<') => name,
        _ => inside.split([' ', '(', '>']).next().unwrap_or_default(),
    };
    let name = name.rsplit('.').next().unwrap_or_default();
    if is_identifier(name) { name.to_owned() } else { "object".to_owned() }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}
