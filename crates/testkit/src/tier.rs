//! A tier whose cells play a script: what a guest that lies, floods, hangs or dies would send.
//!
//! Answers to: tests of `session`. Must not: make sense of a turn; it plays the next line whatever it is given.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ringfence_policy::Grant;
use ringfence_tier::{
    Boxed, Capabilities, Cell, Enforcement, EngineInfo, Event, InnerLimit, Killer, Meter, Probe, Tier, TierFault, Turn,
};
use ringfence_types::{Engine, LimitKind, Strength, TierName};
use tokio::sync::Notify;

use crate::Trace;

/// One line of a script.
#[derive(Debug, Clone)]
pub enum Reply {
    /// This event, at once.
    Event(Event),
    /// This event, when the turn is an answer; until then the cell says nothing.
    AfterAnswer(Event),
    /// This event, after so much processor time.
    Busy(Duration, Event),
    /// This event, now and at every later turn.
    Forever(Event),
    /// This fault.
    Fault(TierFault),
    /// Nothing, ever.
    Hang,
}

/// A tier that plays one script in each cell of an engine.
pub struct FakeTier {
    capabilities: Capabilities,
    probe: Probe,
    /// Put behind `probe` and `open` in the trace; empty where the test has one tier.
    label: String,
    scripts: Vec<(Option<Engine>, Vec<Reply>)>,
    opening: Option<TierFault>,
    hangs: bool,
    lacks: Vec<String>,
    way_out: Option<TcpListener>,
    trace: Trace,
}

impl FakeTier {
    /// A tier called `embedded` of strength `process`, with an engine that can be snapshotted.
    pub fn new(trace: &Trace, script: Vec<Reply>) -> Self {
        let capabilities = Capabilities {
            engines: vec![EngineInfo { engine: Engine::Monty, version: "0", snapshot: true }],
            workspace: true,
            mounts_ro: true,
            inner_limits: &INNER_LIMITS,
            no_exec: true,
            ..Capabilities::closed(TierName::Embedded, 1, Strength::Process)
        };
        let tier = Self::named(TierName::Embedded, capabilities, trace);
        Self { label: String::new(), ..tier }.playing(None, script)
    }

    /// A tier of this name that can do this. Its cells have nothing to say before they are given a script.
    pub fn named(name: TierName, capabilities: Capabilities, trace: &Trace) -> Self {
        Self {
            probe: Probe::Ready(capabilities.strength),
            capabilities: Capabilities { tier: name, ..capabilities },
            label: format!(" {name}"),
            scripts: Vec::new(),
            opening: None,
            hangs: false,
            lacks: Vec::new(),
            way_out: None,
            trace: trace.clone(),
        }
    }

    /// The same tier, whose cells play this where they are opened for `engine`; `None`: for any that has no script.
    #[must_use]
    pub fn playing(mut self, engine: Option<Engine>, script: Vec<Reply>) -> Self {
        self.scripts.push((engine, script));
        self
    }

    /// The same tier, with this finding of its probe.
    #[must_use]
    pub fn probing(self, probe: Probe) -> Self {
        Self { probe, ..self }
    }

    /// The same tier, which opens no cell.
    #[must_use]
    pub fn failing(self, fault: TierFault) -> Self {
        Self { opening: Some(fault), ..self }
    }

    /// The same tier, which never comes to an end of opening a cell.
    #[must_use]
    pub fn hanging(self) -> Self {
        Self { hangs: true, ..self }
    }

    /// The same tier, without this package.
    #[must_use]
    pub fn lacking(mut self, package: &str) -> Self {
        self.lacks.push(package.to_owned());
        self
    }

    /// The same tier, whose cells all lead out by this listener.
    #[must_use]
    pub fn leading_out(self, way_out: TcpListener) -> Self {
        Self { way_out: Some(way_out), ..self }
    }

    fn script(&self, engine: Option<Engine>) -> VecDeque<Reply> {
        let of = |wanted: Option<Engine>| self.scripts.iter().find(|(engine, _)| *engine == wanted);
        of(engine).or_else(|| of(None)).map(|(_, script)| script.iter().cloned().collect()).unwrap_or_default()
    }
}

/// What a fake cell keeps itself.
const INNER_LIMITS: [InnerLimit; 3] =
    [InnerLimit::fatal(LimitKind::Memory), InnerLimit::fatal(LimitKind::Cpu), InnerLimit::fatal(LimitKind::Size)];

impl Tier for FakeTier {
    fn name(&self) -> TierName {
        self.capabilities.tier
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        if !self.label.is_empty() {
            self.trace.add(format!("probe{}", self.label));
        }
        Box::pin(async { self.probe.clone() })
    }

    fn missing<'a>(&'a self, _: &'a Grant, packages: &'a [&'a str]) -> Boxed<'a, Option<String>> {
        let lacked = packages.iter().find(|package| self.lacks.iter().any(|lacked| lacked == *package));
        let told = lacked.map(|package| format!("package `{package}` is not in the fake interpreter"));
        Box::pin(async { told })
    }

    fn open<'a>(&'a self, _: &'a Grant, engine: Option<Engine>) -> Boxed<'a, Result<Box<dyn Cell>, TierFault>> {
        let engine_label = engine.filter(|_| !self.label.is_empty()).map(|engine| format!(" {}", engine.as_str()));
        self.trace.add(format!("open{}{}", self.label, engine_label.unwrap_or_default()));
        let strength = self.probe.strength().unwrap_or(Strength::Language);
        Box::pin(async move {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            if let Some(fault) = self.opening.clone() {
                return Err(fault);
            }
            let cell = FakeCell {
                tier: self.capabilities.tier,
                script: self.script(engine),
                enforcement: Enforcement { strength, lines: Vec::new() },
                way_out: self.way_out.as_ref().and_then(|listener| listener.try_clone().ok()),
                trace: self.trace.clone(),
                killed: Arc::default(),
                busy: Arc::default(),
            };
            Ok(Box::new(cell) as Box<dyn Cell>)
        })
    }
}

#[derive(Default)]
struct Killed {
    flag: AtomicBool,
    notify: Notify,
}

struct FakeCell {
    tier: TierName,
    script: VecDeque<Reply>,
    enforcement: Enforcement,
    way_out: Option<TcpListener>,
    trace: Trace,
    killed: Arc<Killed>,
    /// Processor time in microseconds.
    busy: Arc<AtomicU64>,
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
            Reply::Busy(time, event) => {
                self.script.pop_front();
                self.busy.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
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
        Turn::Exec(command) => format!("turn exec {}", command.program()),
        Turn::Continue => return None,
    })
}

impl Cell for FakeCell {
    fn step(&mut self, turn: Turn) -> Boxed<'_, Result<Event, TierFault>> {
        if let Some(name) = name(&turn) {
            self.trace.add(name);
        }
        if self.killed.flag.load(Ordering::SeqCst) {
            let tier = self.tier;
            return Box::pin(async move { Err(TierFault::Killed { tier }) });
        }
        if let Some(reply) = self.next(&turn) {
            return Box::pin(async { reply });
        }
        let (killed, tier) = (Arc::clone(&self.killed), self.tier);
        Box::pin(async move {
            while !killed.flag.load(Ordering::SeqCst) {
                killed.notify.notified().await;
            }
            Err(TierFault::Killed { tier })
        })
    }

    fn way_out(&mut self, _: String) -> Boxed<'_, Result<Option<TcpListener>, TierFault>> {
        let way_out = self.way_out.take();
        Box::pin(async { Ok(way_out) })
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
        let busy = Arc::clone(&self.busy);
        Meter::new(move || Duration::from_micros(busy.load(Ordering::SeqCst)), || 0)
    }
}

impl Drop for FakeCell {
    fn drop(&mut self) {
        self.trace.add("drop");
    }
}
