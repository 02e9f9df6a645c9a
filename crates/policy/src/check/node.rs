//! The JSON view of a value, without copying it: what a schema sees.
//!
//! Answers to: `check` and `guard`. Must not: judge a value.
//! Bytes are base64 text; tuples and sets are arrays; dates, decimals, UUIDs and paths are text;
//! records are objects by field; a dict with a key that is no text is an array of pairs.

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object};
use num_traits::ToPrimitive;
use ringfence_types::{Value, json};
use serde_json::{Map, Number, Value as JsonValue};

/// Python values as a representation of JSON.
pub(crate) struct Values;

/// One place in a value.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    /// A value.
    Value(&'a Value),
    /// A key and its value, of a dict that is seen as pairs.
    Pair(&'a (Value, Value)),
}

impl Json for Values {
    type Node<'a> = View<'a>;
    type PreparedKey = String;
    type StringBuffer = Option<Value>;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }
    fn with_string_node<T>(buffer: &mut Option<Value>, string: &str, f: impl FnOnce(View<'_>) -> T) -> T {
        f(View::Value(buffer.insert(Value::Str(string.to_owned()))))
    }
}

/// A number, NaN and the infinities too.
pub(crate) enum NumberView<'a> {
    Int(i64),
    Big(&'a Value),
    Float(f64),
}

impl JsonNumber for NumberView<'_> {
    fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            Self::Big(Value::BigInt(number)) => number.to_u64(),
            Self::Big(_) | Self::Float(_) => None,
        }
    }
    fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Big(_) | Self::Float(_) => None,
        }
    }
    fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => number.to_f64(),
            Self::Big(Value::BigInt(number)) => number.to_f64(),
            Self::Big(_) => None,
            Self::Float(number) => Some(*number),
        }
    }
    fn as_str(&self) -> Cow<'_, str> {
        Cow::Owned(match self {
            Self::Int(number) => number.to_string(),
            Self::Big(Value::BigInt(number)) => number.to_string(),
            Self::Big(_) => String::new(),
            Self::Float(number) => number.to_string(),
        })
    }
    fn to_number(&self) -> Cow<'_, Number> {
        // NaN and the infinities have no JSON number: the largest float stands for them in messages.
        let float = |number: f64| Number::from_f64(number).or_else(|| Number::from_f64(f64::MAX));
        Cow::Owned(match self {
            Self::Int(number) => Number::from(*number),
            Self::Big(_) => self.as_u64().map(Number::from).or_else(|| float(self.as_f64()?)).unwrap_or(0.into()),
            Self::Float(number) => float(*number).unwrap_or(0.into()),
        })
    }
    fn is_integer(&self) -> bool {
        !matches!(self, Self::Float(_))
    }
    fn is_written_as_integer(&self) -> bool {
        self.is_integer()
    }
}

/// A dict with text keys, or a record.
#[derive(Clone, Copy)]
pub(crate) enum Members<'a> {
    Dict(&'a [(Value, Value)]),
    Fields(&'a [(String, Value)]),
}

impl<'a> Members<'a> {
    fn at(self, index: usize) -> Option<(&'a str, &'a Value)> {
        match self {
            Self::Dict(pairs) => match pairs.get(index)? {
                (Value::Str(key), value) => Some((key, value)),
                _ => None,
            },
            Self::Fields(fields) => fields.get(index).map(|(key, value)| (key.as_str(), value)),
        }
    }
    fn iter(self) -> MembersIter<'a> {
        MembersIter { members: self, next: 0 }
    }
}

pub(crate) struct MembersIter<'a> {
    members: Members<'a>,
    next: usize,
}
impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, View<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.members.at(self.next)?;
        self.next += 1;
        Some((key, View::Value(value)))
    }
}

impl<'a> Object<'a, Values> for Members<'a> {
    type Node = View<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;
    fn len(&self) -> usize {
        match self {
            Self::Dict(pairs) => pairs.len(),
            Self::Fields(fields) => fields.len(),
        }
    }
    fn get(&self, key: &String) -> Option<View<'a>> {
        self.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
    fn members(&self) -> MembersIter<'a> {
        self.iter()
    }
}

/// The items of a list, tuple or set, the pairs of a dict, or one pair.
#[derive(Clone, Copy)]
pub(crate) enum Items<'a> {
    Values(&'a [Value]),
    Pairs(&'a [(Value, Value)]),
    Pair(&'a (Value, Value)),
}

pub(crate) struct ItemsIter<'a> {
    items: Items<'a>,
    next: usize,
}
impl<'a> Iterator for ItemsIter<'a> {
    type Item = View<'a>;
    fn next(&mut self) -> Option<View<'a>> {
        let view = match (self.items, self.next) {
            (Items::Values(values), index) => values.get(index).map(View::Value),
            (Items::Pairs(pairs), index) => pairs.get(index).map(View::Pair),
            (Items::Pair(pair), 0) => Some(View::Value(&pair.0)),
            (Items::Pair(pair), 1) => Some(View::Value(&pair.1)),
            (Items::Pair(_), _) => None,
        };
        self.next += 1;
        view
    }
}
impl<'a> Array<'a, Values> for Items<'a> {
    type Node = View<'a>;
    type ElementsIter = ItemsIter<'a>;
    fn len(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Pairs(pairs) => pairs.len(),
            Self::Pair(_) => 2,
        }
    }
    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter { items: *self, next: 0 }
    }
}

impl<'a> Node<'a, Values> for View<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = NumberView<'a>;

    fn as_object(&self) -> Option<Members<'a>> {
        match self {
            Self::Value(Value::Dict(pairs)) if has_text_keys(pairs) => Some(Members::Dict(pairs)),
            Self::Value(Value::Record(record)) => Some(Members::Fields(&record.fields)),
            _ => None,
        }
    }
    fn as_array(&self) -> Option<Items<'a>> {
        match self {
            Self::Value(Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items)) => {
                Some(Items::Values(items))
            }
            Self::Value(Value::Dict(pairs)) if !has_text_keys(pairs) => Some(Items::Pairs(pairs)),
            Self::Pair(pair) => Some(Items::Pair(pair)),
            Self::Value(_) => None,
        }
    }
    fn as_string(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Value(value) => text_of(value),
            Self::Pair(_) => None,
        }
    }
    fn as_number(&self) -> Option<NumberView<'a>> {
        match self {
            Self::Value(Value::Int(number)) => Some(NumberView::Int(*number)),
            Self::Value(value @ Value::BigInt(_)) => Some(NumberView::Big(value)),
            Self::Value(Value::Float(number)) => Some(NumberView::Float(*number)),
            _ => None,
        }
    }
    fn as_boolean(&self) -> Option<bool> {
        match self {
            Self::Value(Value::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }
    fn is_null(&self) -> bool {
        matches!(self, Self::Value(Value::None))
    }
    fn json_type(&self) -> JsonType {
        let Self::Value(value) = self else { return JsonType::Array };
        match value {
            Value::None => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Int(_) | Value::BigInt(_) | Value::Float(_) => JsonType::Number,
            Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::FrozenSet(_) => JsonType::Array,
            Value::Dict(pairs) if !has_text_keys(pairs) => JsonType::Array,
            Value::Dict(_) | Value::Record(_) => JsonType::Object,
            Value::Str(_)
            | Value::Bytes(_)
            | Value::Date(_)
            | Value::DateTime(_)
            | Value::Time(_)
            | Value::TimeDelta { .. }
            | Value::Decimal(_)
            | Value::Uuid(_)
            | Value::Path(_) => JsonType::String,
        }
    }
    fn to_value(&self) -> Cow<'a, JsonValue> {
        Cow::Owned(to_json(*self))
    }
    fn identity(&self) -> Option<NodeIdentity> {
        Some(match self {
            Self::Value(value) => NodeIdentity::new(std::ptr::from_ref::<Value>(value) as usize),
            Self::Pair(pair) => NodeIdentity::tagged(std::ptr::from_ref::<(Value, Value)>(pair) as usize, 1),
        })
    }
}

fn has_text_keys(pairs: &[(Value, Value)]) -> bool {
    pairs.iter().all(|(key, _)| matches!(key, Value::Str(_)))
}

fn text_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Str(text)
        | Value::Date(text)
        | Value::DateTime(text)
        | Value::Time(text)
        | Value::Decimal(text)
        | Value::Path(text) => Some(Cow::Borrowed(text)),
        Value::Bytes(bytes) => Some(Cow::Owned(base64(bytes))),
        Value::Uuid(bytes) => Some(Cow::Owned(json::uuid_text(bytes))),
        Value::TimeDelta { days, seconds, microseconds } => {
            Some(Cow::Owned(format!("{days} days {seconds}.{microseconds:06} seconds")))
        }
        _ => None,
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn to_json(view: View<'_>) -> JsonValue {
    if let Some(text) = view.as_string() {
        return JsonValue::String(text.into_owned());
    }
    if let Some(items) = view.as_array() {
        return JsonValue::Array(items.elements().map(to_json).collect());
    }
    if let Some(members) = view.as_object() {
        let members = members.iter().map(|(key, value)| (key.to_owned(), to_json(value)));
        return JsonValue::Object(members.collect::<Map<_, _>>());
    }
    match (view.as_number(), view.as_boolean()) {
        (Some(number), _) => JsonValue::Number(number.to_number().into_owned()),
        (None, Some(flag)) => JsonValue::Bool(flag),
        (None, None) => JsonValue::Null,
    }
}
