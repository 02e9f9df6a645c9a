//! What happens during a run, as events for the client.
//!
//! Answers to: `work`. Must not: tear a character: what ends in the middle of one waits for its rest.

use std::collections::BTreeMap;

use ringfence_api::bundle;
use ringfence_audit::event::ThresholdCrossed;
use ringfence_session::Watch;
use ringfence_types::{MimeBundle, Stream};
use serde::Serialize;

use super::outbox::Outbox;

/// Which events the client wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub output: bool,
    pub shown: bool,
    pub thresholds: bool,
}

#[derive(Serialize)]
struct Crossed<'a> {
    event: &'static str,
    session: &'a str,
    #[serde(flatten)]
    crossed: &'a ThresholdCrossed,
}

#[derive(Serialize)]
struct Output<'a> {
    event: &'static str,
    session: &'a str,
    stream: Stream,
    text: &'a str,
}

#[derive(Serialize)]
struct Shown<'a> {
    event: &'static str,
    session: &'a str,
    bundle: BTreeMap<&'a str, String>,
}

/// Watches one run.
pub(super) struct Events<'a> {
    outbox: &'a Outbox,
    session: &'a str,
    wanted: Wanted,
    stdout: Torn,
    stderr: Torn,
}

impl<'a> Events<'a> {
    pub fn new(outbox: &'a Outbox, session: &'a str, wanted: Wanted) -> Self {
        Self { outbox, session, wanted, stdout: Torn::default(), stderr: Torn::default() }
    }

    /// The run is over: what never got its rest is sent as it is.
    pub fn finish(mut self) {
        for (stream, text) in [(Stream::Stdout, self.stdout.rest()), (Stream::Stderr, self.stderr.rest())] {
            self.send(stream, &text);
        }
    }

    fn send(&self, stream: Stream, text: &str) {
        if !text.is_empty() {
            // An event over the limit of a frame is left out; the outcome has its text.
            let _ = self.outbox.send(&Output { event: "output", session: self.session, stream, text });
        }
    }
}

impl Watch for Events<'_> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if self.wanted.output {
            let torn = match stream {
                Stream::Stdout => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            };
            let text = torn.take(bytes);
            self.send(stream, &text);
        }
    }

    fn crossed(&mut self, crossed: &ThresholdCrossed) {
        if self.wanted.thresholds {
            let _ = self.outbox.send(&Crossed { event: "threshold", session: self.session, crossed });
        }
    }

    fn shown(&mut self, shown: &MimeBundle) {
        if self.wanted.shown {
            let _ = self.outbox.send(&Shown { event: "shown", session: self.session, bundle: bundle(shown) });
        }
    }
}

/// The bytes of a character that is not complete yet: three at most.
#[derive(Default)]
struct Torn(Vec<u8>);

impl Torn {
    /// The text as far as it is complete.
    fn take(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let complete = self.0.len() - unfinished(&self.0);
        let rest = self.0.split_off(complete);
        String::from_utf8_lossy(&std::mem::replace(&mut self.0, rest)).into_owned()
    }

    fn rest(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

/// How many bytes at the end begin a character that may still become one.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() && bytes.ends_with(last) => last.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&[u8]], want: &[&str]) {
        let mut torn = Torn::default();
        let mut got: Vec<String> = pieces.iter().map(|piece| torn.take(piece)).collect();
        got.push(torn.rest());
        assert_eq!(got, want, "{pieces:?}");
    }

    #[test]
    fn no_character_is_torn() {
        check(&[b"a", b"\xc3", b"\xa9b"], &["a", "", "éb", ""]);
        check(&[b"x\xf0", b"\x9f\x98", b"\x80"], &["x", "", "😀", ""]);
        check(&[b"x\xf0\x9f"], &["x", "\u{fffd}"]);
        check(&[b"\xff", b"a\xffb"], &["\u{fffd}", "a\u{fffd}b", ""]);
        check(&[b"\xf0\x9f", b"a"], &["", "\u{fffd}a", ""]);
        check(&[b""], &["", ""]);
    }
}
