//! JSON text with whole numbers of any size, which the JSON parser would round to floats.
//!
//! Answers to: whoever reads JSON that a person wrote. Must not: change what is not a number over 64 bits, or make of
//! wrong JSON anything that the parser would take.

use std::borrow::Cow;

use serde_json::Value as Json;

/// Reads JSON; a whole number that 64 bits can't hold becomes the tagged form that [`crate::json::from_json`] knows.
pub fn parse_exact(text: &str) -> Result<Json, serde_json::Error> {
    // A fault is told with its place in the text as it was given.
    serde_json::from_str::<serde::de::IgnoredAny>(text)?;
    serde_json::from_str(&tagged(text))
}

/// The text with each large whole number replaced by its tagged form.
fn tagged(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let end = end_of_number(bytes, at);
                let token = text.get(at..end).unwrap_or_default();
                if is_large(token) {
                    out.push_str(text.get(copied..at).unwrap_or_default());
                    out.push_str(&format!("{{\"$type\":\"int\",\"value\":\"{token}\"}}"));
                    copied = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

fn end_of_string(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let of_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    start + bytes.get(start..).unwrap_or_default().iter().take_while(of_number).count()
}

/// Whether the parser would make a float of this whole number.
fn is_large(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    whole && (token == "-0" || (token.parse::<i64>().is_err() && token.parse::<u64>().is_err()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::from_json;

    #[track_caller]
    fn check(text: &str, want: &str) {
        let read = parse_exact(text).map_err(|error| error.to_string());
        let found = read.and_then(|json| from_json(&json, "x").map_err(|error| error.to_string()));
        assert_eq!(format!("{found:?}"), want, "{text}");
    }

    #[test]
    fn whole_numbers_come_as_they_are() {
        check("9223372036854775807", "Ok(Int(9223372036854775807))");
        check("9223372036854775808", "Ok(BigInt(9223372036854775808))");
        check("18446744073709551616", "Ok(BigInt(18446744073709551616))");
        check("-9223372036854775809", "Ok(BigInt(-9223372036854775809))");
        check(
            r#"[1, {"a": 100000000000000000001}, -0]"#,
            r#"Ok(List([Int(1), Dict([(Str("a"), BigInt(100000000000000000001))]), Int(0)]))"#,
        );
        check("100000000000000000001.0", "Ok(Float(1e20))");
        check("100000000000000000001e0", "Ok(Float(1e20))");
    }

    #[test]
    fn texts_and_faults_are_left_alone() {
        check(r#""\"100000000000000000001""#, r#"Ok(Str("\"100000000000000000001"))"#);
        check(r#"{"100000000000000000001": 1}"#, r#"Ok(Dict([(Str("100000000000000000001"), Int(1))]))"#);
        check("[1, 0100000000000000000001]", r#"Err("invalid number at line 1 column 6")"#);
        check("100000000000000000001 x", r#"Err("trailing characters at line 1 column 23")"#);
        check("", r#"Err("EOF while parsing a value at line 1 column 0")"#);
    }
}
