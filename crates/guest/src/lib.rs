//! What runs inside the boundary: the worker process, its lock, and the interpreters behind one trait.
//!
//! Answers to: the host, through frames on one socket. Must not: open anything, or know policy, audit or session.
//! INVARIANT: depends on `types` and `wire` only, plus the interpreters.

pub mod cpython;
pub mod engine;
pub mod engines;
pub mod files;
#[cfg(target_os = "linux")]
pub mod jail;
pub mod lock;
mod message;
pub mod monty;
pub mod rustpython;
mod socket;
pub mod sys;
pub mod worker;
pub mod zygote;
