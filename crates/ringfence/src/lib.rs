//! Runs Python that AI agents wrote, without trusting it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use ringfence::{Engine, Policy};
//!
//! let engine = Engine::builder().build()?;
//! let mut session = engine.session(Policy::closed())?;
//! let outcome = session.run("print('hi'); 6*7").await?;
//! assert_eq!(outcome.value, Some(ringfence::Value::Int(42)));
//! # Ok(())
//! # }
//! ```
//!
//! A program that uses this crate is its own worker: call [`become_worker_if_asked`] first in `main`, or name the
//! `ringfence` program with [`Builder::worker`].
//!
//! Answers to: Rust programs, and `main`. Must not: hold logic; it builds an engine from its parts.
#![forbid(unsafe_code)]

mod builder;
mod facade;
#[cfg(feature = "cli")]
mod root;

pub use builder::{AuditTo, BuildError, Builder};
pub use facade::{Engine, Progress, Session, SessionBuilder};
pub use ringfence_bridge::{ApprovalRequest, Approve, HostError, HostFunction, Permitted, Verdict, typed, typed_async};
pub use ringfence_guest::sys::CountingAllocator;
pub use ringfence_policy::{LimitOverrides, Policy, PolicyErrors};
pub use ringfence_session::{Handle, Killing, Outbound, Paused, RunError, SessionError, Target};
pub use ringfence_types::*;

#[cfg(feature = "cli")]
pub use root::root;

/// The control socket, for programs whose sessions `ringfence ps` and `ringfence kill` are to reach.
#[cfg(feature = "cli")]
pub use ringfence_cli::control;

/// The egress proxy's own types, for an [`Outbound`] that decides on names, addresses and certificates itself.
pub use ringfence_egress as egress;

/// The engine below the facade, for front doors.
pub use ringfence_session as engine;

/// Turns this process into a worker, and never returns, where a Ringfence engine started it as one. Call it first in
/// `main`: a worker must not open a file or start a thread before it is locked.
pub fn become_worker_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    let Some(first) = arguments.next() else { return };
    if first == ringfence_wire::jail::HIDDEN_ARGUMENT {
        ringfence_guest::jail::serve();
    }
    if first != ringfence_wire::launch::HIDDEN_ARGUMENT {
        return;
    }
    let warm = arguments.next().is_some_and(|engine| engine == ringfence_types::Engine::Rustpython.as_str());
    let lean = arguments.next().is_some_and(|word| word == ringfence_wire::launch::LEAN);
    ringfence_guest::zygote::serve(|| {
        let engine = if warm { ringfence_types::Engine::Rustpython } else { ringfence_types::Engine::Monty };
        match ringfence_guest::engines::Engines::warm(engine, lean) {
            Ok(engines) => Ok(Box::new(engines)),
            Err(error) => Err(error.to_string()),
        }
    });
}
