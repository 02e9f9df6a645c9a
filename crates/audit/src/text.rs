//! Text of the guest's, made harmless: on a terminal, and as bytes of the log.
//!
//! Two forms. [`escape`] is for eyes: what could steer a terminal or hide from a reader is
//! written out, reversibly. [`json`] is for files: the same characters become `\uXXXX`, so that a
//! JSON reader gets the original back while no byte of the file is harmful.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value as Json;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use crate::chain::sha256_hex;
use crate::scrub::SecretScrubber;

/// What an entry says instead of an argument that the policy redacts. Not a hash: the hash of a
/// guessable secret gives it away.
pub const REDACTED: &str = "[redacted]";

/// Longest string in a detail, in bytes. What is over it is cut.
pub const STRING_MAX: usize = 16 << 10;
/// Largest detail, in bytes of JSON. What is over it is replaced by its size and hash.
pub const DETAIL_MAX: usize = 256 << 10;
/// Levels of nesting in a detail.
const DEPTH_MAX: usize = 70;

/// Whether a character steers terminals or is invisible: controls, bidirectional and zero-width
/// characters, fillers, variation selectors, tags, and separators that end lines.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// One line of harmless text for a terminal, at most `max` bytes and a note of what was cut.
///
/// Reversible while nothing is cut: a backslash becomes two, and an unsafe character `\n`, `\r`,
/// `\t` or `\u{…}`.
pub fn escape(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max) + 16);
    for (at, c) in text.char_indices() {
        let before = out.len();
        push_escaped(&mut out, c);
        if out.len() > max {
            out.truncate(before);
            out.push_str(&format!("…[{} more bytes]", text.len() - at));
            break;
        }
    }
    out
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_unsafe(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        c => out.push(c),
    }
}

/// JSON on one line, without one unsafe character.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(512);
    write_json(&mut out, value)?;
    Ok(out)
}

pub(crate) fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Harmless))
}

/// Writes unsafe characters as `\uXXXX`, above U+FFFF as two.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_unsafe(*c)) {
            let (safe, tail) = rest.split_at(at);
            writer.write_all(safe.as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = tail.strip_prefix(c).unwrap_or_default();
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

/// Makes a detail fit to be written: secrets out, long strings cut, the whole bounded.
pub(crate) fn tidy(detail: Json, scrubber: &SecretScrubber) -> Json {
    tidy_level(detail, scrubber, 0)
}

fn tidy_level(value: Json, scrubber: &SecretScrubber, depth: usize) -> Json {
    match value {
        Json::Array(_) | Json::Object(_) if depth >= DEPTH_MAX => Json::from("[too deep]"),
        Json::String(text) => Json::String(tidy_text(text, scrubber)),
        Json::Array(items) => items.into_iter().map(|item| tidy_level(item, scrubber, depth + 1)).collect(),
        Json::Object(map) => {
            let mut out = serde_json::Map::with_capacity(map.len());
            for (key, value) in map {
                let mut key = tidy_text(key, scrubber);
                while out.contains_key(&key) {
                    key.push('~');
                }
                out.insert(key, tidy_level(value, scrubber, depth + 1));
            }
            Json::Object(out)
        }
        Json::Number(number) if scrubber.hits(&number.to_string()) => Json::from(crate::scrub::SECRET),
        plain => plain,
    }
}

/// Scrubs before it cuts, so that no half of a secret stays; the hash is of the scrubbed text.
fn tidy_text(text: String, scrubber: &SecretScrubber) -> String {
    let text = scrubber.scrub_owned(text);
    if text.len() <= STRING_MAX {
        return text;
    }
    let mut end = STRING_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    format!("{head}…[cut: {} bytes in all, sha256 {}]", text.len(), sha256_hex(text.as_bytes()))
}

/// The JSON of a detail, or of its size and hash where it is too large for the log.
pub(crate) fn bounded_detail(detail: &Json) -> Result<Vec<u8>, serde_json::Error> {
    let written = json(detail)?;
    if written.len() <= DETAIL_MAX {
        return Ok(written);
    }
    json(&serde_json::json!({"$cut": {"bytes": written.len(), "sha256": sha256_hex(&written)}}))
}
