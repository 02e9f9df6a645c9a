//! What can go wrong with the log. Every one of these ends the run that needed the record.

use std::io;
use std::path::PathBuf;

/// Why a record could not be written, or the log not be opened.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The sink did not take the bytes. The log stays failed from here on.
    #[error("audit log {sink} could not be written: {cause}; nothing runs until it can")]
    Write {
        /// Which sink.
        sink: String,
        /// What the system said.
        cause: io::Error,
    },
    /// An earlier write failed.
    #[error("the audit log failed earlier and takes no more records: {first}; mend the cause and start again")]
    Failed {
        /// The first failure.
        first: String,
    },
    /// The log was closed.
    #[error("the audit log is closed and takes no more records; open it again")]
    Closed,
    /// The event is one that only the log itself writes.
    #[error("`{event}` is written by the audit log itself; record another event")]
    Reserved {
        /// Its name.
        event: &'static str,
    },
    /// Another writer kept the lock.
    #[error("audit log `{}` is locked by another process; end that process, or give this one a log of its own", path.display())]
    Busy {
        /// The log.
        path: PathBuf,
    },
    /// The log can't be opened.
    #[error("audit log `{}` could not be opened: {cause}; check the path and its permissions", path.display())]
    Open {
        /// The log, or a file beside it.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Others may write the file, or read the key.
    #[error("`{}` is open to other users (mode {mode:o}); run `chmod 600` on it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The end of the log is not what was written there.
    #[error("audit log `{}` was changed: {what}; keep it as evidence, run `ringfence audit verify` on it, and start a new log", path.display())]
    Tampered {
        /// The log.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// The log is signed with another key.
    #[error("audit log `{}` is signed with key {found}, not {given}; use that key or start a new log", path.display())]
    OtherKey {
        /// The log.
        path: PathBuf,
        /// The key beside the log.
        found: String,
        /// The key that was given.
        given: String,
    },
    /// The file does not hold a key.
    #[error("`{}` does not hold a signing key (64 hexadecimal digits); restore it, or remove it to make a new one", path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no random bytes for a new key.
    #[error("no random bytes for a new signing key: {cause}; check the system's random source")]
    NoRandom {
        /// What the system said.
        cause: String,
    },
    /// The secrets could not be made into a filter.
    #[error("the list of secrets could not be prepared: {cause}; give fewer or shorter secrets")]
    Secrets {
        /// What went wrong.
        cause: String,
    },
}

impl AuditError {
    pub(crate) fn open(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |cause| Self::Open { path, cause }
    }
}
