//! What is wrong with a policy: every fault, with its file, line and the nearest right thing.
//!
//! Answers to: `source`, `shape` and `resolve`, which collect them; the front doors, which print them.
//! Must not: stop at the first fault, or show more than a line of the file.

use std::fmt;
use std::ops::Range;

use crate::denial::shown;

/// Every fault of one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyErrors {
    origin: String,
    errors: Vec<PolicyError>,
}

/// One fault of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    kind: PolicyErrorKind,
    message: String,
    line: Option<u32>,
    span: Option<Range<usize>>,
}

/// What sort of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyErrorKind {
    /// Not TOML, too long or nested too deeply.
    Syntax,
    /// A key that no policy has.
    UnknownKey,
    /// A key that must be there.
    MissingKey,
    /// A value of another type than the key takes.
    WrongType,
    /// A value of the right type that the key does not take.
    WrongValue,
    /// Two settings that can't both hold.
    Contradiction,
}

impl PolicyErrors {
    pub(crate) fn new(origin: &str, mut errors: Vec<PolicyError>) -> Self {
        errors.sort_by_key(|error| error.span.as_ref().map_or(0, |span| span.start));
        Self { origin: shown(origin), errors }
    }

    /// The faults, in the order of the file.
    pub fn errors(&self) -> &[PolicyError] {
        &self.errors
    }

    /// The file's name, as given to [`crate::Policy::parse`].
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl PolicyError {
    pub(crate) fn new(kind: PolicyErrorKind, span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), line: None, span }
    }

    pub(crate) fn located(mut self, text: &str) -> Self {
        let start = self.span.as_ref().map(|span| span.start.min(text.len()));
        self.line = start.map(|start| line_of(text.as_bytes().get(..start).unwrap_or_default()));
        self
    }

    /// What sort of fault it is.
    pub fn kind(&self) -> PolicyErrorKind {
        self.kind
    }

    /// The line, from 1; absent for settings that came from no file.
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    /// The bytes of the text that are at fault.
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }
}

fn line_of(before: &[u8]) -> u32 {
    u32::try_from(before.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(u32::MAX).saturating_add(1)
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            match error.line {
                Some(line) => write!(f, "{end}{}:{line}: {error}", self.origin)?,
                None => write!(f, "{end}{}: {error}", self.origin)?,
            }
        }
        Ok(())
    }
}
impl std::error::Error for PolicyError {}
impl std::error::Error for PolicyErrors {}
