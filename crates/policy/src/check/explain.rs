//! A schema's complaint in plain words: where, what was expected, what was found.
//!
//! Answers to: `check` and `guard`. Must not: show more than 80 characters of a value.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::{Location, LocationSegment};
use ringfence_types::Value;
use serde_json::Value as Json;

use crate::denial::shown;

/// What was expected, in plain words.
pub(crate) fn expected(error: &ValidationError<'_>) -> String {
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(one) } => type_word(&one.to_string()).to_owned(),
        Kind::Type { kind: TypeKind::Multiple(several) } => {
            let mut words: Vec<String> = several.iter().map(|one| type_word(&one.to_string()).to_owned()).collect();
            words.sort_by_key(|word| word == "None");
            words.join(" or ")
        }
        Kind::Custom { message, .. } => message.clone(),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MinLength { limit } => format!("text of at least {limit} characters"),
        Kind::MaxLength { limit } => format!("text of at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} items"),
        Kind::MaxItems { limit } => format!("at most {limit} items"),
        Kind::MinProperties { limit } => format!("at least {limit} keys"),
        Kind::MaxProperties { limit } => format!("at most {limit} keys"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::Pattern { pattern } => format!("text that matches `{}`", shown(pattern)),
        Kind::Format { format } => format!("text of the format `{}`", shown(format)),
        Kind::Enum { options } => format!("one of {}", shown(&options.to_string())),
        Kind::Constant { expected_value } => shown(&expected_value.to_string()),
        Kind::Required { property } => format!("an object with {}", shown(&property.to_string())),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("an object without `{}`", shown(&unexpected.join("`, `")))
        }
        Kind::UniqueItems => "items that differ".to_owned(),
        Kind::FalseSchema => "left out".to_owned(),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => alternatives(context),
        _ => format!("as its schema's `{}` says", shown(error.kind().keyword())),
    }
}

/// `an integer or null`, from the first complaint of each branch.
fn alternatives(branches: &[Vec<ValidationError<'static>>]) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in branches.iter().filter_map(|branch| branch.first()).map(expected) {
        if !words.contains(&word) && words.len() < 6 {
            words.push(word);
        }
    }
    words.join(" or ")
}

fn type_word(name: &str) -> &str {
    match name {
        "integer" => "an integer",
        "number" => "a number",
        "string" => "text",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a dict",
        "null" => "None",
        other => other,
    }
}

/// `.rows[3]`, and the value that stands there.
pub(crate) fn place<'v>(root: &'v Value, location: &Location) -> (String, Option<&'v Value>) {
    let mut path = String::new();
    let mut value = Some(root);
    for segment in location.iter() {
        match segment {
            LocationSegment::Property(name) => {
                path.push('.');
                path.push_str(&shown(&name));
                value = value.and_then(|value| member(value, &name));
            }
            LocationSegment::Index(index) => {
                path.push_str(&format!("[{index}]"));
                value = value.and_then(|value| item(value, index));
            }
        }
    }
    (path, value)
}

fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Dict(pairs) => {
            pairs.iter().find(|(key, _)| matches!(key, Value::Str(text) if text == name)).map(|(_, value)| value)
        }
        Value::Record(record) => record.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value),
        _ => None,
    }
}

fn item(value: &Value, index: usize) -> Option<&Value> {
    match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => items.get(index),
        _ => None,
    }
}

/// The type, and for plain values at most 80 characters of the value itself.
pub(crate) fn found(value: Option<&Value>, error: &ValidationError<'_>) -> String {
    let Some(value) = value else { return shown(&json_type(error.instance())) };
    let name = shown(value.type_name());
    match value {
        Value::Int(number) => format!("{number} ({name})"),
        Value::Float(number) => format!("{number} ({name})"),
        Value::Bool(flag) => format!("{} ({name})", if *flag { "True" } else { "False" }),
        Value::Str(text) | Value::Path(text) => format!("'{}' ({name})", shown(text)),
        Value::None => "None".to_owned(),
        _ => name,
    }
}

/// The type alone: for results, which may hold what the guest must not read.
pub(crate) fn found_type(value: Option<&Value>, error: &ValidationError<'_>) -> String {
    value.map_or_else(|| json_type(error.instance()), |value| shown(value.type_name()))
}

fn json_type(json: &Json) -> String {
    match json {
        Json::Array(_) => "list",
        Json::Object(_) => "dict",
        Json::String(_) => "str",
        Json::Number(_) => "number",
        Json::Bool(_) => "bool",
        Json::Null => "None",
    }
    .to_owned()
}
