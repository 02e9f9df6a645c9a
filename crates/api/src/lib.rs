//! The request and response types of every front door, and the one table of statuses and errors.
//!
//! Answers to: `cli`, and later `http` and `mcp`. Must not: know a front door, or decide anything.
#![forbid(unsafe_code)]

mod outcome;
mod table;

pub use outcome::{OutcomeView, bundle, outcome_to_json};
pub use table::{Code, Row, exit_code_of_status, rows};
