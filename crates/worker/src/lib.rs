//! The host's side of worker processes: a sealed executable, a control socket that carries descriptors, a handle on
//! each process, and its frames as turns and events.
//!
//! Answers to: the tiers whose cells are processes. Must not: know a policy, or what a tier is
//! made of.

mod control;
mod executable;
mod frames;
mod lend;
mod line;
mod link;
mod process;
mod sys;

pub use control::{Control, Message};
pub use executable::Executable;
pub use frames::{Frames, Taken};
pub use lend::{Greeting, greeting, tell_senders};
pub use line::{Line, Refill, Want};
pub use link::{Gone, Link, readable};
pub use process::{Footprint, Process, disk_bytes, status_field};
