//! Values as Python would show them.
//!
//! Answers to: `run` and `repl`. Must not: let text of the guest's steer a terminal: what `repr` escapes, is escaped.

use ringfence_types::json::{is_long, uuid_text};
use ringfence_types::{Record, RecordKind, Value};

/// The value as `repr()` writes it.
pub fn repr(value: &Value) -> String {
    match value {
        Value::None => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(number) => number.to_string(),
        // A number that Python's own `repr` refuses; as a literal in hexadecimal it is exact and takes no time.
        Value::BigInt(number) if is_long(number) => format!("{number:#x}"),
        Value::BigInt(number) => number.to_string(),
        Value::Float(number) => float(*number),
        Value::Str(text) => string(text),
        Value::Bytes(bytes) => byte_string(bytes),
        Value::List(items) => format!("[{}]", joined(items)),
        Value::Tuple(items) => match items.as_slice() {
            [only] => format!("({},)", repr(only)),
            items => format!("({})", joined(items)),
        },
        Value::Dict(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}: {}", repr(key), repr(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Set(items) if items.is_empty() => "set()".to_owned(),
        Value::Set(items) => format!("{{{}}}", joined(items)),
        Value::FrozenSet(items) if items.is_empty() => "frozenset()".to_owned(),
        Value::FrozenSet(items) => format!("frozenset({{{}}})", joined(items)),
        Value::Date(text) => date_like("date", text),
        Value::DateTime(text) => date_like("datetime", text),
        Value::Time(text) => date_like("time", text),
        Value::TimeDelta { days, seconds, microseconds } => timedelta(*days, *seconds, *microseconds),
        Value::Decimal(text) => format!("Decimal({})", string(text)),
        Value::Uuid(bytes) => format!("UUID('{}')", uuid_text(bytes)),
        Value::Path(text) => format!("PurePosixPath({})", string(text)),
        Value::Record(fields) => record(fields),
    }
}

fn joined(items: &[Value]) -> String {
    items.iter().map(repr).collect::<Vec<_>>().join(", ")
}

fn record(record: &Record) -> String {
    let open = match record.kind {
        RecordKind::TypedDict => {
            let fields = record.fields.iter().map(|(name, value)| format!("{}: {}", string(name), repr(value)));
            return format!("{{{}}}", fields.collect::<Vec<_>>().join(", "));
        }
        RecordKind::Dataclass | RecordKind::NamedTuple => safe(&record.name),
    };
    let fields = record.fields.iter().map(|(name, value)| format!("{}={}", safe(name), repr(value)));
    format!("{open}({})", fields.collect::<Vec<_>>().join(", "))
}

/// A name that the guest gave, which may be anything.
fn safe(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The shortest digits that give the number back, with the exponent where Python writes one.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if printable(c) => out.push(c),
            c => out.push_str(&match u32::from(c) {
                code if code < 0x100 => format!("\\x{code:02x}"),
                code if code < 0x1_0000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
    out
}

/// Close to `str.isprintable`: no controls, no separators but the space, nothing invisible.
fn printable(c: char) -> bool {
    let private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    c == ' ' || !(private || c.is_control() || c.is_whitespace() || ringfence_audit::text::is_unsafe(c))
}

fn byte_string(bytes: &[u8]) -> String {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    let mut out = format!("b{}", char::from(quote));
    for byte in bytes {
        match *byte {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte if byte == quote => out.extend(['\\', char::from(byte)]),
            byte @ 0x20..0x7f => out.push(char::from(byte)),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(char::from(quote));
    out
}

/// `datetime.date(2026, 1, 2)` of `2026-01-02`; the text itself, quoted, where it is of another form.
fn date_like(kind: &str, text: &str) -> String {
    match numbers(kind, text) {
        Some(arguments) => format!("datetime.{kind}({arguments})"),
        None => format!("datetime.{kind}.fromisoformat({})", string(text)),
    }
}

fn numbers(kind: &str, text: &str) -> Option<String> {
    let (date, time) = match kind {
        "date" => (Some(text), None),
        "time" => (None, Some(text)),
        _ => text.split_once('T').map(|(date, time)| (Some(date), Some(time)))?,
    };
    let mut parts: Vec<u32> = Vec::new();
    for part in date.into_iter().flat_map(|date| date.split('-')) {
        parts.push(part.parse().ok()?);
    }
    if let Some(time) = time {
        let (whole, micros) = time.split_once('.').map_or((time, None), |(whole, rest)| (whole, Some(rest)));
        let clock: Vec<u32> = whole.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [hour, minute, second] = <[u32; 3]>::try_from(clock).ok()?;
        let micros: u32 = micros.map_or(Some(0), |micros| micros.parse().ok())?;
        parts.extend([hour, minute]);
        parts.extend((second > 0 || micros > 0).then_some(second));
        parts.extend((micros > 0).then_some(micros));
    }
    Some(parts.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
}

fn timedelta(days: i64, seconds: u32, microseconds: u32) -> String {
    let parts = [("days", days), ("seconds", i64::from(seconds)), ("microseconds", i64::from(microseconds))];
    let given: Vec<String> =
        parts.iter().filter(|(_, amount)| *amount != 0).map(|(name, amount)| format!("{name}={amount}")).collect();
    format!("datetime.timedelta({})", if given.is_empty() { "0".to_owned() } else { given.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: Value, want: &str) {
        assert_eq!(repr(&value), want);
    }

    #[test]
    fn values_look_as_in_python() {
        let text = |text: &str| Value::Str(text.to_owned());
        check(Value::None, "None");
        check(Value::Float(1.0), "1.0");
        check(Value::Float(-0.0), "-0.0");
        check(Value::Float(1e16), "1e+16");
        check(Value::Float(123_456_789_012_345.6), "123456789012345.6");
        check(Value::Float(0.0001), "0.0001");
        check(Value::Float(0.00001), "1e-05");
        check(Value::Float(1.5e300), "1.5e+300");
        check(text("it's"), "\"it's\"");
        check(text("it's \"so\""), "'it\\'s \"so\"'");
        check(text("a\n\u{1b}[31m\u{202e}é😀\u{e000}"), "'a\\n\\x1b[31m\\u202eé😀\\ue000'");
        check(text("\u{a0}"), "'\\xa0'");
        check(Value::Bytes(b"a'\x00\xff".to_vec()), "b\"a'\\x00\\xff\"");
        check(Value::Tuple(vec![Value::Int(1)]), "(1,)");
        check(Value::Set(vec![]), "set()");
        check(Value::Dict(vec![(text("a"), Value::List(vec![Value::Bool(true)]))]), "{'a': [True]}");
        check(Value::Date("2026-01-02".to_owned()), "datetime.date(2026, 1, 2)");
        check(Value::DateTime("2026-01-02T03:04:00".to_owned()), "datetime.datetime(2026, 1, 2, 3, 4)");
        check(Value::DateTime("2026-01-02T03:04:05.000006".to_owned()), "datetime.datetime(2026, 1, 2, 3, 4, 5, 6)");
        let offset = "2026-01-02T03:04:05+00:00";
        check(Value::DateTime(offset.to_owned()), &format!("datetime.datetime.fromisoformat('{offset}')"));
        check(Value::TimeDelta { days: -1, seconds: 5, microseconds: 0 }, "datetime.timedelta(days=-1, seconds=5)");
        let point = Record {
            kind: RecordKind::Dataclass,
            name: "Po\nint".to_owned(),
            fields: vec![("x".to_owned(), 1_i64.into())],
        };
        check(Value::Record(Box::new(point)), "Point(x=1)");
    }
}
