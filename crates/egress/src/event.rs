//! What the embedding code is told of every connection and request.
//!
//! Answers to: the audit log of whoever embeds the proxy. Must not: write anything itself.
//! INVARIANT: an event holds no query, no header, no body and no secret; guest text in it is cut and escaped.

use std::net::IpAddr;
use std::time::Duration;

use crate::refusal::Refusal;

/// One decision, or one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Counts the cell's connections to the proxy from 1.
    pub connection: u64,
    /// What happened.
    pub step: Step,
    /// The host; empty where the request could not be read that far.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
    /// `CONNECT` for a tunnel, else the request's method.
    pub method: Option<String>,
    /// The path without its query, where it can be seen.
    pub path: Option<String>,
    /// The index of the rule that allowed it, in the order of `network.allow`.
    pub rule: Option<usize>,
    /// The names of the secrets that were put in.
    pub secrets: Vec<String>,
    /// The checked address that it goes to.
    pub address: Option<IpAddr>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It may go out; told before anything does.
    Allowed,
    /// It may not, and nothing of it went out.
    Refused(Refusal),
    /// What was allowed is over.
    Ended {
        /// Bytes to the host, as they crossed the network.
        up: u64,
        /// Bytes from the host.
        down: u64,
        /// From the decision to the end.
        elapsed: Duration,
        /// Why it ended early.
        fault: Option<Refusal>,
    },
}

/// The event could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the event could not be recorded")]
pub struct Unrecorded;

/// Hears of every connection and request.
pub trait Watch: Send + Sync {
    /// One event. Where an [`Step::Allowed`] can't be recorded, what it allowed is not done.
    fn connection(&self, event: &Event) -> Result<(), Unrecorded>;
}
