//! Bounds of one cell's traffic, and what the embedding code may decide itself.
//!
//! Answers to: `proxy`. Must not: count; `stream` does.

use std::net::IpAddr;
use std::time::Duration;

use crate::address::{AddressKind, classify, is_own};

/// Bounds of one cell's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections to the proxy at once; [`crate::Proxy::serve`] lets further ones wait.
    pub connections: usize,
    /// Bytes of a request's or an answer's head, at least 8 KiB.
    pub head_bytes: usize,
    /// Headers in a head.
    pub headers: usize,
    /// Time for a head, or for a TLS handshake with the guest, to be complete; a kept connection that sends no further
    /// request is closed after it too.
    pub head_time: Duration,
    /// Time to reach a host, TLS included.
    pub connect_time: Duration,
    /// Time in which no byte moves in either direction.
    pub idle_time: Duration,
    /// Puts secrets into plain HTTP too, for services of the host's own. Off: only into TLS.
    pub secrets_in_plain_http: bool,
}

impl Default for Limits {
    /// 64 connections, 64 KiB and 100 headers a head within 10 s, 10 s to connect, 5 min idle, secrets in TLS only.
    fn default() -> Self {
        Self {
            connections: 64,
            head_bytes: 64 * 1024,
            headers: 100,
            head_time: Duration::from_secs(10),
            connect_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(300),
            secrets_in_plain_http: false,
        }
    }
}

/// Bytes of one cell so far, over all its connections, as they crossed the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// To hosts.
    pub up: u64,
    /// From hosts.
    pub down: u64,
}

/// What the embedding code decides.
pub trait Hooks: Send + Sync {
    /// Whether an address may be connected to. Default: public ones that are not the host's own.
    fn allow_address(&self, address: &IpAddr) -> bool {
        classify(address) == AddressKind::Public && !is_own(address)
    }
    /// Whether traffic may go on; asked while bytes move, hence cheap. Default: always.
    fn allow_traffic(&self, traffic: Traffic) -> bool {
        let _ = traffic;
        true
    }
}

/// Public addresses, any amount.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublicOnly;

impl Hooks for PublicOnly {}
