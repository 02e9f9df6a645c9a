//! The host's end of a worker's socket: bytes out, bytes in, and waiting for either.
//!
//! Answers to: the cells of the tiers. Must not: know what the bytes mean, or keep a processor busy for longer than [`PATIENCE`].
//! INVARIANT: all state of a half-sent or half-read frame is here, so a dropped wait loses nothing.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::Interest;

use crate::sys;

/// How long a turn's answer is looked for before the runtime is asked to wait for it. Waking a sleeping processor
/// takes longer than most host calls do.
const PATIENCE: Duration = Duration::from_micros(500);

/// Turns that are not looked for after one that took longer, at most: a guest that computes is left alone.
const LONGEST_REST: u32 = 64;

/// Bytes read at once: most frames are small, and a buffer has to be cleared before each read.
const FEW: usize = 2 << 10;
const MANY: usize = 64 << 10;

/// How many links look for an answer now, and how many may: one processor is left for whoever answers.
static LOOKING: AtomicUsize = AtomicUsize::new(0);
static MAY_LOOK: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(0, |processors| processors.get() / 2));

/// Waits until there is something to read on a descriptor that does not block, or its other side is gone.
pub async fn readable(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let waiting = sys::known_to_runtime(descriptor, Interest::READABLE)?;
    waiting.readable().await.map(drop)
}

/// The other side is gone.
#[derive(Debug)]
pub struct Gone;

/// A socket with what is still to be sent and what was read so far.
#[derive(Debug)]
pub struct Link {
    socket: UnixStream,
    outgoing: Vec<u8>,
    sent: usize,
    incoming: Vec<u8>,
    /// A turn was sent, and its answer was not looked for yet.
    asked: bool,
    rest: u32,
    next_rest: u32,
}

impl Link {
    /// A link on a socket that does not block.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, outgoing: Vec::new(), sent: 0, incoming: Vec::new(), asked: false, rest: 0, next_rest: 1 }
    }

    /// Puts bytes in line; they go out while something is waited for.
    pub fn push(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// The socket. Nothing may be sent by it while something is in line.
    pub(crate) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// What was read and not taken yet.
    pub fn incoming(&self) -> &[u8] {
        &self.incoming
    }

    /// Takes the first `count` bytes of [`Link::incoming`].
    pub fn take(&mut self, count: usize) {
        self.incoming.drain(..count.min(self.incoming.len()));
    }

    /// Waits until there is more to read than before.
    pub async fn more(&mut self) -> Result<(), Gone> {
        loop {
            self.send();
            if self.receive()? || self.look()? {
                return Ok(());
            }
            let pending = self.sent < self.outgoing.len();
            let interest = if pending { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            // Known to the runtime only while it waits: a write to a socket that nobody sleeps on wakes nobody.
            let waiting = sys::known_to_runtime(self.socket.as_fd(), interest).map_err(|_| Gone)?;
            let _ = waiting.ready(interest).await.map_err(|_| Gone)?;
        }
    }

    /// Sends what can be sent without waiting.
    pub(crate) fn send(&mut self) {
        while let Some(rest) = self.outgoing.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match (&self.socket).write(rest) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // What the worker said before it went is still to be read.
                Err(_) => self.sent = self.outgoing.len(),
            }
            self.asked = true;
        }
        self.outgoing.clear();
        self.sent = 0;
    }

    /// Reads what is there without waiting. Whether anything was.
    fn receive(&mut self) -> Result<bool, Gone> {
        match self.receive_up_to::<FEW>()? {
            // There may be much more.
            FEW => self.receive_up_to::<MANY>().map(|_| true),
            count => Ok(count > 0),
        }
    }

    fn receive_up_to<const SIZE: usize>(&mut self) -> Result<usize, Gone> {
        let mut buffer = [0; SIZE];
        match (&self.socket).read(&mut buffer) {
            Ok(0) => Err(Gone),
            Ok(count) => {
                self.incoming.extend_from_slice(buffer.get(..count).unwrap_or_default());
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(_) => Err(Gone),
        }
    }

    /// Looks for the answer to a turn for a moment, where answers came quickly so far and a processor is free.
    fn look(&mut self) -> Result<bool, Gone> {
        if !std::mem::take(&mut self.asked) {
            return Ok(false);
        }
        if self.rest > 0 {
            self.rest -= 1;
            return Ok(false);
        }
        let Some(_place) = Place::take() else { return Ok(false) };
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.receive()? {
                self.next_rest = 1;
                return Ok(true);
            }
            // Where both share a processor, the worker goes on at once.
            std::thread::yield_now();
        }
        self.rest = self.next_rest;
        self.next_rest = (self.next_rest * 2).min(LONGEST_REST);
        Ok(false)
    }
}

/// A place among those who look.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let place = Self;
        // Dropping `place` gives it back either way.
        (LOOKING.fetch_add(1, Ordering::Relaxed) < *MAY_LOOK).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pair() -> (Link, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Link::new(ours), theirs)
    }

    #[tokio::test]
    async fn bytes_come_in_the_order_they_were_sent_in_however_many_there_are() {
        let (mut link, mut theirs) = pair();
        let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let copy = sent.clone();
        let writer = std::thread::spawn(move || theirs.write_all(&copy).map(|()| theirs));
        while link.incoming().len() < sent.len() {
            link.more().await.unwrap();
        }
        assert!(link.incoming() == sent, "as sent");
        link.take(sent.len());
        drop(writer.join().unwrap().unwrap());
        assert!(matches!(link.more().await, Err(Gone)), "the other side is gone");
    }

    #[tokio::test]
    async fn a_dropped_wait_loses_nothing() {
        let (mut link, theirs) = pair();
        let sent = vec![7; 3 << 20];
        link.push(&sent);
        // The other side does not read yet: the wait ends with much of it still here.
        let waited = tokio::time::timeout(Duration::from_millis(1), link.more()).await;
        assert!(waited.is_err(), "there is nothing to read");
        let reader = std::thread::spawn(move || {
            let mut found = vec![0; 3 << 20];
            (&theirs).read_exact(&mut found).and_then(|()| (&theirs).write_all(b"!")).map(|()| found)
        });
        link.more().await.unwrap();
        assert_eq!(link.incoming(), b"!");
        assert!(reader.join().unwrap().unwrap() == sent, "all of it arrived");
    }
}
