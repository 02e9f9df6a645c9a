//! The seam inside the guest: what an interpreter must be able to do, and what the worker offers it.
//!
//! Answers to: the worker loop, which owns the socket. Must not: do any I/O of its own. An engine that can
//! pause anywhere, count fuel and fork fits behind the same trait: it pauses inside [`Host`]'s methods.

use std::borrow::Cow;
use std::time::Duration;

use ringfence_types::{
    Call, CallId, FunctionSpec, GuestError, GuestException, MimeBundle, Source, Stream, Value, ValueError,
};

use crate::files::Files;

/// An interpreter with one session's state in it.
pub trait Interpreter {
    /// Makes the host's functions callable by name; called once, before the first snippet.
    fn declare(&mut self, functions: &[FunctionSpec]);

    /// Runs one snippet to its end. State persists for the next one.
    fn run(&mut self, source: &Source, host: &mut dyn Host) -> Ended;

    /// The idle state as bytes, between two snippets.
    fn snapshot(&mut self) -> Result<Vec<u8>, Unsupported>;

    /// Takes up the state in `bytes`, which this engine wrote (the host has checked their seal). Where they were
    /// taken in the middle of a snippet, goes on from there: the pending call is asked again through `host`, and
    /// the snippet's end is returned.
    fn restore(&mut self, bytes: &[u8], host: &mut dyn Host) -> Result<Option<Ended>, Unsupported>;
}

/// What the worker offers a running interpreter. Every method may block.
pub trait Host {
    /// Sends output on. The worker gathers small pieces; an empty piece sends on what it has gathered.
    fn print(&mut self, stream: Stream, bytes: &[u8]);

    /// Sends a rich result on.
    fn show(&mut self, bundle: MimeBundle);

    /// A number for the next call.
    fn next_call(&mut self) -> CallId;

    /// Asks the host to carry out `call` and waits for the answer. `pause` is used where the host wants a snapshot
    /// instead of answering at once.
    fn call(&mut self, call: Call, pause: &dyn Pause) -> Result<Value, GuestError>;

    /// Asks the host to carry out `call` without waiting (`call.deferred` is set).
    fn defer(&mut self, call: Call);

    /// Waits until one of the deferred calls is answered, or until `timeout` has passed (then `None`).
    fn wait(
        &mut self,
        pending: &[CallId],
        timeout: Option<Duration>,
        pause: &dyn Pause,
    ) -> Option<(CallId, Result<Value, GuestError>)>;

    /// Sleeps, after sending on what was printed. The host's wall clock goes on.
    fn sleep(&mut self, duration: Duration);

    /// The session's private files: `/workspace`, and the read-only mounts.
    fn files(&mut self) -> &mut Files;
}

/// An interpreter stopped inside a host call: its state can be written down there, or not.
pub trait Pause {
    /// The state in mid-program as bytes.
    fn dump(&self) -> Result<Vec<u8>, Unsupported>;
}

/// How a snippet ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It ran to its end; the value of its last expression, or `None`.
    Done(Value),
    /// It raised.
    Raised(GuestException),
    /// The engine doesn't know something the snippet needs.
    Unsupported(Unsupported),
    /// The last expression's value is not plain data, or too large.
    NoValue(ValueError),
}

/// Something an engine can't do, and the line that needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// What is missing, as a user would say it: `class inheritance`, `module numpy`, `snapshots`.
    pub feature: String,
    /// The line of the program, from 1.
    pub line: Option<u32>,
}

/// A [`Pause`] for engines that can't be written down in mid-program.
pub struct NoPause(pub &'static str);

impl Pause for NoPause {
    fn dump(&self) -> Result<Vec<u8>, Unsupported> {
        Err(Unsupported { feature: self.0.to_owned(), line: None })
    }
}

/// The source as Python reads a file: `\r\n` and `\r` end a line as `\n` does, also within a literal.
pub fn universal_newlines(source: &Source) -> Cow<'_, Source> {
    if !source.code.contains('\r') {
        return Cow::Borrowed(source);
    }
    let code = source.code.replace("\r\n", "\n").replace('\r', "\n");
    Cow::Owned(Source { code, ..source.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_line_is_read_as_one() {
        let check = |code: &str, want: &str| assert_eq!(universal_newlines(&Source::new(code)).code, want, "{code:?}");
        check("x = 1\n", "x = 1\n");
        check("x = '''a\r\nb'''\r\n", "x = '''a\nb'''\n");
        check("a\rb\n\rc\r\r\n", "a\nb\n\nc\n\n");
        check(r"'a\r\n'", r"'a\r\n'");
    }
}
