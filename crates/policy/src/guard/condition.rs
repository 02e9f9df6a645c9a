//! One-line CEL conditions over `args`.
//!
//! Answers to: `guard`. Must not: give a yes where evaluation failed or a number has no CEL form.
//! `args` is a map by parameter name; sets and tuples are lists, dates and paths are text.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::objects::Key;
use cel::{Context, Env, Program, Value as Cel};
use ringfence_types::{Value, json};

use crate::denial::{line, shown};

const LONGEST: usize = 1024;
/// What a condition may call. Operators and macros have names of their own.
const FUNCTIONS: [&str; 13] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "int",
    "uint",
    "double",
    "bool",
    "bytes",
    "type",
    "dyn",
];

/// The standard library of CEL, built once.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A compiled condition.
pub(crate) struct Condition {
    text: String,
    program: Program,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Condition {
    /// Compiles the text; `Err` says what is wrong with it.
    pub fn compile(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST || text.contains(['\n', '\r']) {
            return Err(format!("a condition is one line of at most {LONGEST} bytes"));
        }
        let program = STANDARD.compile(text).map_err(|errors| {
            let first = errors.errors.first().map(|error| error.msg.clone()).unwrap_or_default();
            format!("not a CEL condition: {}", line(first.split(" expecting ").next().unwrap_or_default()))
        })?;
        let references = program.references();
        let named = |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic());
        if let Some(unknown) = references.functions().iter().copied().filter(named).find(|f| !FUNCTIONS.contains(f)) {
            let near = crate::shape::suggestion(unknown, &FUNCTIONS);
            return Err(format!("CEL has no function `{}`; {near}", shown(unknown)));
        }
        if !references.has_variable("args") {
            return Err("a condition must look at `args`, as in `args.amount < 100`".to_owned());
        }
        Ok(Self { text: text.to_owned(), program })
    }

    /// The condition as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it holds; `Err` says why that can't be told.
    pub fn holds(&self, arguments: &[(String, Value)]) -> Result<bool, String> {
        let mut args = HashMap::new();
        for (name, value) in arguments {
            let value = to_cel(value).map_err(|what| format!("`args.{}` holds {what}", shown(name)))?;
            args.insert(Key::from(name.clone()), value);
        }
        let mut context = Context::with_env(Arc::clone(&STANDARD));
        context.add_variable_from_value("args", args);
        match self.program.execute(&context) {
            Ok(Cel::Bool(answer)) => Ok(answer),
            Ok(_) => Err("it is neither true nor false".to_owned()),
            Err(error) => Err(shown(&error.to_string())),
        }
    }
}

/// The value as CEL sees it; `Err` names what CEL has no form for.
fn to_cel(value: &Value) -> Result<Cel, &'static str> {
    Ok(match value {
        Value::None => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Int(number) => Cel::Int(*number),
        Value::BigInt(_) => return Err("an integer of more than 64 bits, which a condition cannot compare"),
        // NaN compares false with everything, so that a negated comparison would let it through.
        Value::Float(number) if number.is_nan() => return Err("NaN, which a condition cannot compare"),
        Value::Float(number) => Cel::Float(*number),
        Value::Str(text)
        | Value::Date(text)
        | Value::DateTime(text)
        | Value::Time(text)
        | Value::Decimal(text)
        | Value::Path(text) => Cel::from(text.as_str()),
        Value::Bytes(bytes) => Cel::Bytes(Arc::new(bytes.clone())),
        Value::Uuid(bytes) => Cel::from(json::uuid_text(bytes)),
        Value::TimeDelta { days, seconds, microseconds } => Cel::from(HashMap::from([
            ("days".to_owned(), Cel::Int(*days)),
            ("seconds".to_owned(), Cel::Int(i64::from(*seconds))),
            ("microseconds".to_owned(), Cel::Int(i64::from(*microseconds))),
        ])),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            Cel::List(Arc::new(items.iter().map(to_cel).collect::<Result<_, _>>()?))
        }
        Value::Dict(pairs) => {
            let pair = |(key, value): &(Value, Value)| Ok((to_key(key)?, to_cel(value)?));
            Cel::from(pairs.iter().map(pair).collect::<Result<HashMap<Key, Cel>, &'static str>>()?)
        }
        Value::Record(record) => {
            let field = |(name, value): &(String, Value)| Ok((Key::from(name.clone()), to_cel(value)?));
            Cel::from(record.fields.iter().map(field).collect::<Result<HashMap<Key, Cel>, &'static str>>()?)
        }
    })
}

fn to_key(key: &Value) -> Result<Key, &'static str> {
    match key {
        Value::Str(text) => Ok(Key::from(text.clone())),
        Value::Int(number) => Ok(Key::from(*number)),
        Value::Bool(flag) => Ok(Key::from(*flag)),
        _ => Err("a dict whose keys a condition cannot look up"),
    }
}
