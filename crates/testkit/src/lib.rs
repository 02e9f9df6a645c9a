//! For tests only: a tier that plays a script, a sink that traces and fails, functions that leave a trace.
//!
//! Answers to: the tests of `session` and of the front doors. Must not: be a dependency of anything that is shipped.
//! All parts of one test share a [`Trace`], so that the order of what happened is one list.
#![forbid(unsafe_code)]

mod function;
mod sink;
mod tier;
mod trace;

pub use function::Traced;
pub use ringfence_audit::FixedClock;
pub use sink::TraceSink;
pub use tier::{FakeTier, Reply};
pub use trace::Trace;
