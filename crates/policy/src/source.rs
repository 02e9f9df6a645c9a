//! From text to a tree of TOML with places: bounded before it is parsed.
//!
//! Answers to: `resolve`. Must not: know any key of a policy.
//! INVARIANT: no text over 1 MiB or 64 levels reaches anything that recurses.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{PolicyError, PolicyErrorKind};

const LONGEST: usize = 1 << 20;
const DEEPEST: usize = 64;

/// Reads the text; every fault of its syntax at once.
pub(crate) fn read(text: &str) -> Result<Spanned<DeTable<'_>>, Vec<PolicyError>> {
    let syntax = |span: Option<Range<usize>>, message: String| PolicyError::new(PolicyErrorKind::Syntax, span, message);
    if text.len() > LONGEST {
        return Err(vec![syntax(Some(0..0), "a policy is at most 1 MiB long".to_owned())]);
    }
    if let Some(at) = too_deep(text) {
        return Err(vec![syntax(Some(at..at), format!("brackets are nested more than {DEEPEST} levels"))]);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let told = |error: &toml::de::Error| syntax(error.span(), format!("not TOML: {}", one_line(error.message())));
        return Err(errors.iter().map(told).collect());
    }
    if table.get_ref().values().any(|value| deeper_than(value, DEEPEST)) {
        return Err(vec![syntax(Some(0..0), format!("keys are nested more than {DEEPEST} levels"))]);
    }
    Ok(table)
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}

/// Where brackets outside of strings and comments pass the bound.
fn too_deep(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'#' => at = find(bytes, at, b'\n'),
            b'"' | b'\'' => at = end_of_string(bytes, at, *byte),
            _ => {}
        }
        if depth > DEEPEST {
            return Some(at);
        }
        at += 1;
    }
    None
}

fn find(bytes: &[u8], from: usize, wanted: u8) -> usize {
    bytes.iter().skip(from).position(|byte| *byte == wanted).map_or(bytes.len(), |ahead| from + ahead)
}

/// The last byte of the string that opens at `at`; a one-line string ends with its line at the latest.
fn end_of_string(bytes: &[u8], at: usize, quote: u8) -> usize {
    let long = bytes.get(at..at + 3) == Some(&[quote; 3]);
    let mut now = if long { at + 3 } else { at + 1 };
    while let Some(byte) = bytes.get(now) {
        match byte {
            b'\\' if quote == b'"' => now += 1,
            b'\n' if !long => return now,
            byte if *byte == quote && !long => return now,
            byte if *byte == quote && bytes.get(now..now + 3) == Some(&[quote; 3]) => return now + 2,
            _ => {}
        }
        now += 1;
    }
    now
}

fn deeper_than(value: &Spanned<DeValue<'_>>, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    match value.get_ref() {
        DeValue::Array(items) => items.iter().any(|item| deeper_than(item, levels)),
        DeValue::Table(table) => table.values().any(|item| deeper_than(item, levels)),
        _ => false,
    }
}
