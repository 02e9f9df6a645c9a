//! A worker's frames as the seam's turns and events.
//!
//! Answers to: the cells of the tiers. Must not: act on an event, or read a frame before its header was found good.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use ringfence_tier::{Event, TierFault, Turn};
use ringfence_types::{TierName, ValueBudget};
use ringfence_wire::{DecodeError, FromGuest, HEADER, Header, Setup, ToGuest, VERSION, from_guest, from_guest_cap};

use crate::lend;
use crate::link::{Gone, Link};

/// The frames of one worker.
#[derive(Debug)]
pub struct Frames {
    tier: TierName,
    link: Link,
    greeted: bool,
}

/// What a frame was.
#[derive(Debug, PartialEq)]
pub enum Taken {
    /// Something for whoever drives the cell.
    Event(Event),
    /// The worker waits until everything before this was seen; [`Frames::synced`] lets it go on.
    Sync,
    /// It was forked so often.
    Branched(u32),
}

impl Frames {
    /// The frames of a fresh worker of this tier. What it must know goes first.
    pub fn new(tier: TierName, socket: UnixStream, setup: &Setup) -> Self {
        let mut link = Link::new(socket);
        link.push(&ToGuest::Setup(setup.clone()).encode());
        Self { tier, link, greeted: false }
    }

    /// The frames of a process that was forked from a worker of this tier, that has said so and waits for leave.
    pub fn of_branch(tier: TierName, socket: UnixStream) -> Self {
        Self { tier, link: Link::new(socket), greeted: true }
    }

    /// Lets a branch begin.
    pub fn let_begin(&mut self) {
        self.synced();
        self.link.send();
    }

    /// Asks the worker to fork; it asks back for the descriptors of each process.
    pub fn ask_to_fork(&mut self, count: u32) {
        self.link.push(&ToGuest::Fork(count).encode());
    }

    /// Gives the worker descriptors, which it waits for.
    pub fn lend(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        lend::lend(self.link.socket(), descriptors)
    }

    /// Goes on by another socket, whose other end the worker was lent. What it said by the one before, and was not taken, is
    /// dropped.
    pub fn move_to(&mut self, socket: UnixStream) {
        self.link = Link::new(socket);
    }

    /// Gives the worker a turn; it goes out while something is waited for.
    pub fn give(&mut self, turn: Turn) {
        let frame = match turn {
            Turn::Feed(source) => ToGuest::Feed(source),
            Turn::Answer(id, result) => ToGuest::Answer(id, result),
            // A worker has no way to run one: a tier that does gives it to something else, by its capabilities.
            Turn::Continue | Turn::Exec(_) => return,
            Turn::Snapshot => ToGuest::Snapshot,
            Turn::Restore(engine, bytes) => ToGuest::Restore(engine, bytes),
            Turn::Files(op) => ToGuest::Files(op),
        };
        self.link.push(&frame.encode());
    }

    /// Lets a worker go on that asked by [`Taken::Sync`].
    pub fn synced(&mut self) {
        self.link.push(&ToGuest::Synced.encode());
    }

    /// Waits until more was read than before.
    pub async fn more(&mut self) -> Result<(), Gone> {
        self.link.more().await
    }

    /// Whether the worker has said that it is ready.
    pub fn has_greeted(&self) -> bool {
        self.greeted
    }

    /// Whether a whole frame was read. One that breaks its form counts: taking it tells.
    pub fn has_one(&self) -> bool {
        let incoming = self.link.incoming();
        incoming.first_chunk::<HEADER>().is_some_and(|header| match Header::parse(*header, from_guest_cap) {
            Ok(header) => incoming.len() >= HEADER + header.length,
            Err(_) => true,
        })
    }

    /// The next whole frame of what was read.
    pub fn take(&mut self) -> Result<Option<Taken>, TierFault> {
        while let Some(header) = self.link.incoming().first_chunk::<HEADER>() {
            let header = Header::parse(*header, from_guest_cap).map_err(|error| self.refused(error))?;
            let end = HEADER + header.length;
            let Some(body) = self.link.incoming().get(HEADER..end) else { break };
            let frame = from_guest(header.kind, body, ValueBudget::DEFAULT).map_err(|error| self.refused(error))?;
            self.link.take(end);
            if let Some(taken) = self.meaning(frame)? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    fn meaning(&mut self, frame: FromGuest) -> Result<Option<Taken>, TierFault> {
        if !self.greeted {
            self.greeted = frame == FromGuest::Ready(VERSION);
            return if self.greeted { Ok(None) } else { Err(self.broke("it did not say that it is ready")) };
        }
        Ok(Some(Taken::Event(match frame {
            FromGuest::Ready(_) => return Err(self.broke("it said twice that it is ready")),
            FromGuest::Sync => return Ok(Some(Taken::Sync)),
            FromGuest::Branched(count) => return Ok(Some(Taken::Branched(count))),
            FromGuest::Call(call) => Event::Call(call),
            FromGuest::Await(ids) => Event::Await(ids),
            FromGuest::Print(stream, bytes) => Event::Print(stream, bytes),
            FromGuest::Shown(bundle) => Event::Shown(bundle),
            FromGuest::Done(value) => Event::Done(value),
            FromGuest::NoValue(why) => Event::NoValue(why),
            FromGuest::Raised(exception) => Event::Raised(exception),
            FromGuest::Limit(kind, reached) => Event::Limit(kind, reached),
            FromGuest::Unsupported(feature, line) => Event::Unsupported(feature, line),
            FromGuest::Snapshotted(bytes) => Event::Snapshotted(bytes),
            FromGuest::Restored => Event::Restored,
            FromGuest::Filed(reply) => Event::Filed(reply),
        })))
    }

    /// The worker broke the protocol.
    pub fn broke(&self, why: &str) -> TierFault {
        TierFault::Protocol { tier: self.tier, why: why.to_owned() }
    }

    fn refused(&self, error: DecodeError) -> TierFault {
        match error {
            DecodeError::TooLong { length, allowed } => TierFault::TooLarge { tier: self.tier, length, allowed },
            other => self.broke(&other.to_string()),
        }
    }
}
