//! The control socket of a process, and its other end: list, kill, hold, release, for this user's processes.
//!
//! Answers to: every process that has an engine (it listens), and `ps`, `kill` and `resume` (they ask). Must not: wait
//! for a guest, or listen to another user.

mod client;
pub mod holds;
mod listener;
mod message;
#[cfg(test)]
mod tests;

pub use client::{Answered, ask_all};
pub use listener::{ListenError, Listener};
pub use message::{Reply, Request, SessionRow, Wanted};
