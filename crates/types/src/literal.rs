//! Python literals as values: what stands as a default in a declaration.
//!
//! Answers to: whoever has to know what a function is called with where an argument is left out. Must not: evaluate
//! anything, or guess: what is not a literal in the form that `repr` gives has no value here.

use std::str::FromStr;

use num_bigint::BigInt;

use crate::json::MAX_DIGITS;
use crate::value::Value;

/// The longest source that is looked at.
const LONGEST: usize = 64 << 10;
/// How deep containers may nest.
const DEEPEST: usize = 64;

/// The value of a literal: `None`, `True`, `-1`, `1e-05`, `float('inf')`, `'text'`, `b'bytes'`, `[1, (2,), {'a': 3}]`.
pub fn value_of(source: &str) -> Option<Value> {
    let mut reader =
        Reader { rest: source.get(..source.len().min(LONGEST)).filter(|text| text.len() == source.len())? };
    let value = reader.value(DEEPEST)?;
    reader.rest.trim_start().is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// Passes over this text, where it comes next.
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, levels: usize) -> Option<Value> {
        let levels = levels.checked_sub(1)?;
        self.rest = self.rest.trim_start();
        match self.rest.as_bytes() {
            [b'[', ..] => self.items("[", "]", levels).map(|(items, _)| Value::List(items)),
            [b'(', ..] => match self.items("(", ")", levels)? {
                // Brackets around one value, without a comma, are brackets.
                (mut items, false) if items.len() == 1 => items.pop(),
                (items, _) => Some(Value::Tuple(items)),
            },
            [b'{', ..] => self.dict(levels),
            [b'b', b'\'' | b'"', ..] => {
                self.rest = self.rest.get(1..)?;
                let text = self.text(true)?;
                text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<_>>().map(Value::Bytes)
            }
            [b'\'' | b'"', ..] => self.text(false).map(Value::Str),
            _ => self.word(),
        }
    }

    /// Items between brackets, and whether a comma ended them.
    fn items(&mut self, open: &str, close: &str, levels: usize) -> Option<(Vec<Value>, bool)> {
        self.take(open).then_some(())?;
        let mut items = Vec::new();
        let mut comma = false;
        while !self.take(close) {
            if !items.is_empty() && !comma {
                return None;
            }
            items.push(self.value(levels)?);
            comma = self.take(",");
        }
        Some((items, comma))
    }

    fn dict(&mut self, levels: usize) -> Option<Value> {
        self.take("{").then_some(())?;
        let mut pairs = Vec::new();
        let mut comma = true;
        while !self.take("}") {
            if !comma {
                return None;
            }
            let key = self.value(levels)?;
            self.take(":").then_some(())?;
            pairs.push((key, self.value(levels)?));
            comma = self.take(",");
        }
        Some(Value::Dict(pairs))
    }

    fn text(&mut self, bytes: bool) -> Option<String> {
        let mut letters = self.rest.chars();
        let quote = letters.next()?;
        let mut text = String::new();
        loop {
            match letters.next()? {
                c if c == quote => break,
                '\n' | '\r' => return None,
                '\\' => text.push(match letters.next()? {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    c @ ('\\' | '\'' | '"') => c,
                    'x' => escape(&mut letters, 2)?,
                    'u' if !bytes => escape(&mut letters, 4)?,
                    'U' if !bytes => escape(&mut letters, 8)?,
                    _ => return None,
                }),
                c => text.push(c),
            }
        }
        self.rest = letters.as_str();
        Some(text)
    }

    fn word(&mut self) -> Option<Value> {
        for (word, value) in [
            ("float('inf')", Value::Float(f64::INFINITY)),
            ("float('-inf')", Value::Float(f64::NEG_INFINITY)),
            ("float('nan')", Value::Float(f64::NAN)),
        ] {
            if self.take(word) {
                return Some(value);
            }
        }
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        match word {
            "None" => Some(Value::None),
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            number => value_of_number(number),
        }
    }
}

fn escape(letters: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let code = letters.as_str().get(..digits)?;
    let letter = code.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(code, 16).ok())??;
    *letters = letters.as_str().get(digits..)?.chars();
    char::from_u32(letter)
}

fn value_of_number(word: &str) -> Option<Value> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if digits.bytes().all(|digit| digit.is_ascii_digit()) {
        let whole = digits.len() <= MAX_DIGITS && (digits.len() == 1 || !digits.starts_with('0'));
        return if whole { BigInt::from_str(word).ok().map(Value::int) } else { None };
    }
    let known = digits.bytes().all(|byte| byte.is_ascii_digit() || b"+-.e".contains(&byte));
    if known { word.parse().ok().map(Value::Float) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, want: &str) {
        let found = value_of(source).map_or("none".to_owned(), |value| format!("{value:?}"));
        assert_eq!(found, want, "{source}");
    }

    #[test]
    fn literals_have_their_value() {
        check("None", "None");
        check(" True ", "Bool(true)");
        check("-3", "Int(-3)");
        check("100000000000000000001", "BigInt(100000000000000000001)");
        check("0.5", "Float(0.5)");
        check("1e+16", "Float(1e16)");
        check("-1e-05", "Float(-1e-5)");
        check("float('-inf')", "Float(-inf)");
        check(r#"'it\'s "a" \x1b\u20ac\n'"#, r#"Str("it's \"a\" \u{1b}€\n")"#);
        check("\"it's\"", r#"Str("it's")"#);
        check(r"b'a\xff'", "Bytes([97, 255])");
        check("[1, 'a', [None]]", r#"List([Int(1), Str("a"), List([None])])"#);
        check("(1,)", "Tuple([Int(1)])");
        check("()", "Tuple([])");
        check("(1)", "Int(1)");
        check("{'a': 1, 2: ()}", r#"Dict([(Str("a"), Int(1)), (Int(2), Tuple([]))])"#);
        check("{}", "Dict([])");
    }

    #[test]
    fn what_is_no_literal_has_no_value() {
        for source in [
            "",
            "...",
            "x",
            "f()",
            "1 + 1",
            "[1",
            "[1 2]",
            "[,]",
            "'a",
            "'a' 'b'",
            "{1}",
            "01",
            "1j",
            "1_000",
            "nan",
            "b'\\u20ac'",
            "'\\q'",
            "'\\ud800'",
            "1.2.3",
            "{'a': 1 'b': 2}",
            "--1",
        ] {
            check(source, "none");
        }
        check(&"[".repeat(100_000), "none");
        check(&format!("{}{}", "[".repeat(65), "]".repeat(65)), "none");
    }
}
