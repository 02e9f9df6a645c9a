//! Values as JSON, for every front door: plain where JSON has the type, tagged where it has not.
//!
//! A tagged value is an object with the key `$type`. A dictionary that could be taken for one
//! (a key that starts with `$`, or any key that is not a string) is itself written tagged, so
//! that no guest data can pose as a tag.

use std::cmp::Ordering;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigInt;
use num_traits::{Num, ToPrimitive};
use serde_json::{Map, Value as Json, json};

use crate::value::{Record, RecordKind, Value, ValueBudget};

/// JSON that is not a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{at}` is not a value: {why}")]
pub struct JsonValueError {
    at: String,
    why: String,
}

/// Writes a value as JSON.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Bool(flag) => json!(flag),
        Value::Int(number) => json!(number),
        Value::BigInt(number) if is_long(number) => json!({"$type": "int", "hex": number.to_str_radix(16)}),
        Value::BigInt(number) => json!({"$type": "int", "value": number.to_string()}),
        Value::Float(number) if number.is_finite() => json!(number),
        Value::Float(number) => json!({"$type": "float", "value": float_name(*number)}),
        Value::Str(text) => json!(text),
        Value::Bytes(bytes) => json!({"$type": "bytes", "base64": STANDARD.encode(bytes)}),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Tuple(items) => tagged_items("tuple", items),
        Value::Set(items) => tagged_items("set", items),
        Value::FrozenSet(items) => tagged_items("frozenset", items),
        Value::Dict(pairs) => dict_to_json(pairs),
        Value::Date(text) => json!({"$type": "date", "value": text}),
        Value::DateTime(text) => json!({"$type": "datetime", "value": text}),
        Value::Time(text) => json!({"$type": "time", "value": text}),
        Value::TimeDelta { days, seconds, microseconds } => {
            json!({"$type": "timedelta", "days": days, "seconds": seconds, "microseconds": microseconds})
        }
        Value::Decimal(text) => json!({"$type": "decimal", "value": text}),
        Value::Uuid(bytes) => json!({"$type": "uuid", "value": uuid_text(bytes)}),
        Value::Path(text) => json!({"$type": "path", "value": text}),
        Value::Record(record) => record_to_json(record),
    }
}

/// Writes a value as untagged JSON, for a receiver that knows the types: sequences and sets are arrays, records and
/// dictionaries with text keys are objects, everything that JSON lacks is text, whole numbers over 64 bits too.
pub fn to_plain(value: &Value) -> Json {
    let array = |items: &[Value]| Json::Array(items.iter().map(to_plain).collect());
    match value {
        Value::Bytes(bytes) => json!(STANDARD.encode(bytes)),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => array(items),
        Value::Date(text) | Value::DateTime(text) | Value::Time(text) | Value::Decimal(text) | Value::Path(text) => {
            json!(text)
        }
        Value::Uuid(bytes) => json!(uuid_text(bytes)),
        Value::Record(record) => record.fields.iter().map(|(name, value)| (name.clone(), to_plain(value))).collect(),
        Value::Dict(pairs) => {
            let pair = |(key, value): &(Value, Value)| json!([to_plain(key), to_plain(value)]);
            match text_keys(pairs, |_| true) {
                Some(fields) => Json::Object(fields.map(|(key, value)| (key.to_owned(), to_plain(value))).collect()),
                None => pairs.iter().map(pair).collect(),
            }
        }
        Value::BigInt(number) if is_long(number) => json!(format!("{number:#x}")),
        Value::BigInt(number) => number.to_u64().map_or_else(|| json!(number.to_string()), |small| json!(small)),
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::TimeDelta { .. } => {
            to_json(value)
        }
    }
}

fn float_name(number: f64) -> &'static str {
    if number.is_nan() {
        "nan"
    } else if number > 0.0 {
        "inf"
    } else {
        "-inf"
    }
}

fn tagged_items(tag: &str, items: &[Value]) -> Json {
    json!({"$type": tag, "items": items.iter().map(to_json).collect::<Vec<_>>()})
}

fn dict_to_json(pairs: &[(Value, Value)]) -> Json {
    match text_keys(pairs, |key| !key.starts_with('$')) {
        Some(fields) => Json::Object(fields.map(|(key, value)| (key.to_owned(), to_json(value))).collect()),
        None => {
            let pairs: Vec<Json> = pairs.iter().map(|(key, value)| json!([to_json(key), to_json(value)])).collect();
            json!({"$type": "dict", "items": pairs})
        }
    }
}

/// The pairs by their keys, where each key is a text that `suits`. The keys are looked at before any value is: to write
/// values and then throw them away would double the work at every level.
fn text_keys<'a>(
    pairs: &'a [(Value, Value)],
    suits: impl Fn(&str) -> bool,
) -> Option<impl Iterator<Item = (&'a str, &'a Value)>> {
    let text = |key: &'a Value| match key {
        Value::Str(key) => Some(key.as_str()),
        _ => None,
    };
    let all = pairs.iter().all(|(key, _)| text(key).is_some_and(&suits));
    all.then(|| pairs.iter().filter_map(move |(key, value)| Some((text(key)?, value))))
}

fn record_to_json(record: &Record) -> Json {
    let kind = match record.kind {
        RecordKind::Dataclass => "dataclass",
        RecordKind::NamedTuple => "namedtuple",
        RecordKind::TypedDict => "typeddict",
    };
    let fields: Vec<Json> = record.fields.iter().map(|(name, value)| json!([name, to_json(value)])).collect();
    json!({"$type": kind, "name": record.name, "fields": fields})
}

/// The usual text of a UUID: `8-4-4-4-12` hexadecimal digits.
pub fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*bytes));
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
}

/// Reads a value back. `at` names the place in error messages, such as `args`.
pub fn from_json(json: &Json, at: &str) -> Result<Value, JsonValueError> {
    match json {
        Json::Null => Ok(Value::None),
        Json::Bool(flag) => Ok(Value::Bool(*flag)),
        Json::Number(number) => number_value(number, at),
        Json::String(text) => Ok(Value::Str(text.clone())),
        Json::Array(items) => Ok(Value::List(items_from(items, at)?)),
        Json::Object(map) => match map.get("$type") {
            Some(Json::String(tag)) => tagged(tag, map, at),
            Some(_) => Err(wrong(at, "`$type` is not text")),
            None => {
                let pair = |(key, value): (&String, &Json)| {
                    Ok((Value::Str(key.clone()), from_json(value, &below(at, format_args!(".{key:.PLACE$}")))?))
                };
                Ok(Value::Dict(map.iter().map(pair).collect::<Result<_, _>>()?))
            }
        },
    }
}

fn wrong(at: &str, why: impl Into<String>) -> JsonValueError {
    JsonValueError { at: at.chars().take(PLACE).collect(), why: why.into() }
}

/// The most characters of a place that are told.
const PLACE: usize = 200;

/// A place below another. It grows no further than it is told: keys are the guest's, and may be long and many.
fn below(at: &str, step: std::fmt::Arguments<'_>) -> String {
    if at.len() > PLACE { at.to_owned() } else { format!("{at}{step}") }
}

fn number_value(number: &serde_json::Number, at: &str) -> Result<Value, JsonValueError> {
    if let Some(small) = number.as_i64() {
        Ok(Value::Int(small))
    } else if let Some(large) = number.as_u64() {
        Ok(Value::int(BigInt::from(large)))
    } else {
        number.as_f64().map(Value::Float).ok_or_else(|| wrong(at, "a number that is neither 64-bit nor float"))
    }
}

/// The most digits of a whole number in decimal: the time that takes grows with the square of their number. A longer
/// one is written in hexadecimal, in which it takes as long as copying it.
pub const MAX_DIGITS: usize = 100_000;

/// Whether a whole number has more than [`MAX_DIGITS`] digits.
pub fn is_long(number: &BigInt) -> bool {
    /// The bits of the first number with a digit more.
    const BITS: u64 = 332_193;
    static FIRST: LazyLock<BigInt> = LazyLock::new(|| BigInt::from(10).pow(100_000));
    match number.bits().cmp(&BITS) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => number.magnitude() >= FIRST.magnitude(),
    }
}

/// A number by its hexadecimal digits, which stand for more than [`MAX_DIGITS`] decimal ones.
fn long_number(digits: &str, at: &str) -> Result<Value, JsonValueError> {
    let bounded = digits.len() <= ValueBudget::DEFAULT.bytes * 2;
    let number = if bounded { BigInt::from_str_radix(digits, 16).ok() } else { None };
    number.map(Value::int).ok_or_else(|| wrong(at, "not hexadecimal digits"))
}

fn whole_number(text: &str, at: &str) -> Result<Value, JsonValueError> {
    if text.len() > MAX_DIGITS {
        return Err(wrong(at, format!("a whole number of more than {MAX_DIGITS} digits")));
    }
    text.parse::<BigInt>().map(Value::int).map_err(|_| wrong(at, "not a whole number"))
}

fn items_from(items: &[Json], at: &str) -> Result<Vec<Value>, JsonValueError> {
    items.iter().enumerate().map(|(index, item)| from_json(item, &below(at, format_args!("[{index}]")))).collect()
}

fn tagged(tag: &str, map: &Map<String, Json>, at: &str) -> Result<Value, JsonValueError> {
    let text = |key: &str| match map.get(key) {
        Some(Json::String(text)) => Ok(text.clone()),
        _ => Err(wrong(at, format!("a `{tag}` needs the text `{key}`"))),
    };
    let items = || match map.get("items") {
        Some(Json::Array(items)) => items_from(items, at),
        _ => Err(wrong(at, format!("a `{tag}` needs the list `items`"))),
    };
    match tag {
        "int" if map.contains_key("hex") => long_number(&text("hex")?, at),
        "int" => whole_number(&text("value")?, at),
        "float" => match text("value")?.as_str() {
            "nan" => Ok(Value::Float(f64::NAN)),
            "inf" => Ok(Value::Float(f64::INFINITY)),
            "-inf" => Ok(Value::Float(f64::NEG_INFINITY)),
            _ => Err(wrong(at, "a tagged float is `nan`, `inf` or `-inf`")),
        },
        "bytes" => STANDARD.decode(text("base64")?).map(Value::Bytes).map_err(|_| wrong(at, "not base64")),
        "tuple" => Ok(Value::Tuple(items()?)),
        "set" => Ok(Value::Set(items()?)),
        "frozenset" => Ok(Value::FrozenSet(items()?)),
        "dict" => Ok(Value::Dict(items()?.into_iter().map(|item| pair(item, at)).collect::<Result<_, _>>()?)),
        "date" => text("value").map(Value::Date),
        "datetime" => text("value").map(Value::DateTime),
        "time" => text("value").map(Value::Time),
        "timedelta" => timedelta(map, at),
        "decimal" => text("value").map(Value::Decimal),
        "uuid" => uuid(&text("value")?, at),
        "path" => text("value").map(Value::Path),
        "dataclass" => record(RecordKind::Dataclass, text("name")?, map, at),
        "namedtuple" => record(RecordKind::NamedTuple, text("name")?, map, at),
        "typeddict" => record(RecordKind::TypedDict, text("name")?, map, at),
        other => Err(wrong(at, format!("unknown `$type` `{}`", other.chars().take(40).collect::<String>()))),
    }
}

fn pair(item: Value, at: &str) -> Result<(Value, Value), JsonValueError> {
    match item {
        Value::List(items) => match <[Value; 2]>::try_from(items) {
            Ok([key, value]) => Ok((key, value)),
            Err(_) => Err(wrong(at, "a pair has two items")),
        },
        _ => Err(wrong(at, "a pair is a list of two")),
    }
}

fn timedelta(map: &Map<String, Json>, at: &str) -> Result<Value, JsonValueError> {
    let number = |key: &str| {
        map.get(key).and_then(Json::as_i64).ok_or_else(|| wrong(at, format!("a `timedelta` needs the number `{key}`")))
    };
    let small = |key: &str, below: u32| {
        let number = u32::try_from(number(key)?).ok().filter(|number| *number < below);
        number.ok_or_else(|| wrong(at, format!("`{key}` is out of range")))
    };
    Ok(Value::TimeDelta {
        days: number("days")?,
        seconds: small("seconds", 86_400)?,
        microseconds: small("microseconds", 1_000_000)?,
    })
}

fn uuid(text: &str, at: &str) -> Result<Value, JsonValueError> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    match u128::from_str_radix(&hex, 16) {
        Ok(bits) if hex.len() == 32 => Ok(Value::Uuid(bits.to_be_bytes())),
        _ => Err(wrong(at, "not a UUID")),
    }
}

fn record(kind: RecordKind, name: String, map: &Map<String, Json>, at: &str) -> Result<Value, JsonValueError> {
    let Some(Json::Array(fields)) = map.get("fields") else {
        return Err(wrong(at, "a record needs the list `fields`"));
    };
    let field = |field: &Json| match field.as_array().map(Vec::as_slice) {
        Some([Json::String(name), value]) => {
            Ok((name.clone(), from_json(value, &below(at, format_args!(".{name:.PLACE$}")))?))
        }
        _ => Err(wrong(at, "a field is a name and a value")),
    };
    Ok(Value::Record(Box::new(Record { kind, name, fields: fields.iter().map(field).collect::<Result<_, _>>()? })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: Value) {
        assert_eq!(from_json(&to_json(&value), "value").as_ref(), Ok(&value));
    }

    #[test]
    fn every_value_comes_back_as_it_was() {
        check(Value::None);
        check(Value::int(BigInt::from(1_u8) << 300));
        check(Value::int(BigInt::from(-7) << 33_000_000));
        check(Value::Float(-0.0));
        check(Value::Float(f64::INFINITY));
        check(Value::Tuple(vec![Value::Int(1), Value::Set(vec![Value::from("x")])]));
        check(Value::Dict(vec![(Value::Int(1), Value::None), (Value::Tuple(vec![]), Value::from(true))]));
        check(Value::TimeDelta { days: -1, seconds: 86_399, microseconds: 1 });
        check(Value::Uuid([7; 16]));
        let point = Record {
            kind: RecordKind::Dataclass,
            name: "Point".to_owned(),
            fields: vec![("x".to_owned(), Value::Int(1))],
        };
        check(Value::Record(Box::new(point)));
    }

    #[test]
    fn the_longest_number_in_decimal_has_exactly_so_many_digits() {
        let longest: BigInt = BigInt::from(10).pow(100_000) - 1;
        let check_long = |number: BigInt, key: &str| {
            let written = to_json(&Value::int(number.clone()));
            assert_eq!(
                written.get(key).and_then(Json::as_str).map(str::len),
                Some(if key == "hex" { 83_049 } else { 100_000 })
            );
            check(Value::int(number));
        };
        check_long(longest.clone(), "value");
        check_long(longest + 1, "hex");
    }

    /// Each level has a key that is no text behind one that is: what is written twice at each would never end.
    #[test]
    fn a_deep_dict_is_written_once() {
        let level = |inside: Value| Value::Dict(vec![(Value::from("a"), inside), (Value::Int(1), Value::None)]);
        let deep = (0..60).fold(Value::None, |inside, _| level(inside));
        check(deep.clone());
        assert_eq!(to_plain(&deep).to_string().matches("\"a\"").count(), 60);
    }

    /// A place is told by its beginning: with all of it at each step, this would copy 100 GB.
    #[test]
    fn long_keys_over_many_values_take_no_time() {
        let rows = Value::List(vec![Value::None; 100_000]);
        let wide = Value::Dict(vec![(Value::from("k".repeat(1 << 20).as_str()), rows)]);
        check(wide);
        let json = json!({"k".repeat(300): [{"$type": "odd"}]});
        let why = from_json(&json, "x").map_err(|error| error.to_string().len());
        assert_eq!(why, Err(200 + "`` is not a value: unknown `$type` `odd`".len()));
    }

    #[test]
    fn a_dict_that_poses_as_a_tag_stays_a_dict() {
        let posing = Value::Dict(vec![
            (Value::from("$type"), Value::from("bytes")),
            (Value::from("base64"), Value::from("eA==")),
        ]);
        check(posing);
    }
}
