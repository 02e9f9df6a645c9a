//! What a guest printed: head and tail are kept within the cap, the rest is counted.
//!
//! Answers to: `run`. Must not: grow past the cap, whatever the guest prints.

use std::collections::VecDeque;

use ringfence_types::{Dropped, MimeBundle, Stream};

/// A run that prints this many times its cap, and at least [`FLOOD_FLOOR`], is stopped.
const FLOOD_FACTOR: u64 = 16;
/// No run is stopped for less than this: dropping it is cheap.
const FLOOD_FLOOR: u64 = 16 << 20;
/// What one format of a rich result counts for beside its bytes.
const EACH_FORMAT: usize = 64;

/// Both streams of one run.
#[derive(Debug)]
pub struct Output {
    cap: u64,
    head_left: usize,
    tail_room: usize,
    total: u64,
    shown: u64,
    stdout: Kept,
    stderr: Kept,
}

#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Output {
    /// Keeps at most `cap` bytes: the first half of them from the head, the rest from the tail.
    pub fn new(cap: u64) -> Self {
        let whole = usize::try_from(cap).unwrap_or(usize::MAX);
        let head = whole / 2;
        Self {
            cap,
            head_left: head,
            tail_room: whole - head,
            total: 0,
            shown: 0,
            stdout: Kept::default(),
            stderr: Kept::default(),
        }
    }

    /// Takes output in. Gives the part that is still within the cap, for whoever watches.
    pub fn take<'a>(&mut self, stream: Stream, bytes: &'a [u8]) -> &'a [u8] {
        let left = usize::try_from(self.cap.saturating_sub(self.total)).unwrap_or(usize::MAX);
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_left));
        self.head_left -= head.len();
        let kept = self.stream(stream);
        kept.head.extend_from_slice(head);
        kept.tail.extend(rest);
        self.shed();
        bytes.get(..left).unwrap_or(bytes)
    }

    fn stream(&mut self, stream: Stream) -> &mut Kept {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Drops the oldest bytes of the longer tail until both fit.
    fn shed(&mut self) {
        let over = (self.stdout.tail.len() + self.stderr.tail.len()).saturating_sub(self.tail_room);
        let longer = if self.stdout.tail.len() >= self.stderr.tail.len() { &mut self.stdout } else { &mut self.stderr };
        let from_longer = over.min(longer.tail.len());
        longer.drop_oldest(from_longer);
        let other = if self.stdout.tail.len() >= self.stderr.tail.len() { &mut self.stdout } else { &mut self.stderr };
        other.drop_oldest(over - from_longer);
    }

    /// Bytes printed in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Counts a rich result, which is kept whole: its bytes, and something for each so that empty ones count too.
    pub fn show(&mut self, bundle: &MimeBundle) {
        let sizes = bundle.0.iter().map(|(mime, bytes)| mime.len() + bytes.len() + EACH_FORMAT);
        self.shown += sizes.sum::<usize>() as u64 + EACH_FORMAT as u64;
    }

    /// Bytes printed and shown.
    pub fn reached(&self) -> u64 {
        self.total.max(self.shown)
    }

    /// Whether the run prints or shows without end.
    pub fn floods(&self) -> bool {
        self.reached() > self.cap.saturating_mul(FLOOD_FACTOR).max(FLOOD_FLOOR)
    }

    /// Both texts, with a line where bytes were dropped, and how many.
    pub fn finish(self) -> (String, String, Dropped) {
        let dropped = Dropped { stdout: self.stdout.dropped, stderr: self.stderr.dropped };
        (self.stdout.text(), self.stderr.text(), dropped)
    }
}

impl Kept {
    fn drop_oldest(&mut self, count: usize) {
        self.tail.drain(..count);
        self.dropped += count as u64;
    }

    fn text(self) -> String {
        let tail = Vec::from(self.tail);
        if self.dropped == 0 {
            return String::from_utf8_lossy(&[self.head, tail].concat()).into_owned();
        }
        let (head, tail) = (whole_head(&self.head), whole_tail(&tail));
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        format!("{head}\n[... {} bytes dropped ...]\n{tail}", self.dropped)
    }
}

/// Without the character that the cut went through, if it did.
fn whole_head(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or(bytes),
        _ => bytes,
    }
}

fn whole_tail(bytes: &[u8]) -> &[u8] {
    let stray = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    bytes.get(stray..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cap: u64, pieces: &[(Stream, &str)], want: (&str, &str)) {
        let mut output = Output::new(cap);
        for (stream, text) in pieces {
            output.take(*stream, text.as_bytes());
        }
        let (stdout, stderr, _) = output.finish();
        assert_eq!((stdout.as_str(), stderr.as_str()), want);
    }

    #[test]
    fn head_and_tail_are_kept() {
        use Stream::{Stderr, Stdout};
        check(8, &[(Stdout, "abcdefgh")], ("abcdefgh", ""));
        check(8, &[(Stdout, "abcdefghij")], ("abcd\n[... 2 bytes dropped ...]\nghij", ""));
        check(8, &[(Stdout, "abcd"), (Stderr, "123456")], ("abcd", "\n[... 2 bytes dropped ...]\n3456"));
        check(6, &[(Stdout, "é".repeat(6).as_str())], ("é\n[... 6 bytes dropped ...]\né", ""));
    }

    #[test]
    fn a_watcher_sees_no_more_than_the_cap() {
        let mut output = Output::new(4);
        assert_eq!(output.take(Stream::Stdout, b"abc"), b"abc");
        assert_eq!(output.take(Stream::Stdout, b"def"), b"d");
        assert_eq!(output.take(Stream::Stdout, b"ghi"), b"");
        assert_eq!(output.total(), 9);
    }
}
