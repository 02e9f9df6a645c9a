//! The engine: choose a tier, drive turns, keep limits, kill, snapshot.
//!
//! Answers to: the front doors, through `Engine` and `Session`. Must not: know a front door, or a tier's inside.
//! The flow of a run is written down in `run.rs` only. Its three laws, each held by a test: nothing is opened before
//! a grant exists; no host function runs before its record is written; no outcome leaves before the closing record.
#![forbid(unsafe_code)]

mod brought;
pub mod changes;
mod choose;
mod deadline;
mod drive;
mod engine;
pub mod environment;
mod error;
mod exception;
mod fork;
mod ice;
mod idle;
mod kill;
mod monitor;
mod mounts;
mod network;
mod opening;
mod output;
mod replay;
mod run;
mod sample;
mod seal;
mod session;

pub use choose::{Choice, lacks};
pub use engine::{Engine, Frozen, Parts, Request, TierReport};
pub use error::{RunError, SessionError};
pub use fork::{Branch, MOST_BRANCHES};
pub use ice::FreezeError;
pub use kill::{KillSwitch, Killing, Running, Target};
pub use monitor::text as threshold_text;
pub use mounts::MountError;
pub use network::{NetworkError, Outbound};
pub use run::{Paused, Watch};
pub use seal::{SnapshotError, SnapshotKey};
pub use session::{Handle, Session};
