//! The host's side of worker processes: a sealed executable, a control socket that carries descriptors, a handle on
//! each process, and the link its frames travel on.
//!
//! Answers to: the tiers whose cells are processes. Must not: know a tier, a frame or a policy.

mod control;
mod executable;
mod link;
mod process;
mod sys;

pub use control::{Control, Message};
pub use executable::Executable;
pub use link::{Gone, Link};
pub use process::{Footprint, Process, status_field};
