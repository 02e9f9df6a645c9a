//! Tiers by name, and what stands between the code and the host.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What stands between the guest and the host, weakest first. Ordered: a policy's floor is a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// Only the interpreter's own rules.
    Language,
    /// A process of its own, locked by the kernel's filters.
    Process,
    /// A kernel of its own in user space, such as gVisor.
    Kernel,
    /// A virtual machine.
    Hardware,
}

/// A kind of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TierName {
    /// An interpreter written in Rust, in a locked worker process.
    Embedded,
    /// CPython compiled to WebAssembly.
    Wasm,
    /// Native CPython in a process jail.
    Process,
    /// An OCI container.
    Container,
    /// A virtual machine under a small monitor.
    Microvm,
    /// Another machine's Ringfence, or an E2B account.
    Remote,
    /// Many machines under one scheduler.
    Cluster,
    /// No isolation at all: exists in tests only.
    Bare,
}

/// A word that names no tier or no strength.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a {what}; use one of: {known}")]
pub struct UnknownName {
    given: String,
    what: &'static str,
    known: String,
}

impl TierName {
    /// Every tier that a policy may name, lightest first.
    pub const ALL: [Self; 7] =
        [Self::Embedded, Self::Wasm, Self::Process, Self::Container, Self::Microvm, Self::Remote, Self::Cluster];

    /// The name as written in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Wasm => "wasm",
            Self::Process => "process",
            Self::Container => "container",
            Self::Microvm => "microvm",
            Self::Remote => "remote",
            Self::Cluster => "cluster",
            Self::Bare => "bare",
        }
    }
}

impl Strength {
    /// Every strength, weakest first.
    pub const ALL: [Self; 4] = [Self::Language, Self::Process, Self::Kernel, Self::Hardware];

    /// The name as written in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Language => "language",
            Self::Process => "process",
            Self::Kernel => "kernel",
            Self::Hardware => "hardware",
        }
    }
}

fn by_name<T: Copy>(given: &str, what: &'static str, all: &[T], name: fn(T) -> &'static str) -> Result<T, UnknownName> {
    all.iter().copied().find(|item| name(*item) == given).ok_or_else(|| UnknownName {
        given: given.chars().take(80).collect(),
        what,
        known: all.iter().map(|item| name(*item)).collect::<Vec<_>>().join(", "),
    })
}

impl FromStr for TierName {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        by_name(text, "tier", &Self::ALL, Self::as_str)
    }
}
impl FromStr for Strength {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        by_name(text, "strength", &Self::ALL, Self::as_str)
    }
}
impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
