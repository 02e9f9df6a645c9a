//! What code may do: reads a policy file, decides what a session is granted, permits each effect.
//!
//! Answers to: `bridge`, `session` and the front doors. Must not: do I/O, read the clock, be async,
//! or know a tier's name beyond its place in the list. It is the sole maker of [`Grant`] and [`Permit`].
//! INVARIANT: whatever is not listed is refused; a guard that can't be evaluated refuses too.
#![forbid(unsafe_code)]

pub mod bind;
pub mod check;
mod denial;
mod error;
mod file;
mod grant;
mod guard;
mod permit;
mod policy;
mod resolve;
mod settings;
mod shape;
mod show;
mod source;

pub use bind::{BindFault, Bound, bind, unbind};
pub use check::{ArgumentFault, ResultFault, SchemaFault, SchemaSet, check_arguments, check_result};
pub use denial::{Denial, Refusal};
pub use error::{PolicyError, PolicyErrorKind, PolicyErrors};
pub use grant::{Ask, Grant, Needs, glob};
pub use permit::{ApprovalNeed, Effect, Permit};
pub use policy::{LimitOverrides, Policy};
pub use settings::{
    Anomaly, AnomalyAction, Approval, Inject, Monitor, Mount, MountMode, NetworkRule, Rate, Secret, SecretSource,
    Thresholds, TypeCheck, Types,
};
