//! The host's proxy: how a cell without a network of its own reaches the hosts that its policy allows.
//!
//! Answers to: the tiers' composition, which puts a unix socket into a cell and gives the listener to [`Proxy::serve`].
//! Must not: know a tier, a session or the audit log (it tells a [`Watch`]), or read where a secret comes from.
//! A cell's network namespace is empty, so this socket is the only way out of it: UDP, QUIC, ICMP, raw sockets and DNS
//! (hence tunnels through any of them) don't exist inside; names are resolved here, on the host.
//! INVARIANT: no byte leaves for an address that [`Hooks::allow_address`] did not pass, and each connection is made to
//! the very address that was checked.
//! INVARIANT: a secret's value is in one request header on its way out, and in no event, error or log.
#![forbid(unsafe_code)]

mod address;
mod authority;
mod dial;
mod event;
mod exchange;
mod headers;
mod hello;
mod limits;
mod listen;
mod path;
mod proxy;
mod refusal;
mod resolve;
mod roots;
mod rules;
mod screen;
mod secret;
mod stream;
mod target;
mod tunnel;

pub use address::{AddressKind, classify, is_own};
pub use event::{Event, Step, Unrecorded, Watch};
pub use limits::{Hooks, Limits, PublicOnly, Traffic};
pub use listen::{Listen, Serving};
pub use proxy::{Outside, Proxy, SetupError};
pub use refusal::Refusal;
pub use resolve::{Answer, Resolve, SystemResolver};
pub use roots::Roots;
pub use rules::is_opaque;
pub use secret::{BoundSecret, SecretValue};
pub use target::{Host, SpellingFault, Target};
