//! What a running cell is watched for: what it uses, and the thresholds on it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes to and from disks. What is kept in memory counts nowhere here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Io {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Io {
    /// Both together.
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.written)
    }
}

/// What a threshold is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Bytes of memory.
    Memory,
    /// Processor time since the last look, in percent of one processor.
    Cpu,
    /// Processes.
    Processes,
    /// Bytes read from and written to disks since the cell was opened.
    Io,
}

impl Measure {
    /// The name as it appears in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Processes => "processes",
            Self::Io => "io",
        }
    }

    /// What an amount of it is counted in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Memory | Self::Io => " bytes",
            Self::Cpu => " %",
            Self::Processes => "",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is done where a threshold is crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MonitorAction {
    /// It is told.
    Warn,
    /// The session is ended.
    Kill,
}

impl MonitorAction {
    /// The name as it appears in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Kill => "kill",
        }
    }
}
