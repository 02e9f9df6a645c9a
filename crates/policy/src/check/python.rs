//! The schema keyword `x-python`: which of Python's types a value must be, beyond what JSON can say.
//!
//! Answers to: `check` and `guard`. Must not: look inside containers; their schemas do.
//! `x-python` is a word, or several with `|` between them.

use jsonschema::{Keyword, ValidationError};
use ringfence_types::{RecordKind, Value};

use super::node::{Values, View};

/// Whether a value is of a type.
type Test = fn(&Value) -> bool;

/// The words, each with the values it stands for.
const WORDS: [(&str, Test); 23] = [
    ("none", |value| matches!(value, Value::None)),
    ("bool", |value| matches!(value, Value::Bool(_))),
    ("int", |value| matches!(value, Value::Int(_) | Value::BigInt(_))),
    ("float", |value| matches!(value, Value::Float(_) | Value::Int(_) | Value::BigInt(_))),
    ("str", |value| matches!(value, Value::Str(_))),
    ("bytes", |value| matches!(value, Value::Bytes(_))),
    ("list", |value| matches!(value, Value::List(_))),
    ("tuple", |value| is_tuple(value)),
    ("dict", |value| is_dict(value)),
    ("set", |value| matches!(value, Value::Set(_))),
    ("frozenset", |value| matches!(value, Value::FrozenSet(_))),
    ("date", |value| matches!(value, Value::Date(_))),
    ("datetime", |value| matches!(value, Value::DateTime(_))),
    ("time", |value| matches!(value, Value::Time(_))),
    ("timedelta", |value| matches!(value, Value::TimeDelta { .. })),
    ("decimal", |value| matches!(value, Value::Decimal(_))),
    ("uuid", |value| matches!(value, Value::Uuid(_))),
    ("path", |value| matches!(value, Value::Path(_))),
    ("record", |value| matches!(value, Value::Record(_))),
    ("dataclass", |value| is_record(value, RecordKind::Dataclass)),
    ("namedtuple", |value| is_record(value, RecordKind::NamedTuple)),
    ("typeddict", |value| is_dict(value)),
    ("any", |_| true),
];

fn is_record(value: &Value, kind: RecordKind) -> bool {
    matches!(value, Value::Record(record) if record.kind == kind)
}
fn is_tuple(value: &Value) -> bool {
    matches!(value, Value::Tuple(_)) || is_record(value, RecordKind::NamedTuple)
}
fn is_dict(value: &Value) -> bool {
    matches!(value, Value::Dict(_)) || is_record(value, RecordKind::TypedDict)
}

/// `x-python` compiled.
pub(crate) struct PythonType {
    words: String,
    tests: Vec<Test>,
}

impl PythonType {
    /// From the keyword's value.
    pub fn compile(value: &serde_json::Value) -> Result<Self, String> {
        let words = value.as_str().ok_or("it takes text, such as `bytes`")?;
        let test = |word: &str| {
            let found = WORDS.iter().find(|(name, _)| *name == word).map(|(_, test)| *test);
            found.ok_or_else(|| {
                let known: Vec<&str> = WORDS.iter().map(|(name, _)| *name).collect();
                let near = crate::shape::suggestion(word, &known);
                format!("`{}` is not one of its words; {near}", crate::denial::shown(word))
            })
        };
        let tests = words.split('|').map(str::trim).map(test).collect::<Result<_, _>>()?;
        Ok(Self { words: words.split('|').map(str::trim).collect::<Vec<_>>().join(" or "), tests })
    }
}

impl<'i> Keyword<'i, Values> for PythonType {
    fn validate(&self, instance: View<'i>) -> Result<(), ValidationError<'i>> {
        if Keyword::is_valid(self, instance) { Ok(()) } else { Err(ValidationError::custom(self.words.clone())) }
    }
    fn is_valid(&self, instance: View<'i>) -> bool {
        match instance {
            View::Value(value) => self.tests.iter().any(|test| test(value)),
            View::Pair(_) => false,
        }
    }
}
