//! What a run has done so far, so that another engine can be brought to the same place.
//!
//! Answers to: `run`. Must not: carry a host function out twice; a replayed call gets the recorded answer or none.

use std::collections::VecDeque;

use ringfence_bridge::weigh;
use ringfence_types::{Call, GuestError, Source, Stream, Value};

/// The most bytes that are remembered, of sources, inputs, calls, answers and output.
const MOST_BYTES: u64 = 8 << 20;

/// What each thing that is remembered counts for beside its bytes.
const EACH: u64 = 64;

/// One call and its answer.
#[derive(Debug, Clone, PartialEq)]
struct Answered {
    function: String,
    args: Vec<Value>,
    kwargs: Vec<(String, Value)>,
    result: Result<Value, GuestError>,
}

/// Every snippet of a session with the answers that its calls got and the output it made.
#[derive(Debug, Clone, Default)]
pub struct History {
    runs: Vec<Past>,
    bytes: u64,
    given_up: bool,
}

#[derive(Debug, Clone)]
struct Past {
    source: Source,
    answers: Vec<Answered>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl History {
    /// A snippet begins.
    pub fn begin(&mut self, source: &Source) {
        let texts = source.code.len() + source.stdin.len() + source.file.len();
        let inputs: u64 = source.inputs.iter().map(|(name, value)| name.len() as u64 + weigh(value)).sum();
        if self.holds(texts as u64 + inputs) {
            let (stdout, stderr) = (Vec::new(), Vec::new());
            self.runs.push(Past { source: source.clone(), answers: Vec::new(), stdout, stderr });
        }
    }

    /// A call of the snippet under way got this answer.
    pub fn answered(&mut self, call: &Call, result: &Result<Value, GuestError>) {
        if self.given_up {
            return;
        }
        let result_bytes = result.as_ref().map_or_else(|error| error.message.len() as u64, weigh);
        let args: u64 = call.args.iter().map(weigh).sum();
        let kwargs: u64 = call.kwargs.iter().map(|(name, value)| name.len() as u64 + weigh(value)).sum();
        if self.holds(call.function.len() as u64 + args + kwargs + result_bytes)
            && let Some(past) = self.runs.last_mut()
        {
            past.answers.push(Answered {
                function: call.function.clone(),
                args: call.args.clone(),
                kwargs: call.kwargs.clone(),
                result: result.clone(),
            });
        }
    }

    /// The snippet under way printed this.
    pub fn printed(&mut self, stream: Stream, bytes: &[u8]) {
        if self.holds(bytes.len() as u64)
            && let Some(past) = self.runs.last_mut()
        {
            match stream {
                Stream::Stdout => past.stdout.extend_from_slice(bytes),
                Stream::Stderr => past.stderr.extend_from_slice(bytes),
            }
        }
    }

    /// Counts something; whether it still fits and is to be kept.
    fn holds(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(EACH);
        if self.bytes > MOST_BYTES {
            self.give_up();
        }
        !self.given_up
    }

    /// Something happened that can't be done again, such as a file put in from outside, or there is nowhere to do it
    /// again: nothing is kept from now on.
    pub fn give_up(&mut self) {
        self.given_up = true;
        self.runs = Vec::new();
    }

    /// Whether nothing had to be left out: only then can it be replayed.
    pub fn is_whole(&self) -> bool {
        !self.given_up
    }

    /// The snippets to feed again, in order; the last is the one under way.
    pub fn replays(&self) -> Vec<(Source, Replay)> {
        self.runs
            .iter()
            .map(|past| {
                let replay = Replay {
                    answers: past.answers.iter().cloned().collect(),
                    stdout: past.stdout.iter().copied().collect(),
                    stderr: past.stderr.iter().copied().collect(),
                };
                (past.source.clone(), replay)
            })
            .collect()
    }

    /// The snippet under way starts again from nothing in another engine. What is let go still counts: a program that
    /// moves twice has done more.
    pub fn restart(&mut self) {
        if let Some(past) = self.runs.last_mut() {
            past.answers.clear();
            past.stdout.clear();
            past.stderr.clear();
        }
    }
}

/// The snippet did something else than it did the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diverged;

/// What one snippet is expected to do again.
#[derive(Debug, Default)]
pub struct Replay {
    answers: VecDeque<Answered>,
    stdout: VecDeque<u8>,
    stderr: VecDeque<u8>,
}

impl Replay {
    /// Whether all that was done has been done again.
    pub fn is_over(&self) -> bool {
        self.answers.is_empty() && self.stdout.is_empty() && self.stderr.is_empty()
    }

    /// The recorded answer to this call; `None` where it is a new one.
    pub fn answer(&mut self, call: &Call) -> Result<Option<Result<Value, GuestError>>, Diverged> {
        if self.answers.is_empty() {
            return Ok(None);
        }
        let same =
            |past: &Answered| past.function == call.function && past.args == call.args && past.kwargs == call.kwargs;
        let at = self.answers.iter().position(same).ok_or(Diverged)?;
        Ok(self.answers.remove(at).map(|past| past.result))
    }

    /// The part of this output that is new.
    pub fn printed<'a>(&mut self, stream: Stream, bytes: &'a [u8]) -> Result<&'a [u8], Diverged> {
        let expected = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let again = bytes.len().min(expected.len());
        let (old, new) = bytes.split_at(again);
        if expected.drain(..again).ne(old.iter().copied()) {
            return Err(Diverged);
        }
        Ok(new)
    }
}
