//! The audit log: what is recorded, how it is chained and signed, and how it is verified.
//!
//! Answers to: bridge, session and the front doors. Must not: know a policy, a tier or a session;
//! decide anything; or lose a record in silence.
//!
//! # The file
//!
//! A log is UTF-8 text, one record a line, each line one JSON object with these members in this
//! order, without spaces between them:
//!
//! `seq` (from 1, without gaps), `time`, `tenant`, `session`, `run` (the last three may be `null`),
//! `event`, `decision` (`allowed`, `denied` or `none`), `detail` (an object), `prev` (the `hash` of
//! the line before; 64 zeros in the first), `hash`, and on some lines `signature`.
//!
//! - `hash` is the SHA-256 of the exact bytes of the line with the members `hash` and `signature`
//!   and the newline taken out. It stands for the record and, through `prev`, for all before it.
//!   With common tools, for the line in `line.json`:
//!   `sed -E 's/,"hash":"[0-9a-f]{64}"(,"signature":"[0-9a-f]{128}")?\}$/}/' line.json | tr -d '\n' | sha256sum`
//! - `signature` is the Ed25519 signature over the bytes `ringfence-audit-record-v1\n`, the hash
//!   in hexadecimal and `\n`. Records `log_opened` and `checkpoint` carry one where the log has a
//!   key. A key can't be taken from the log itself: it is pinned, or read from `audit.jsonl.pub`.
//! - No byte of the file is a control but the newline that ends a line. Characters that could
//!   steer a terminal or hide from a reader are written as `\uXXXX`.
//!
//! # Files beside it
//!
//! `audit.jsonl.pub` holds the public key. `audit.jsonl.head` is one line, `seq hash signature`,
//! signed over `ringfence-audit-head-v1\n`, the number, `\n`, the hash and `\n`: the log reaches at
//! least that far. It is there before the first record, and is replaced at each checkpoint and at close. `audit.jsonl.writers` is empty;
//! locks on it tell how many processes have the log open.
//!
//! # Several writers
//!
//! Any number of threads and processes may append to one file. Each takes an advisory lock for
//! one record, reads what others added since its last one, and goes on from there. So the chain is
//! one, and records of several sessions are mixed in it. A writer that can't get the lock for ten
//! seconds gets [`AuditError::Busy`].
//!
//! # What is promised
//!
//! - Of a log that was closed, every edit, removal, insertion, duplication, reordering and cut is
//!   found, by whoever has the public key, the log and its head, and the record is named.
//! - Of a log whose writer was killed, this holds up to the last signed record (`log_opened` or
//!   `checkpoint`, at most 64 records apart). Records behind it are chained but not signed: who can
//!   write the file could have changed or cut them. The report says where that part begins.
//! - Who can write the log and the head and has kept an older copy of both can put both back. Only
//!   a head kept elsewhere shows that: compare [`Report::last`] with it.
//! - Who has the secret key can forge everything.
//!
//! # After a kill
//!
//! An incomplete last line stays in the file. The next writer ends it with a newline and records
//! `log_opened` with the number and SHA-256 of the bytes left behind (`recovered`); the chain goes on from the
//! last complete record. A verifier accepts exactly that, and reports it.
#![forbid(unsafe_code)]

pub mod chain;
pub mod clock;
mod error;
pub mod event;
mod file_sink;
mod key;
mod log;
pub mod ocsf;
pub mod record;
mod render;
mod report;
pub mod scrub;
mod sealer;
mod sink;
mod tail;
pub mod text;
mod verify;

pub use chain::{Hash, sha256_hex};
pub use clock::{Clock, FixedClock, SystemClock, now_rfc3339};
pub use error::AuditError;
pub use event::{Decision, Entry, Event, Scope};
pub use file_sink::{Beside, FileSink, check_file};
pub use key::{Head, Keypair, PublicKey, PublicKeyError};
pub use log::{Durability, Log, LogOptions};
pub use ocsf::{event_names, to_ocsf};
pub use record::{Link, Record};
pub use render::render;
pub use report::{FINDINGS_MAX, Finding, FindingKind, Report, Verdict};
pub use scrub::SecretScrubber;
pub use sink::{MemorySink, Seal, Sink, Tail};
pub use text::{REDACTED, escape};
pub use verify::{Against, verify, verify_against, verify_file, verify_file_unanchored};
