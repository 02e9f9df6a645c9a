//! Sizes, spans of time, and the limits of a session. Parsed once, at the edge.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Text that is not a size or a span of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a {what}; write it as {example}")]
pub struct ParseUnitError {
    given: String,
    what: &'static str,
    example: &'static str,
}

/// A number of bytes, written as `64MiB`. Units: `B`, `KiB`, `MiB`, `GiB`, `KB`, `MB`, `GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ByteSize(u64);

/// A span of time, written as `5s`. Units: `ms`, `s`, `min`, `h`, `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Span(u64);

const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];
const SPAN_UNITS: [(&str, u64); 5] = [("min", 60_000), ("ms", 1), ("s", 1_000), ("h", 3_600_000), ("d", 86_400_000)];

/// `1.5GiB` → 1.5 times the unit, where that is a whole number of the smallest unit.
fn parse_with_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), *factor)))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 3 || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}").parse().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    whole.checked_add(factor.checked_mul(thousandths)? / 1000)
}

fn print_with_units(amount: u64, units: &[(&str, u64)], smallest: &str) -> String {
    units
        .iter()
        .filter(|(unit, factor)| {
            amount >= *factor && amount.is_multiple_of(*factor) && !matches!(*unit, "GB" | "MB" | "KB")
        })
        .max_by_key(|(_, factor)| *factor)
        .map_or_else(|| format!("{amount}{smallest}"), |(unit, factor)| format!("{}{unit}", amount / factor))
}

impl ByteSize {
    /// A size of this many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }
    /// A size of this many mebibytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }
    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Span {
    /// A span of this many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }
    /// A span of this many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1000)
    }
    /// The span in milliseconds.
    pub const fn millis(self) -> u64 {
        self.0
    }
    /// The span as the standard library's type.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl FromStr for ByteSize {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse_with_units(text, &SIZE_UNITS).map(Self).ok_or_else(|| ParseUnitError {
            given: text.chars().take(80).collect(),
            what: "size",
            example: "`64MiB`, `512KiB` or `1GiB`",
        })
    }
}
impl FromStr for Span {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse_with_units(text, &SPAN_UNITS).map(Self).ok_or_else(|| ParseUnitError {
            given: text.chars().take(80).collect(),
            what: "span of time",
            example: "`500ms`, `5s`, `10min` or `1h`",
        })
    }
}
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&print_with_units(self.0, &SIZE_UNITS, "B"))
    }
}
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&print_with_units(self.0, &SPAN_UNITS, "ms"))
    }
}
macro_rules! text_conversions {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = ParseUnitError;
            fn try_from(text: String) -> Result<Self, ParseUnitError> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(amount: $name) -> Self {
                amount.to_string()
            }
        }
    )*};
}
text_conversions!(ByteSize, Span);

/// What one session may use. Each is enforced from outside the guest and names itself when it strikes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Limits {
    /// Real time of one run, sleeping included.
    pub wall: Span,
    /// Whether time spent in host functions counts towards `wall`.
    pub wall_includes_calls: bool,
    /// Processor time of one run.
    pub cpu: Span,
    /// Memory of the guest.
    pub memory: ByteSize,
    /// Standard output, standard error and the value together. Head and tail are kept past it.
    pub output: ByteSize,
    /// Processes and threads at once.
    pub processes: u32,
    /// Open file descriptors at once.
    pub open_files: u32,
    /// Bytes of the private workspace.
    pub disk: ByteSize,
    /// Host-function calls in one run.
    pub host_calls: u32,
    /// One call of a host function, from when it is let go ahead to its answer.
    pub call: Span,
    /// How long a session that nobody feeds stays.
    pub idle: Span,
    /// How long a session stays in all.
    pub lifetime: Span,
}

impl Limits {
    /// 5 s wall and CPU, 64 MiB of memory, 64 KiB of output, 200 host calls of a minute each, an hour of life.
    pub const fn closed() -> Self {
        Self {
            wall: Span::from_secs(5),
            wall_includes_calls: false,
            cpu: Span::from_secs(5),
            memory: ByteSize::from_mib(64),
            output: ByteSize::from_bytes(64 << 10),
            processes: 16,
            open_files: 64,
            disk: ByteSize::from_bytes(0),
            host_calls: 200,
            call: Span::from_secs(60),
            idle: Span::from_secs(300),
            lifetime: Span::from_secs(3600),
        }
    }
}

/// Which limit struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Real time of one run.
    Wall,
    /// Processor time of one run.
    Cpu,
    /// Memory of the guest.
    Memory,
    /// Output of one run.
    Output,
    /// Processes and threads.
    Processes,
    /// Open file descriptors.
    OpenFiles,
    /// Bytes or files of the workspace.
    Disk,
    /// Host calls of one run.
    HostCalls,
    /// A value, frame or source too large to carry.
    Size,
    /// Nobody fed the session.
    Idle,
    /// The session's time in all.
    Lifetime,
}

impl LimitKind {
    /// The name as it appears in outcomes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::Processes => "processes",
            Self::OpenFiles => "open_files",
            Self::Disk => "disk",
            Self::HostCalls => "host_calls",
            Self::Size => "size",
            Self::Idle => "idle",
            Self::Lifetime => "lifetime",
        }
    }
}
impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_size(text: &str, want: Option<u64>) {
        assert_eq!(text.parse::<ByteSize>().ok().map(ByteSize::bytes), want, "{text}");
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        check_size("64MiB", Some(64 << 20));
        check_size("1.5 GiB", Some(3 << 29));
        check_size("1KB", Some(1000));
        check_size("7B", Some(7));
        check_size("64", None);
        check_size("-1MiB", None);
        check_size("99999999999GiB", None);
        check_size("1e3MiB", None);
        check_size("", None);
        check_size("MiB", None);
    }

    #[test]
    fn spans_are_read_with_their_unit() {
        for (text, want) in [
            ("500ms", Some(500)),
            ("5s", Some(5000)),
            ("10min", Some(600_000)),
            ("1h", Some(3_600_000)),
            ("5", None),
            ("5m", None),
        ] {
            assert_eq!(text.parse::<Span>().ok().map(Span::millis), want, "{text}");
        }
    }

    #[test]
    fn amounts_print_as_they_are_written() {
        for text in ["64MiB", "1GiB", "1536KiB", "7B"] {
            assert_eq!(text.parse::<ByteSize>().expect("written right").to_string(), text);
        }
        for text in ["500ms", "5s", "10min", "1h", "90s"] {
            assert_eq!(text.parse::<Span>().expect("written right").to_string(), text);
        }
    }
}
