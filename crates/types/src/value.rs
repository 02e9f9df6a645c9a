//! Values that may cross between host and guest, the same in every tier.
//!
//! Answers to: `wire` (which encodes them), `bridge` (which checks them) and every engine.
//! Must not: hold anything that refers to a live object. A value is plain data.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

/// One Python value, as plain data.
///
/// Dictionaries keep their order and may have any hashable key, so they are lists of pairs.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `bool`.
    Bool(bool),
    /// `int` that fits 64 bits. Build through [`Value::int`] so that one number has one form.
    Int(i64),
    /// `int` that does not fit 64 bits.
    BigInt(BigInt),
    /// `float`, NaN and the infinities too.
    Float(f64),
    /// `str`. Always valid Unicode; lone surrogates can't cross.
    Str(String),
    /// `bytes`.
    Bytes(Vec<u8>),
    /// `list`.
    List(Vec<Value>),
    /// `tuple`.
    Tuple(Vec<Value>),
    /// `dict`, in insertion order.
    Dict(Vec<(Value, Value)>),
    /// `set`.
    Set(Vec<Value>),
    /// `frozenset`.
    FrozenSet(Vec<Value>),
    /// `datetime.date` as `YYYY-MM-DD`.
    Date(String),
    /// `datetime.datetime` in Python's `isoformat()`, with its offset if it has one.
    DateTime(String),
    /// `datetime.time` in Python's `isoformat()`.
    Time(String),
    /// `datetime.timedelta` as days, seconds and microseconds, normalised as Python does.
    TimeDelta {
        /// Whole days, may be negative.
        days: i64,
        /// 0 to 86,399.
        seconds: u32,
        /// 0 to 999,999.
        microseconds: u32,
    },
    /// `decimal.Decimal` as its `str()`.
    Decimal(String),
    /// `uuid.UUID`, 16 bytes in network order.
    Uuid([u8; 16]),
    /// `pathlib.PurePath`, as its `str()`.
    Path(String),
    /// A dataclass, named tuple or `TypedDict` with its name.
    Record(Box<Record>),
}

/// A dataclass, named tuple or `TypedDict`: a name and named fields in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Which of Python's record types it was.
    pub kind: RecordKind,
    /// The class name, without its module.
    pub name: String,
    /// Field names and values, in order of declaration.
    pub fields: Vec<(String, Value)>,
}

/// Which of Python's record types a [`Record`] was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// `@dataclasses.dataclass`.
    Dataclass,
    /// `collections.namedtuple` or `typing.NamedTuple`.
    NamedTuple,
    /// `typing.TypedDict`, where the host knows the value by that name.
    TypedDict,
}

impl Value {
    /// An `int` in its one form: 64 bits where it fits.
    pub fn int(number: BigInt) -> Self {
        match number.to_i64() {
            Some(small) => Self::Int(small),
            None => Self::BigInt(number),
        }
    }

    /// The name of the Python type, as the guest would see it.
    pub fn type_name(&self) -> &str {
        match self {
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::BigInt(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::Set(_) => "set",
            Self::FrozenSet(_) => "frozenset",
            Self::Date(_) => "date",
            Self::DateTime(_) => "datetime",
            Self::Time(_) => "time",
            Self::TimeDelta { .. } => "timedelta",
            Self::Decimal(_) => "Decimal",
            Self::Uuid(_) => "UUID",
            Self::Path(_) => "Path",
            Self::Record(record) => &record.name,
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Str(value.to_owned())
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Str(value)
    }
}

/// How large a value may be: counted before anything is built on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueBudget {
    /// Bytes of its encoding.
    pub bytes: usize,
    /// Levels of nesting.
    pub depth: usize,
    /// Values in all, containers included.
    pub nodes: usize,
}

impl ValueBudget {
    /// What a value may weigh where nothing else is said: 4 MiB, 64 levels, 200,000 nodes.
    pub const DEFAULT: Self = Self { bytes: 4 << 20, depth: 64, nodes: 200_000 };
}

/// Why a value can't cross. The path names the place, as in `args.rows[3]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A type that has no plain-data form.
    #[error("a value of type `{type_name}` at `{path}` cannot cross between guest and host")]
    NotPlainData {
        /// Where it sits.
        path: String,
        /// Its Python type.
        type_name: String,
    },
    /// A container that contains itself.
    #[error("the value at `{path}` contains itself and cannot cross between guest and host")]
    Cycle {
        /// Where it sits.
        path: String,
    },
    /// A string with a lone surrogate.
    #[error("the text at `{path}` holds a lone surrogate and cannot cross between guest and host")]
    Surrogate {
        /// Where it sits.
        path: String,
    },
    /// Over one of the bounds of [`ValueBudget`].
    #[error("the value at `{path}` is over the limit of {allowed} {what}")]
    TooLarge {
        /// Where the bound was passed.
        path: String,
        /// `bytes`, `levels` or `values`.
        what: &'static str,
        /// The bound.
        allowed: usize,
    },
}
