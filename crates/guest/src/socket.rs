//! The worker's end of its socket: frames out, frames in.
//!
//! Answers to: `worker`. Must not: return where the host is gone or breaks the form; the process ends then.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ringfence_wire::{FromGuest, HEADER, Header, ToGuest, to_guest, to_guest_cap};

use crate::sys;

/// Bytes read at once: most frames are small, and a buffer has to be cleared before each read.
const FEW: usize = 2 << 10;
const MANY: usize = 64 << 10;

/// The room that is kept between frames.
const KEPT: usize = 16 << 10;

/// How long an answer is looked for before the kernel is asked to wait for it. Waking a sleeping processor takes
/// longer than most host calls do.
const PATIENCE: Duration = Duration::from_micros(100);

/// Answers that are not looked for after one that took longer, at most.
const LONGEST_REST: u32 = 64;

/// Looking needs a second processor for the one who answers. Asked in the zygote, before the lock.
static MAY_LOOK: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1));

/// To be called before the lock: what must be asked of the machine is asked now.
pub fn prepare() {
    LazyLock::force(&MAY_LOOK);
}

/// Frames on the socket, read within the bounds of their kind.
#[derive(Default)]
pub struct Socket {
    incoming: Vec<u8>,
    expecting: bool,
    rest: u32,
    next_rest: u32,
}

impl Socket {
    /// Sends one frame whole.
    pub fn send(&self, frame: &FromGuest) {
        sys::write_frame(&frame.encode());
    }

    /// The next frame is an answer, which is worth looking for.
    pub fn expect_answer(&mut self) {
        self.expecting = true;
    }

    /// Waits for a frame.
    pub fn receive(&mut self) -> ToGuest {
        loop {
            if let Some(frame) = self.take_frame() {
                return frame;
            }
            self.fill();
        }
    }

    /// Whether there is something to receive within `timeout`.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        !self.incoming.is_empty() || sys::wait_readable(timeout)
    }

    fn take_frame(&mut self) -> Option<ToGuest> {
        let header = self.incoming.first_chunk::<HEADER>()?;
        let Ok(header) = Header::parse(*header, to_guest_cap) else { sys::end(70) };
        let end = HEADER + header.length;
        let Some(body) = self.incoming.get(HEADER..end) else {
            // What is counted as the guest's memory is no more than the frame is long.
            self.incoming.reserve_exact((end + MANY).saturating_sub(self.incoming.len()));
            return None;
        };
        let frame = to_guest(header.kind, body);
        self.incoming.drain(..end);
        if self.incoming.is_empty() && self.incoming.capacity() > KEPT {
            self.incoming = Vec::new();
        }
        Some(frame.unwrap_or_else(|_| sys::end(70)))
    }

    /// Reads what there is, and waits where there is nothing.
    fn fill(&mut self) {
        while !(self.read() || self.look()) {
            sys::wait_readable(None);
        }
        self.expecting = false;
    }

    /// Reads what there is. Whether there was anything.
    fn read(&mut self) -> bool {
        match self.read_up_to::<FEW>() {
            // There may be much more.
            FEW => {
                self.read_up_to::<MANY>();
                true
            }
            count => count > 0,
        }
    }

    fn read_up_to<const SIZE: usize>(&mut self) -> usize {
        let mut buffer = [0; SIZE];
        let count = sys::read_some(&mut buffer).unwrap_or_default();
        self.incoming.extend_from_slice(buffer.get(..count).unwrap_or_default());
        count
    }

    /// Looks for an answer for a moment, where answers came quickly so far.
    fn look(&mut self) -> bool {
        if !std::mem::take(&mut self.expecting) || !*MAY_LOOK {
            return false;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.read() {
                self.next_rest = 1;
                return true;
            }
            // Where both share a processor, the other side goes on at once.
            std::thread::yield_now();
        }
        self.rest = self.next_rest;
        self.next_rest = (self.next_rest * 2).clamp(1, LONGEST_REST);
        false
    }
}
