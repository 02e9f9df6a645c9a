//! One list of what happened, in order, shared by every part of a test.
//!
//! Answers to: the fakes, which add to it, and tests, which read it. Must not: judge.

use std::sync::{Arc, Mutex, PoisonError};

/// What happened, in order. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    /// Nothing so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one line.
    pub fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.into());
    }

    /// Everything so far.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
