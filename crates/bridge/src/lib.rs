//! The host-function bridge: decide, record, do, check, record.
//!
//! Answers to: `session`, which hands it the calls that cells report. Must not: know a tier.
//! INVARIANT: no host function runs before its permit exists and the record of it is written, and no answer leaves
//! before the record of the answer is written.
#![forbid(unsafe_code)]

mod approve;
mod call;
mod declare;
mod function;
mod hold;
mod rate;

pub use approve::{ApprovalRequest, Approve, Verdict};
pub use call::{Answered, Bridge, BridgeFault, Host, Over, over, weigh};
pub use declare::{describe, stub};
pub use function::{Boxed, HostError, HostFunction, Permitted, Registry, RegistryError, typed, typed_async};
pub use hold::{Hold, HoldTarget, Holds};
pub use rate::Rates;
