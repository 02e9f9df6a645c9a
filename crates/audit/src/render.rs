//! One line per record, for eyes. Safe by construction: every part goes through [`escape`].

use serde_json::Value as Json;

use crate::record::Record;
use crate::text::escape;

/// Longest text of one value in the view.
const VALUE_MAX: usize = 200;
/// Longest line in the view, before the note of what was cut.
const VIEW_MAX: usize = 2000;

/// One harmless line: number, time, whose, decision, event and detail.
pub fn render(record: &Record) -> String {
    let decision = match record.decision {
        crate::event::Decision::Allowed => "allowed",
        crate::event::Decision::Denied => "DENIED",
        crate::event::Decision::None => "-",
    };
    let id = |id: &Option<String>| escape(id.as_deref().unwrap_or("-"), 64);
    let mut line = format!(
        "{:>6} {} {:<8} {:<7} {}",
        record.seq,
        escape(&record.time, 32),
        id(&record.tenant),
        decision,
        escape(&record.event, 64)
    );
    if let Some(run) = record.run.as_ref().or(record.session.as_ref()) {
        line.push_str(&format!(" [{}]", escape(run, 64)));
    }
    if let Json::Object(detail) = &record.detail {
        for (key, value) in detail.iter().filter(|(_, value)| !value.is_null()) {
            if line.len() > VIEW_MAX {
                line.push_str(" …");
                break;
            }
            line.push_str(&format!(" {}={}", escape(key, 64), shown(value)));
        }
    }
    line
}

/// A value as short text: plain words as they are, anything with a space or quote in it as JSON.
fn shown(value: &Json) -> String {
    match value {
        Json::String(text) if is_word(text) => escape(text, VALUE_MAX),
        // JSON of serde_json escapes quotes and C0; the rest is escaped here. Backslashes that
        // JSON wrote must not be doubled, so unsafe characters are replaced one by one.
        other => cut(&unsafe_replaced(&other.to_string())),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_.:/@+%".contains(c))
}

fn unsafe_replaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if crate::text::is_unsafe(c) {
            out.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => {
            format!("{}…[{} more bytes]", text.get(..end).unwrap_or_default(), text.len() - end)
        }
        None => text.to_owned(),
    }
}
