//! One cell: a worker's frames, and a handle on its process.
//!
//! Answers to: `session`, through the trait `Cell`. Must not: believe a length, or block the runtime.
//! INVARIANT: all state of a half-sent or half-read frame is in the cell, so a dropped step loses nothing.

use std::sync::Arc;

use ringfence_tier::{Boxed, Cell, Enforcement, Event, Freezer, Held, Killer, Meter, TierFault, Turn};
use ringfence_types::TierName;
use ringfence_wire::Setup;
use ringfence_worker::{Frames, Gone, Process, Refill, Taken};

use crate::probe;
use crate::zygote::Worker;

const TIER: TierName = TierName::Embedded;

#[derive(Debug)]
pub struct EmbeddedCell {
    frames: Frames,
    process: Arc<Process>,
    enforcement: Enforcement,
    /// The next worker is made when this one is gone.
    _refill: Refill,
}

impl EmbeddedCell {
    /// Takes a worker for one session.
    pub fn open(worker: Worker, refill: Refill, setup: &Setup) -> Self {
        let footprint = worker.footprint();
        let Worker { socket, process, .. } = worker;
        process.idle_at(footprint);
        let frames = Frames::new(TIER, socket, setup);
        Self { frames, process: Arc::new(process), enforcement: probe::enforcement(), _refill: refill }
    }

    async fn next(&mut self, turn: Turn) -> Result<Event, TierFault> {
        if let Turn::Exec(_) = turn {
            return Ok(Event::Unsupported("commands".to_owned(), None));
        }
        self.frames.give(turn);
        loop {
            match self.frames.take()? {
                Some(Taken::Event(event)) => return Ok(event),
                Some(Taken::Branched(_)) => return Err(self.frames.broke("it was not asked to fork")),
                Some(Taken::Sync) => return Err(self.frames.broke("it has no other output to keep in order")),
                None => self.frames.more().await.map_err(|Gone| self.gone())?,
            }
        }
    }

    fn gone(&self) -> TierFault {
        if self.process.is_killed() { TierFault::Killed { tier: TIER } } else { TierFault::Died { tier: TIER } }
    }
}

impl Cell for EmbeddedCell {
    fn step(&mut self, turn: Turn) -> Boxed<'_, Result<Event, TierFault>> {
        Box::pin(self.next(turn))
    }

    fn enforced(&self) -> &Enforcement {
        &self.enforcement
    }

    fn killer(&self) -> Killer {
        let process = Arc::clone(&self.process);
        Killer::new(move || process.kill())
    }

    fn freezer(&self) -> Option<Freezer> {
        let (one, other) = (Arc::clone(&self.process), Arc::clone(&self.process));
        Some(Freezer::new(move || one.stop(), move || other.go_on()))
    }

    fn meter(&self) -> Meter {
        let (cpu, peak) = (Arc::clone(&self.process), Arc::clone(&self.process));
        let now = Arc::clone(&self.process);
        let held = move || Held { memory: now.footprint().resident, processes: 1, io: None };
        Meter::new(move || cpu.cpu(), move || peak.peak()).holding(held)
    }
}

impl Drop for EmbeddedCell {
    fn drop(&mut self) {
        self.process.kill();
    }
}
