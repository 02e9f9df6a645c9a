//! The words that every other crate of Ringfence shares.
//!
//! Answers to: everything above it. Must not: do I/O, read the clock, or be async.
//! INVARIANT: this crate knows no tier, no wire format and no policy file; it only names things.
#![forbid(unsafe_code)]

pub mod call;
pub mod changes;
pub mod command;
pub mod environment;
pub mod exact;
pub mod files;
pub mod function;
pub mod id;
pub mod json;
pub mod limits;
pub mod literal;
pub mod monitor;
pub mod nesting;
pub mod outcome;
pub mod strength;
pub mod value;

pub use call::{Call, CallId, Engine, GuestError, GuestException, MimeBundle, Source, Stream, TraceFrame};
pub use changes::{Change, ChangeKind, Changes, Skipped};
pub use command::{Command, CommandFault, Stdin};
pub use environment::{Environment, EnvironmentName, EnvironmentNameError};
pub use files::{FileEntry, FileFault, FileOp, FileReply, GuestPath};
pub use function::{Default, FunctionSpec, Parameter, ParameterKind};
pub use id::{IdError, RunId, SessionId, Tenant};
pub use limits::{ByteSize, LimitKind, Limits, ParseUnitError, Span};
pub use monitor::{Io, Measure, MonitorAction};
pub use nesting::{Nesting, TooDeep};
pub use outcome::{AuditSpan, Considered, Dropped, LimitHit, Outcome, Shown, Status, Usage};
pub use strength::{Strength, TierName, UnknownName};
pub use value::{Record, RecordKind, Value, ValueBudget, ValueError};
