//! What really holds in a cell. Never a bool: a level, and the reason where it is not full.
//!
//! Answers to: the audit log and `doctor`. Must not: claim what was not tried.

use ringfence_types::Strength;

/// How far one line of the policy is enforced in a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enforced {
    /// Wholly.
    Full,
    /// In part, and what is missing.
    Partial(String),
    /// Not at all, and why.
    None(String),
}

/// One line: what is enforced, and how far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnforcementLine {
    /// `network`, `memory`, `system calls` …
    pub what: &'static str,
    /// How far.
    pub level: Enforced,
}

/// What really holds in a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforcement {
    /// The strength that the cell really reached.
    pub strength: Strength,
    /// Line by line.
    pub lines: Vec<EnforcementLine>,
}
