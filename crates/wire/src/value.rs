//! Values as bytes: one tag byte, then the content.
//!
//! Answers to: `frame`. Must not: recurse deeper than the budget, or build what it has not counted.

use num_bigint::{BigInt, Sign};
use ringfence_types::{Record, RecordKind, Value};

use crate::code::{DecodeError, Reader, Writer};

const NONE: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const BIG_INT: u8 = 4;
const FLOAT: u8 = 5;
const STR: u8 = 6;
const BYTES: u8 = 7;
const LIST: u8 = 8;
const TUPLE: u8 = 9;
const DICT: u8 = 10;
const SET: u8 = 11;
const FROZEN_SET: u8 = 12;
const DATE: u8 = 13;
const DATE_TIME: u8 = 14;
const TIME: u8 = 15;
const TIME_DELTA: u8 = 16;
const DECIMAL: u8 = 17;
const UUID: u8 = 18;
const PATH: u8 = 19;
const DATACLASS: u8 = 20;
const NAMED_TUPLE: u8 = 21;
const TYPED_DICT: u8 = 22;

/// Texts of dates, times and decimals are short.
const SHORT_TEXT: usize = 4096;

/// Writes a value.
pub fn encode_value(writer: &mut Writer, value: &Value) {
    match value {
        Value::None => writer.u8(NONE),
        Value::Bool(flag) => writer.u8(if *flag { TRUE } else { FALSE }),
        Value::Int(number) => {
            writer.u8(INT);
            writer.raw(&number.to_le_bytes());
        }
        Value::BigInt(number) => {
            writer.u8(BIG_INT);
            let (sign, magnitude) = number.to_bytes_le();
            writer.u8(u8::from(sign == Sign::Minus));
            writer.bytes(&magnitude);
        }
        Value::Float(number) => {
            writer.u8(FLOAT);
            writer.u64(number.to_bits());
        }
        Value::Str(text) => tagged_text(writer, STR, text),
        Value::Bytes(bytes) => {
            writer.u8(BYTES);
            writer.bytes(bytes);
        }
        Value::List(items) => tagged_items(writer, LIST, items),
        Value::Tuple(items) => tagged_items(writer, TUPLE, items),
        Value::Set(items) => tagged_items(writer, SET, items),
        Value::FrozenSet(items) => tagged_items(writer, FROZEN_SET, items),
        Value::Dict(pairs) => {
            writer.u8(DICT);
            writer.list(pairs, |writer, (key, value)| {
                encode_value(writer, key);
                encode_value(writer, value);
            });
        }
        Value::Date(text) => tagged_text(writer, DATE, text),
        Value::DateTime(text) => tagged_text(writer, DATE_TIME, text),
        Value::Time(text) => tagged_text(writer, TIME, text),
        Value::TimeDelta { days, seconds, microseconds } => {
            writer.u8(TIME_DELTA);
            writer.raw(&days.to_le_bytes());
            writer.u32(*seconds);
            writer.u32(*microseconds);
        }
        Value::Decimal(text) => tagged_text(writer, DECIMAL, text),
        Value::Uuid(bytes) => {
            writer.u8(UUID);
            writer.raw(bytes);
        }
        Value::Path(text) => tagged_text(writer, PATH, text),
        Value::Record(record) => encode_record(writer, record),
    }
}

fn tagged_text(writer: &mut Writer, tag: u8, text: &str) {
    writer.u8(tag);
    writer.text(text);
}

fn tagged_items(writer: &mut Writer, tag: u8, items: &[Value]) {
    writer.u8(tag);
    writer.list(items, encode_value);
}

fn encode_record(writer: &mut Writer, record: &Record) {
    writer.u8(match record.kind {
        RecordKind::Dataclass => DATACLASS,
        RecordKind::NamedTuple => NAMED_TUPLE,
        RecordKind::TypedDict => TYPED_DICT,
    });
    writer.text(&record.name);
    writer.list(&record.fields, |writer, (name, value)| {
        writer.text(name);
        encode_value(writer, value);
    });
}

/// Reads a value, counting against the reader's budget.
pub fn decode_value(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    decode_at(reader, 1)
}

fn decode_at(reader: &mut Reader<'_>, depth: usize) -> Result<Value, DecodeError> {
    reader.node(depth)?;
    let items = |reader: &mut Reader<'_>| reader.list("a list", |reader| decode_at(reader, depth + 1));
    match reader.u8("a value")? {
        NONE => Ok(Value::None),
        FALSE => Ok(Value::Bool(false)),
        TRUE => Ok(Value::Bool(true)),
        INT => reader.u64("an int").map(|bits| Value::Int(bits.cast_signed())),
        BIG_INT => big_int(reader),
        FLOAT => reader.u64("a float").map(|bits| Value::Float(f64::from_bits(bits))),
        STR => reader.text("a str").map(Value::Str),
        BYTES => reader.bytes("bytes").map(|bytes| Value::Bytes(bytes.to_vec())),
        LIST => items(reader).map(Value::List),
        TUPLE => items(reader).map(Value::Tuple),
        SET => items(reader).map(Value::Set),
        FROZEN_SET => items(reader).map(Value::FrozenSet),
        DICT => {
            let pair = |reader: &mut Reader<'_>| Ok((decode_at(reader, depth + 1)?, decode_at(reader, depth + 1)?));
            reader.list("a dict", pair).map(Value::Dict)
        }
        DATE => short_text(reader, "date").map(Value::Date),
        DATE_TIME => short_text(reader, "datetime").map(Value::DateTime),
        TIME => short_text(reader, "time").map(Value::Time),
        TIME_DELTA => time_delta(reader),
        DECIMAL => short_text(reader, "Decimal").map(Value::Decimal),
        UUID => reader.uuid().map(Value::Uuid),
        PATH => short_text(reader, "Path").map(Value::Path),
        DATACLASS => record(reader, RecordKind::Dataclass, depth),
        NAMED_TUPLE => record(reader, RecordKind::NamedTuple, depth),
        TYPED_DICT => record(reader, RecordKind::TypedDict, depth),
        tag => Err(DecodeError::Tag(tag, "value")),
    }
}

fn big_int(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    let sign = if reader.flag("a sign")? { Sign::Minus } else { Sign::Plus };
    Ok(Value::int(BigInt::from_bytes_le(sign, reader.bytes("an int")?)))
}

/// Dates and the like are printable ASCII or, for paths, any text of moderate length.
fn short_text(reader: &mut Reader<'_>, what: &'static str) -> Result<String, DecodeError> {
    let text = reader.text(what)?;
    let fits = text.len() <= SHORT_TEXT && (what == "Path" || text.bytes().all(|byte| byte.is_ascii_graphic()));
    if fits { Ok(text) } else { Err(DecodeError::Form(what)) }
}

fn time_delta(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    let days = reader.u64("a timedelta")?.cast_signed();
    let (seconds, microseconds) = (reader.u32("a timedelta")?, reader.u32("a timedelta")?);
    if days.unsigned_abs() > 999_999_999 || seconds >= 86_400 || microseconds >= 1_000_000 {
        return Err(DecodeError::Form("timedelta"));
    }
    Ok(Value::TimeDelta { days, seconds, microseconds })
}

fn record(reader: &mut Reader<'_>, kind: RecordKind, depth: usize) -> Result<Value, DecodeError> {
    let name = reader.text("a record's name")?;
    if name.len() > 256 {
        return Err(DecodeError::Form("record name"));
    }
    let field = |reader: &mut Reader<'_>| Ok((reader.text("a field's name")?, decode_at(reader, depth + 1)?));
    let fields = reader.list("a record", field)?;
    Ok(Value::Record(Box::new(Record { kind, name, fields })))
}
