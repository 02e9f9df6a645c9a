//! The command line, and the frames that the Python package speaks.
//!
//! Answers to: `main`. Must not: decide anything that a policy decides.
#![forbid(unsafe_code)]

pub mod stdio;
