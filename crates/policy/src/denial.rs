//! Why the policy said no: what was refused, and the next step of whoever can change it.
//!
//! Answers to: `grant`, `permit` and `guard`, which build it; the bridge and the front doors, which show it.
//! Must not: echo more than 80 characters of what the guest sent, or anything of the host's.

use std::fmt;

/// The policy's no. Each kind carries its own text and hint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The function is not listed under `[functions]`, or the caller never declared it.
    Function(Refusal),
    /// An argument does not pass its guard.
    Argument(Refusal),
    /// The condition of the function's `when` is not true for these arguments.
    Condition(Refusal),
    /// A path outside every mount.
    Path(Refusal),
    /// The caller's declarations and the policy do not fit together.
    Declaration(Refusal),
}

/// What a [`Denial`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    message: String,
    hint: String,
}

impl Refusal {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

impl Denial {
    fn refusal(&self) -> &Refusal {
        match self {
            Self::Function(refusal)
            | Self::Argument(refusal)
            | Self::Condition(refusal)
            | Self::Path(refusal)
            | Self::Declaration(refusal) => refusal,
        }
    }

    /// The next step, for whoever writes the policy.
    pub fn hint(&self) -> &str {
        &self.refusal().hint
    }

    /// A short name of the kind, for logs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Function(_) => "function",
            Self::Argument(_) => "argument",
            Self::Condition(_) => "condition",
            Self::Path(_) => "path",
            Self::Declaration(_) => "declaration",
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.refusal().message)
    }
}
impl std::error::Error for Denial {}

/// A library's message on one line of at most 300 characters.
pub(crate) fn line(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

/// At most 80 characters of foreign text, with its control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == 80 {
            out.push('…');
            break;
        }
        let harmful = c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '`');
        if harmful { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}
