//! The commands, one module each.
//!
//! Answers to: `lib`. Must not: share state; each takes its options and a printer, and gives an exit code.

pub mod audit;
pub mod changes;
pub mod doctor;
pub mod env;
pub mod exec;
pub mod explain;
pub mod freeze;
pub mod kill;
pub mod policy;
pub mod reference;
pub mod repl;
pub mod run;
pub mod shell;
pub mod stdio;
pub mod top;
