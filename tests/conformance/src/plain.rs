//! Values as the cases write them: records and tuples as plain data, and as Python's `repr`.
//!
//! Answers to: `oracle`. Must not: make two different values equal beyond that.

use ringfence_types::Value;
use ringfence_types::json::to_json;
use serde_json::{Map, Value as Json};

/// A value as plain JSON; integers over 64 bits and what JSON lacks stay tagged.
pub fn plain(value: &Value) -> Json {
    match value {
        Value::List(items) | Value::Tuple(items) => Json::Array(items.iter().map(plain).collect()),
        Value::Record(record) => {
            Json::Object(record.fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect())
        }
        Value::Dict(pairs) => {
            let pair = |(key, value): &(Value, Value)| match key {
                Value::Str(key) => Some((key.clone(), plain(value))),
                _ => None,
            };
            match pairs.iter().map(pair).collect::<Option<Map<String, Json>>>() {
                Some(map) => Json::Object(map),
                None => to_json(value),
            }
        }
        other => to_json(other),
    }
}

/// Python's `repr` of the values that cases show.
pub fn repr(value: &Value) -> String {
    let all = |items: &[Value]| items.iter().map(repr).collect::<Vec<_>>().join(", ");
    match value {
        Value::None => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Float(number) if number.is_infinite() => if *number > 0.0 { "inf" } else { "-inf" }.to_owned(),
        Value::Float(number) => format!("{number:?}"),
        Value::Int(number) => number.to_string(),
        Value::BigInt(number) => number.to_string(),
        Value::List(items) => format!("[{}]", all(items)),
        Value::Tuple(items) => format!("({})", all(items)),
        other => plain(other).to_string(),
    }
}

/// Whether two JSON values are the same data; `1` and `1.0` are not.
pub fn same(seen: &Json, wanted: &Json) -> bool {
    seen == wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_as_the_cases_write_them() {
        let tuple = Value::Tuple(vec![Value::Int(7), Value::List(Vec::new())]);
        assert_eq!(plain(&tuple), json!([7, []]));
        let tag = Value::Dict(vec![(Value::from("$date"), Value::Int(1))]);
        assert_eq!(plain(&tag), json!({"$date": 1}));
        assert_eq!(repr(&Value::List(vec![Value::Float(f64::NAN), Value::Float(f64::INFINITY)])), "[nan, inf]");
        assert!(!same(&plain(&Value::Bool(true)), &json!(1)));
        assert!(!same(&plain(&Value::Float(1.0)), &json!(1)));
    }
}
