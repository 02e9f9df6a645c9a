//! What is fuzzed: every place where bytes that nobody vouches for become something.
//!
//! Answers to: the replayer beside it, and the coverage-guided fuzzer in `fuzz/`. Must not: accept an input in silence
//! that is read in two ways; a target panics on it, and that is the finding.
#![expect(clippy::panic, reason = "a fuzz target reports by panicking")]

pub mod mutate;
pub mod seeds;
pub mod sys;
mod targets;

pub use targets::{json_value, policy_parse, snapshot_open, wire_from_guest, wire_to_guest};

/// A target, and the most memory that an input may make it take.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder of seeds.
    pub name: &'static str,
    /// Reads an input; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Bytes that are always granted.
    pub base: usize,
    /// Bytes granted for each byte of input.
    pub factor: usize,
}

const MIB: usize = 1 << 20;
/// A list that claims many items is given room for 1,024 before they are read, at each of 64 levels.
const WIRE: usize = 8 * MIB;

/// Every target.
pub const TARGETS: [Target; 5] = [
    Target { name: "wire_from_guest", run: wire_from_guest, base: WIRE, factor: 512 },
    Target { name: "wire_to_guest", run: wire_to_guest, base: WIRE, factor: 512 },
    Target { name: "policy_parse", run: policy_parse, base: 64 * MIB, factor: 4096 },
    Target { name: "snapshot_open", run: snapshot_open, base: MIB, factor: 8 },
    Target { name: "json_value", run: json_value, base: MIB, factor: 1024 },
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// The most bytes that an input of this length may make it take.
    pub fn memory_bound(&self, length: usize) -> usize {
        self.base + self.factor * length
    }
}
