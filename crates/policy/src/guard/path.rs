//! Paths in arguments: one spelling only, normalised before they are compared.
//!
//! Answers to: `formats` and `guard`. Must not: touch a file. Symbolic links are the host function's to mind.

use ringfence_types::{GuestPath, Value};
use serde_json::Value as Json;
use unicode_normalization::UnicodeNormalization;

/// Characters that look like `/`, `\`, `.` or nothing and that compatibility forms leave alone.
const LOOK_ALIKES: &str = "\u{2044}\u{2215}\u{2216}\u{29f8}\u{29f9}\u{29f5}\u{2571}\u{2572}\u{27cb}\u{27cd}\u{0338}\u{0337}\u{a4f8}\u{0701}\u{0702}\u{0660}\u{06f0}\u{00b7}\u{2022}\u{2027}\u{30fb}";

/// The path against `/workspace`, without `.` and `..`; `Err` where its spelling is not plain.
pub(crate) fn normal(text: &str) -> Result<String, ()> {
    let odd = text.starts_with('~')
        || (text.len() > 1 && text.ends_with('/'))
        || text.contains('\\')
        || has_percent_code(text)
        || text.chars().any(is_odd);
    if odd || text.split('/').any(|part| part.len() > 255) {
        return Err(());
    }
    GuestPath::resolve(text).map(String::from).map_err(|_| ())
}

/// Whether `path` is `folder` or lies under it; both normalised.
pub(crate) fn is_under(path: &str, folder: &str) -> bool {
    GuestPath::resolve(path).is_ok_and(|path| path.is_under(folder))
}

fn has_percent_code(text: &str) -> bool {
    text.as_bytes()
        .windows(2)
        .any(|pair| matches!(pair, [b'%', next] if next.is_ascii_hexdigit() || *next == b'%' || *next == b'u'))
}

/// Controls, characters without width, and whatever could be read as a part of path syntax.
fn is_odd(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
        || LOOK_ALIKES.contains(c)
        || std::iter::once(c).nfkd().any(|part| matches!(part, '.' | '/' | '\\' | '%' | '~' | ':'))
}

/// Puts the normal form of each path that the schema names in place of its spelling.
pub(crate) fn normalise_in(value: &mut Value, schema: &Json) {
    if schema.get("x-path").is_some() {
        match value {
            Value::Str(text) | Value::Path(text) => {
                if let Ok(normal) = normal(text) {
                    *text = normal;
                }
            }
            _ => {}
        }
    }
    if let Some(items) = schema.get("items")
        && let Value::List(values) | Value::Tuple(values) | Value::Set(values) | Value::FrozenSet(values) = value
    {
        values.iter_mut().for_each(|value| normalise_in(value, items));
    }
    let Some(properties) = schema.get("properties") else { return };
    match value {
        Value::Dict(pairs) => {
            for (key, value) in pairs {
                if let Some(schema) = key_text(key).and_then(|key| properties.get(key)) {
                    normalise_in(value, schema);
                }
            }
        }
        Value::Record(record) => {
            for (name, value) in &mut record.fields {
                if let Some(schema) = properties.get(name.as_str()) {
                    normalise_in(value, schema);
                }
            }
        }
        _ => {}
    }
}

fn key_text(key: &Value) -> Option<&str> {
    match key {
        Value::Str(text) => Some(text),
        _ => None,
    }
}
