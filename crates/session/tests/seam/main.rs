//! What a session does with its tiers: chooses, opens, moves, ends. Each test is a story told by fakes, in exact text.
//!
//! Answers to: the reviewers of `session`. Must not: sleep, or look at a clock.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod ends;
mod files;
mod moves;
mod opening;
mod stage;
