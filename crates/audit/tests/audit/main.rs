//! Holds the audit log to its promises: one binary, a module for each kind of promise.
#![expect(clippy::indexing_slicing, clippy::panic, reason = "a test that fails is a panic")]

mod failing;
mod golden;
mod harmless;
mod mutations;
mod shared;
mod support;
mod torn;
