//! A tier whose cells play a script: what a guest that lies, floods, hangs or dies would send.
//!
//! Answers to: tests of `session`. Must not: make sense of a turn; it plays the next line whatever it is given.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_policy::Grant;
use ringfence_tier::{
    Boxed, Capabilities, Cell, Enforcement, EngineInfo, Event, Killer, Meter, Probe, Tier, TierFault, Turn,
};
use ringfence_types::{Engine, Strength, TierName};
use tokio::sync::Notify;

use crate::Trace;

/// One line of a script.
#[derive(Debug, Clone)]
pub enum Reply {
    /// This event, at once.
    Event(Event),
    /// This event, when the turn is an answer; until then the cell says nothing.
    AfterAnswer(Event),
    /// This event, now and at every later turn.
    Forever(Event),
    /// This fault.
    Fault(TierFault),
    /// Nothing, ever.
    Hang,
}

/// A tier that plays one script in each of its cells.
pub struct FakeTier {
    capabilities: Capabilities,
    probe: Probe,
    script: Vec<Reply>,
    trace: Trace,
}

impl FakeTier {
    /// A tier called `embedded` of strength `process`, with an engine that can be snapshotted.
    pub fn new(trace: &Trace, script: Vec<Reply>) -> Self {
        let engines = vec![EngineInfo { engine: Engine::Monty, version: "0", snapshot: true }];
        let capabilities = Capabilities {
            tier: TierName::Embedded,
            cost: 1,
            strength: Strength::Process,
            engines,
            workspace: true,
            mounts_ro: true,
            mounts_rw: false,
            network: false,
            packages: false,
        };
        Self { capabilities, probe: Probe::Ready(Strength::Process), script, trace: trace.clone() }
    }

    /// The same tier, with this finding of its probe.
    #[must_use]
    pub fn probing(self, probe: Probe) -> Self {
        Self { probe, ..self }
    }
}

impl Tier for FakeTier {
    fn name(&self) -> TierName {
        self.capabilities.tier
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async { self.probe.clone() })
    }

    fn open<'a>(&'a self, _: &'a Grant, _: Option<Engine>) -> Boxed<'a, Result<Box<dyn Cell>, TierFault>> {
        self.trace.add("open");
        let strength = self.probe.strength().unwrap_or(Strength::Language);
        let cell = FakeCell {
            script: self.script.iter().cloned().collect(),
            enforcement: Enforcement { strength, lines: Vec::new() },
            trace: self.trace.clone(),
            killed: Arc::default(),
        };
        Box::pin(async { Ok(Box::new(cell) as Box<dyn Cell>) })
    }
}

#[derive(Default)]
struct Killed {
    flag: AtomicBool,
    notify: Notify,
}

struct FakeCell {
    script: VecDeque<Reply>,
    enforcement: Enforcement,
    trace: Trace,
    killed: Arc<Killed>,
}

impl FakeCell {
    fn next(&mut self, turn: &Turn) -> Option<Result<Event, TierFault>> {
        let answer = matches!(turn, Turn::Answer(..));
        match self.script.front()?.clone() {
            Reply::Hang => None,
            Reply::AfterAnswer(_) if !answer => None,
            Reply::Forever(event) => Some(Ok(event)),
            Reply::Event(event) | Reply::AfterAnswer(event) => {
                self.script.pop_front();
                Some(Ok(event))
            }
            Reply::Fault(fault) => {
                self.script.pop_front();
                Some(Err(fault))
            }
        }
    }
}

/// What a turn is called in the trace.
fn name(turn: &Turn) -> Option<String> {
    Some(match turn {
        Turn::Feed(_) => "turn feed".to_owned(),
        Turn::Answer(id, Ok(_)) => format!("turn answer {}", id.0),
        Turn::Answer(id, Err(error)) => format!("turn refusal {} {}", id.0, error.exception),
        Turn::Snapshot => "turn snapshot".to_owned(),
        Turn::Restore(..) => "turn restore".to_owned(),
        Turn::Files(_) => "turn files".to_owned(),
        Turn::Continue => return None,
    })
}

impl Cell for FakeCell {
    fn step(&mut self, turn: Turn) -> Boxed<'_, Result<Event, TierFault>> {
        if let Some(name) = name(&turn) {
            self.trace.add(name);
        }
        if self.killed.flag.load(Ordering::SeqCst) {
            return Box::pin(async { Err(TierFault::Killed { tier: TierName::Embedded }) });
        }
        if let Some(reply) = self.next(&turn) {
            return Box::pin(async { reply });
        }
        let killed = Arc::clone(&self.killed);
        Box::pin(async move {
            while !killed.flag.load(Ordering::SeqCst) {
                killed.notify.notified().await;
            }
            Err(TierFault::Killed { tier: TierName::Embedded })
        })
    }

    fn enforced(&self) -> &Enforcement {
        &self.enforcement
    }

    fn killer(&self) -> Killer {
        let killed = Arc::clone(&self.killed);
        Killer::new(move || {
            killed.flag.store(true, Ordering::SeqCst);
            killed.notify.notify_one();
        })
    }

    fn meter(&self) -> Meter {
        Meter::new(|| Duration::ZERO, || 0)
    }
}

impl Drop for FakeCell {
    fn drop(&mut self) {
        self.trace.add("drop");
    }
}
