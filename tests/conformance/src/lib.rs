//! One suite of attack and use cases, run against each tier, and against `bare`, where the escapes must show.
//!
//! Answers to: `cargo xtask conformance` and CI. Must not: skip a case in silence, or judge a case by anything but the
//! keys that stand in it: a key that the suite does not know is a failure.
#![forbid(unsafe_code)]

pub mod bare;
pub mod canary;
pub mod case;
pub mod control;
pub mod cpython;
pub mod kinds;
pub mod measure;
pub mod oracle;
pub mod plain;
pub mod policy;
pub mod probes;
pub mod programs;
pub mod report;
pub mod run;
pub mod seen;
pub mod stage;
pub mod tools;
pub mod wants;

/// What a check says: nothing, or what is wrong.
pub type Check = Result<(), String>;
