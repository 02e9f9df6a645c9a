//! The keywords that a guard may use, and what a guard says without writing it.
//!
//! Answers to: `guard`. Must not: evaluate anything.
//! INVARIANT: a bound implies its type. `maximum = 50` refuses the text `"1000"`, which JSON Schema would let through.

use serde_json::{Map, Value as Json, json};

use crate::denial::shown;
use crate::shape::suggestion;

const NUMBER: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const TEXT: [&str; 8] = ["minLength", "maxLength", "pattern", "format", "domains", "under", "hosts", "schemes"];
const LIST: [&str; 8] =
    ["items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"];
const OBJECT: [&str; 7] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
];
const OTHER: [&str; 15] = [
    "type",
    "enum",
    "const",
    "in",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$defs",
    "x-python",
    "description",
];
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];
const FORMATS: [&str; 10] = ["email", "path", "uri", "date", "date-time", "time", "uuid", "ipv4", "ipv6", "hostname"];
/// Values of text that are text in Python too: bytes are not.
const PYTHON_TEXT: &str = "str|path|date|datetime|time|timedelta|decimal|uuid";

/// The guard as a plain schema with every type it implies; or every fault of it.
pub(crate) fn close(guard: &Json) -> Result<Json, Vec<String>> {
    let mut faults = Vec::new();
    let closed = schema(guard, true, &mut faults);
    if faults.is_empty() { Ok(closed) } else { Err(faults) }
}

fn schema(guard: &Json, imply: bool, faults: &mut Vec<String>) -> Json {
    let Json::Object(guard) = guard else {
        if !guard.is_boolean() {
            faults.push("a guard is a table of keywords, such as `{ maximum = 50 }`".to_owned());
        }
        return guard.clone();
    };
    unknown(guard, faults);
    let mut out = Map::new();
    for (key, value) in guard {
        let value = match key.as_str() {
            "items" | "contains" | "additionalProperties" | "propertyNames" | "then" | "else" => {
                schema(value, imply, faults)
            }
            "not" | "if" => schema(value, false, faults),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => each_item(value, imply, faults),
            "properties" | "patternProperties" | "$defs" => each_member(value, imply, faults),
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    if let Some(list) = out.remove("in") {
        if !list.is_array() {
            faults.push("`in` takes a list, such as `in = [\"a\", \"b\"]`".to_owned());
        }
        out.insert("enum".to_owned(), list);
    }
    types(&out, faults);
    if imply {
        imply_type(&mut out);
    }
    format(&mut out, faults);
    Json::Object(out)
}

fn each_item(value: &Json, imply: bool, faults: &mut Vec<String>) -> Json {
    match value {
        Json::Array(items) => Json::Array(items.iter().map(|item| schema(item, imply, faults)).collect()),
        other => other.clone(),
    }
}

fn each_member(value: &Json, imply: bool, faults: &mut Vec<String>) -> Json {
    match value {
        Json::Object(members) => {
            let members = members.iter().map(|(name, member)| (name.clone(), schema(member, imply, faults)));
            Json::Object(members.collect())
        }
        other => other.clone(),
    }
}

fn unknown(guard: &Map<String, Json>, faults: &mut Vec<String>) {
    let known: Vec<&str> = [&NUMBER[..], &TEXT, &LIST, &OBJECT, &OTHER].concat();
    for key in guard.keys().filter(|key| !known.contains(&key.as_str())) {
        faults.push(format!("unknown keyword `{}` in a guard; {}", shown(key), suggestion(key, &known)));
    }
}

fn types(guard: &Map<String, Json>, faults: &mut Vec<String>) {
    let written = match guard.get("type") {
        Some(Json::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
        None => return,
    };
    for name in written.iter().filter(|name| !name.as_str().is_some_and(|name| TYPES.contains(&name))) {
        let given = name.as_str().unwrap_or_default();
        faults.push(format!("`type` cannot be `{}`; {}", shown(given), suggestion(given, &TYPES)));
    }
}

/// Adds the type that the keywords speak of, where none is written.
fn imply_type(out: &mut Map<String, Json>) {
    let has = |words: &[&str]| words.iter().any(|word| out.contains_key(*word));
    if !out.contains_key("type") {
        let groups = [("number", &NUMBER[..]), ("string", &TEXT[..]), ("array", &LIST[..]), ("object", &OBJECT[..])];
        let types: Vec<&str> = groups.into_iter().filter(|(_, words)| has(words)).map(|(name, _)| name).collect();
        if !types.is_empty() {
            out.insert("type".to_owned(), json!(types));
        }
    }
    let only_text = out.get("type").is_some_and(|kind| *kind == json!("string") || *kind == json!(["string"]));
    if only_text && !out.contains_key("x-python") {
        out.insert("x-python".to_owned(), json!(PYTHON_TEXT));
    }
}

/// `format` with its companions becomes one keyword of our own for the three formats that have any.
fn format(out: &mut Map<String, Json>, faults: &mut Vec<String>) {
    let name = out.get("format").map(|name| name.as_str().unwrap_or_default().to_owned());
    let companions = [("domains", "email"), ("under", "path"), ("hosts", "uri"), ("schemes", "uri")];
    let mut options = Map::new();
    for (companion, of) in companions {
        let Some(value) = out.remove(companion) else { continue };
        if name.as_deref() != Some(of) {
            faults.push(format!("`{companion}` needs `format = \"{of}\"` beside it"));
        } else if let Err(fault) = super::formats::check_option(companion, &value) {
            faults.push(fault);
        }
        options.insert(companion.to_owned(), value);
    }
    match name.as_deref() {
        None => {}
        Some(name @ ("email" | "path" | "uri")) => {
            out.remove("format");
            out.insert(format!("x-{name}"), Json::Object(options));
        }
        Some(name) if FORMATS.contains(&name) => {}
        Some(name) => {
            faults.push(format!("unknown format `{}`; {}", shown(name), suggestion(name, &FORMATS)));
        }
    }
}
