//! Driving a cell through one run: turns down, events up, host calls through the bridge.
//!
//! Answers to: `run`. Must not: trust an event, or wait for the guest without looking at the clock.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use ringfence_analysis::{Fit, fit};
use ringfence_audit::Event as Record;
use ringfence_audit::event::TierMoved;
use ringfence_bridge::{Answered, BridgeFault};
use ringfence_tier::{Event, TierFault, Turn};
use ringfence_types::{
    Call, CallId, Engine, GuestError, LimitHit, LimitKind, MimeBundle, MonitorAction, Source, Status, Stream, Value,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::choose::Candidate;
use crate::deadline::Deadline;
use crate::error::{RunError, SessionError};
use crate::kill::Killing;
use crate::monitor::{self, Guard};
use crate::replay::{Diverged, Replay};
use crate::run::{End, Place, Run, Watch, Work, limit_text, plain};
use crate::sample::Sampler;

/// One run's driver.
pub(crate) struct Drive<'r, 'a> {
    run: &'r mut Run<'a>,
    pause_at: Option<&'r str>,
    watch: &'r mut dyn Watch,
    pending: FuturesUnordered<BoxFuture<'static, Result<Answered, BridgeFault>>>,
    outstanding: HashMap<CallId, Call>,
    waiting: Vec<CallId>,
    replay: Replay,
    pausing: Option<Call>,
    /// A command runs, not a program.
    command: bool,
    sampler: Option<Sampler>,
    guard: Option<Guard>,
    ice: watch::Receiver<bool>,
}

/// What happened first.
enum Step {
    Event(Event),
    Answered(Answered),
    Struck(LimitHit),
    Killed,
    Look,
}

enum Next {
    Turn(Turn),
    End(End),
}

/// Why a session does not go on in another cell.
enum Halt {
    Log(RunError),
    /// The other cell can't be opened, or can't be brought to the same place.
    Lost,
    /// A kill or a limit struck on the way.
    End(End),
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Self {
        Self::Log(error)
    }
}

impl<'r, 'a> Drive<'r, 'a> {
    pub fn new(run: &'r mut Run<'a>, pause_at: Option<&'r str>, watch: &'r mut dyn Watch) -> Self {
        let ice = run.session.ice.changes();
        Self {
            run,
            ice,
            pause_at,
            watch,
            pending: FuturesUnordered::new(),
            outstanding: HashMap::new(),
            waiting: Vec::new(),
            replay: Replay::default(),
            pausing: None,
            command: false,
            sampler: None,
            guard: None,
        }
    }

    /// Feeds the snippet, runs the command, or takes up the state that is waiting, and goes on to the end.
    pub async fn go(mut self, work: Work) -> Result<End, RunError> {
        if let Some(open) = &self.run.session.open {
            let limits = self.run.session.grant.limits();
            let deadline = Deadline::start(limits, &open.meter, self.run.session.lifetime_end(), &self.run.session.ice);
            let sample = self.run.session.grant.sample();
            self.sampler = Some(Sampler::start(Instant::now(), sample, deadline.cpu_before()));
            self.guard = Guard::start(Instant::now(), self.run.session.grant.monitor(), deadline.cpu_before());
            self.run.deadline = Some(deadline);
        }
        let first = match work {
            Work::Feed(source) => {
                if let Some(end) = self.move_before().await? {
                    return Ok(end);
                }
                let session = &mut *self.run.session;
                // Where there is nowhere to move, nothing need be remembered.
                if session.choice.candidates.len() < 2 {
                    session.history.give_up();
                }
                session.history.begin(&source);
                self.feed(source)
            }
            Work::Exec(command) => {
                // It is done once, here: what it changes can't be repeated elsewhere.
                self.run.session.history.give_up();
                self.command = true;
                Turn::Exec(command)
            }
            Work::Resume => match self.run.session.restoring.take() {
                Some((engine, state)) => Turn::Restore(engine, state),
                None => return Ok(End::Denied("there is no run to go on with".to_owned())),
            },
        };
        let end = self.until_end(first).await?;
        self.move_on(end).await
    }

    fn feed(&self, mut source: Source) -> Turn {
        source.engine = self.run.session.open.as_ref().and_then(|open| open.engine);
        Turn::Feed(source)
    }

    /// Why this snippet of a session needs another engine than the one it is in.
    fn outgrown(&self) -> Option<String> {
        let engine = self.run.session.open.as_ref()?.engine?;
        match fit(self.run.program.as_ref()?, engine) {
            Fit::Right => None,
            Fit::Unsupported { feature, line } => Some(format!("line {line} needs {feature}")),
            Fit::Doubtful { why } => Some(why),
        }
    }

    /// Where the program can go on, tried. The time it takes is the host's.
    async fn next(&mut self, same_tier: bool) -> Option<usize> {
        let Run { session, deadline, program, .. } = &mut *self.run;
        if let Some(deadline) = deadline.as_mut() {
            deadline.hold();
        }
        let next = session.choice.next(&session.grant, program.as_ref(), same_tier);
        let next = session.switch.unless_pulled(next).await.flatten();
        if let Some(deadline) = deadline.as_mut() {
            deadline.go_on();
        }
        next
    }

    /// Moves the session to another cell before a snippet that needs it. Gives the run's end where that can't be.
    async fn move_before(&mut self) -> Result<Option<End>, RunError> {
        let Some(why) = self.outgrown() else { return Ok(None) };
        let Some(at) = self.next(false).await else { return Ok(None) };
        let session = &mut *self.run.session;
        if !session.history.is_whole() {
            return Ok(session.choice.candidates.get(at).map(|next| End::Unsupported(cant_move(next))));
        }
        let past = session.history.replays();
        let Some(next) = session.choice.advance(at) else { return Ok(None) };
        match self.transfer(&next, why.clone(), past).await {
            Ok(()) => {
                self.arrived(&next, &why);
                Ok(None)
            }
            Err(Halt::Log(error)) => Err(error),
            Err(Halt::End(end)) => Ok(Some(end)),
            Err(Halt::Lost) => {
                self.run.session.end(Status::Crashed, None, cant_move(&next));
                Ok(Some(End::Unsupported(cant_move(&next))))
            }
        }
    }

    /// From here on the results are the other cell's.
    fn arrived(&mut self, at: &Candidate, why: &str) {
        if let Some(from) = self.run.place {
            self.run.session.choice.moved(from.tier, at, why);
        }
        self.run.place = self.run.session.open.as_ref().map(Place::of);
    }

    /// Opens a cell of another engine or tier and repeats what the session did so far.
    async fn transfer(&mut self, next: &Candidate, why: String, past: Vec<(Source, Replay)>) -> Result<(), Halt> {
        let engine = |engine: Option<Engine>| engine.map(|engine| engine.as_str().to_owned());
        let (from, from_engine) =
            self.run.session.open.as_ref().map_or((next.tier.name(), None), |open| (open.tier, open.engine));
        let (from_engine, to, to_engine) = (engine(from_engine), next.tier.name(), engine(next.engine));
        self.run.record(Record::TierMoved(TierMoved { from, to, from_engine, to_engine, why }))?;
        if let Some(deadline) = &mut self.run.deadline {
            deadline.leave();
            deadline.hold();
        }
        match self.run.session.open(next).await {
            Ok(()) => {}
            Err(SessionError::Audit(error)) => return Err(RunError::from(error).into()),
            Err(_) if self.run.session.switch.is_killed() => return Err(Halt::End(self.run.killed())),
            Err(_) => return Err(Halt::Lost),
        }
        if let (Some(deadline), Some(open)) = (&mut self.run.deadline, &self.run.session.open) {
            deadline.moved(&open.meter);
            deadline.go_on();
        }
        for (source, replay) in past {
            self.repeat(source, replay).await?;
        }
        Ok(())
    }

    async fn until_end(&mut self, first: Turn) -> Result<End, RunError> {
        let mut turn = first;
        loop {
            self.sample()?;
            let step = match self.step(turn).await? {
                Ok(step) => step,
                Err(fault) => return Ok(self.fault(fault)),
            };
            let next = match step {
                Step::Event(event) => self.react(event)?,
                Step::Answered((id, result)) => self.answer(id, result),
                Step::Struck(hit) => Next::End(End::Limited(hit)),
                Step::Killed => Next::End(self.run.killed()),
                Step::Look => Next::Turn(Turn::Continue),
            };
            match next {
                Next::Turn(next) => turn = next,
                Next::End(end) => {
                    self.forget();
                    return Ok(end);
                }
            }
        }
    }

    /// Records what the cell uses, where that is due.
    fn sample(&mut self) -> Result<(), RunError> {
        let open = self.run.session.open.as_ref();
        let found =
            self.sampler.as_mut().zip(open).and_then(|(sampler, open)| sampler.look(Instant::now(), &open.meter));
        found.map_or(Ok(()), |found| self.run.record(Record::Sampled(found)))?;
        self.guard()
    }

    /// Records the thresholds that are crossed, and ends the session where the policy says so.
    fn guard(&mut self) -> Result<(), RunError> {
        let open = self.run.session.open.as_ref();
        let crossed = self.guard.as_mut().zip(open).map(|(guard, open)| guard.look(Instant::now(), &open.meter));
        for crossed in crossed.unwrap_or_default() {
            self.run.record(Record::ThresholdCrossed(crossed))?;
            self.watch.crossed(&crossed);
            let session = &*self.run.session;
            session.engine.0.table.crossed(session.id(), crossed.measure);
            if crossed.action == MonitorAction::Kill {
                let reason = Some(monitor::text(&crossed));
                session.switch.kill(Killing { by: "the monitor".to_owned(), reason });
                break;
            }
        }
        Ok(())
    }

    /// Calls that are still under way are given up, each with its record.
    fn forget(&mut self) {
        self.pending.clear();
        self.outstanding.clear();
        self.waiting.clear();
    }

    /// Waits for whatever comes first: the cell, an answer, the clock, the kill switch.
    async fn step(&mut self, turn: Turn) -> Result<Result<Step, TierFault>, RunError> {
        let Run { session, deadline, .. } = &mut *self.run;
        let (Some(open), Some(deadline)) = (session.open.as_mut(), deadline.as_mut()) else {
            return Ok(Ok(Step::Killed));
        };
        let look = match deadline.look() {
            Ok(look) => look,
            Err(hit) => return Ok(Ok(Step::Struck(hit))),
        };
        let (sample, guard) =
            (self.sampler.as_ref().and_then(Sampler::next), self.guard.as_ref().and_then(Guard::next));
        let look = [sample, guard].into_iter().flatten().fold(look, Instant::min);
        // The cell is polled first, so that the turn is on its way whatever else happens.
        tokio::select! {
            biased;
            event = open.cell.step(turn) => Ok(event.map(Step::Event)),
            Some(answered) = self.pending.next(), if !self.pending.is_empty() => Ok(Ok(Step::Answered(answered?))),
            () = session.switch.pulled() => Ok(Ok(Step::Killed)),
            // The clocks are others from now on.
            Ok(()) = self.ice.changed() => Ok(Ok(Step::Look)),
            () = tokio::time::sleep_until(look) => Ok(Ok(Step::Look)),
        }
    }

    fn react(&mut self, event: Event) -> Result<Next, RunError> {
        if !matches!(event, Event::Await(_)) {
            self.guest_goes_on();
        }
        Ok(match event {
            Event::Exited(code) if self.command => Next::End(End::Exited(code)),
            Event::Unsupported(why, _) if self.command => Next::End(End::Unsupported(plain(&why))),
            Event::Print(stream, bytes) => self.print(stream, &bytes),
            Event::Limit(kind, reached) => Next::End(self.inner_limit(kind, reached)),
            _ if self.command => Next::End(broke("it answered a command with something else")),
            Event::Call(call) => self.call(call)?,
            Event::Await(ids) => self.waits(ids),
            Event::Shown(bundle) => self.show(bundle),
            Event::Done(value) => Next::End(self.done(value)),
            Event::NoValue(why) => Next::End(End::NoValue(why)),
            Event::Raised(exception) => Next::End(End::Raised(exception)),
            Event::Unsupported(feature, line) => Next::End(End::Unsupported(unsupported(&feature, line))),
            Event::Snapshotted(state) => Next::End(self.paused(&state)?),
            Event::Restored | Event::Filed(_) | Event::Exited(_) => Next::End(broke("it answered what was not asked")),
        })
    }

    fn guest_goes_on(&mut self) {
        self.waiting.clear();
        if let Some(deadline) = &mut self.run.deadline {
            deadline.go_on();
        }
    }

    fn waits(&mut self, ids: Vec<CallId>) -> Next {
        if ids.is_empty() || ids.iter().any(|id| !self.outstanding.contains_key(id)) {
            // An answer may have crossed the question; a guest that waits for nothing has its clock running.
            return Next::Turn(Turn::Continue);
        }
        self.waiting = ids;
        if let Some(deadline) = &mut self.run.deadline {
            deadline.pause();
        }
        Next::Turn(Turn::Continue)
    }

    fn call(&mut self, call: Call) -> Result<Next, RunError> {
        if self.outstanding.contains_key(&call.id) {
            return Ok(Next::End(broke("it used the number of a call twice")));
        }
        self.run.calls += 1;
        let allowed = self.run.session.grant.limits().host_calls;
        if self.run.calls > allowed {
            let hit = LimitHit { kind: LimitKind::HostCalls, allowed: allowed.into(), reached: self.run.calls.into() };
            return Ok(Next::End(End::Limited(hit)));
        }
        match self.replay.answer(&call) {
            Ok(Some(result)) => {
                self.run.session.history.answered(&call, &result);
                return Ok(Next::Turn(Turn::Answer(call.id, result)));
            }
            Ok(None) => {}
            Err(Diverged) => return Ok(Next::End(diverged())),
        }
        if self.pause_at == Some(call.function.as_str()) {
            self.pausing = Some(call);
            return Ok(Next::Turn(Turn::Snapshot));
        }
        let deferred = call.deferred;
        if !deferred {
            self.waiting = vec![call.id];
            if let Some(deadline) = &mut self.run.deadline {
                deadline.pause();
            }
        }
        self.ask(call);
        if deferred {
            return Ok(Next::Turn(Turn::Continue));
        }
        // Many host functions answer at once: then the guest has its answer before anything else is waited for.
        match self.pending.next().now_or_never().flatten() {
            Some(answered) => {
                let (id, result) = answered?;
                Ok(self.answer(id, result))
            }
            None => Ok(Next::Turn(Turn::Continue)),
        }
    }

    fn ask(&mut self, call: Call) {
        let (bridge, scope) = (Arc::clone(&self.run.session.bridge), self.run.scope.clone());
        let (table, session) = (self.run.session.engine.0.table.clone(), self.run.session.grant.session().clone());
        self.outstanding.insert(call.id, call.clone());
        self.pending.push(
            async move {
                let function = call.function.clone();
                table.enter_call(&session, &function);
                let answered = bridge.call(&scope, call).await;
                table.leave_call(&session, &function);
                answered
            }
            .boxed(),
        );
    }

    fn answer(&mut self, id: CallId, result: Result<Value, GuestError>) -> Next {
        if let Some(call) = self.outstanding.remove(&id) {
            self.run.session.history.answered(&call, &result);
        }
        if self.waiting.contains(&id) {
            self.guest_goes_on();
        }
        Next::Turn(Turn::Answer(id, result))
    }

    fn print(&mut self, stream: Stream, bytes: &[u8]) -> Next {
        self.run.session.history.printed(stream, bytes);
        let Ok(new) = self.replay.printed(stream, bytes) else { return Next::End(diverged()) };
        let visible = self.run.output.take(stream, new);
        if !visible.is_empty() {
            self.watch.output(stream, visible);
        }
        self.unless_it_floods()
    }

    fn show(&mut self, bundle: MimeBundle) -> Next {
        self.run.output.show(&bundle);
        self.watch.shown(&bundle);
        self.run.shown.push(bundle);
        self.unless_it_floods()
    }

    fn unless_it_floods(&self) -> Next {
        if !self.run.output.floods() {
            return Next::Turn(Turn::Continue);
        }
        let allowed = self.run.session.grant.limits().output.bytes();
        let reached = self.run.output.reached();
        Next::End(End::Limited(LimitHit { kind: LimitKind::Output, allowed, reached }))
    }

    /// The value counts as output.
    fn done(&self, value: Value) -> End {
        let (allowed, reached) = (self.run.session.grant.limits().output.bytes(), ringfence_bridge::weigh(&value));
        if reached > allowed {
            return End::Limited(LimitHit { kind: LimitKind::Output, allowed, reached });
        }
        End::Done(value)
    }

    /// A limit that the worker names. It can only speak of what its tier says that its cells keep.
    fn inner_limit(&self, kind: LimitKind, reached: u64) -> End {
        match self.run.session.inner_limit(kind, reached) {
            Some((hit, true)) => End::Limited(hit),
            Some((hit, false)) => End::Refused(hit, limit_text(&hit)),
            None => broke("it named a limit that it does not keep"),
        }
    }

    fn paused(&mut self, state: &[u8]) -> Result<End, RunError> {
        let engine = self.run.session.open.as_ref().and_then(|open| open.engine);
        let (Some(call), Some(engine)) = (self.pausing.take(), engine) else {
            return Ok(broke("it sent a snapshot that was not asked for"));
        };
        let sealed = self.run.session.sealed(engine, true, state)?;
        Ok(End::Paused(call, sealed))
    }

    fn fault(&mut self, fault: TierFault) -> End {
        self.forget();
        if self.run.session.switch.is_killed() {
            return self.run.killed();
        }
        match fault {
            TierFault::TooLarge { length, allowed, .. } => {
                let (allowed, reached) = (allowed as u64, length as u64);
                End::Limited(LimitHit { kind: LimitKind::Size, allowed, reached })
            }
            fault => End::Crashed(format!("{fault}; the session is lost, open a new one")),
        }
    }

    /// What one engine can't do, or does in its own way, another may: the run is done again there, with the recorded
    /// answers, where it does the same things. Otherwise the first engine's end stands. What raised is asked of another
    /// engine of the same tier only: another tier is no judge of it, and has other files and packages.
    async fn move_on(mut self, mut end: End) -> Result<End, RunError> {
        loop {
            let same_tier = match &end {
                End::Unsupported(_) => false,
                End::Raised(_) => true,
                _ => return Ok(end),
            };
            if !self.run.session.history.is_whole() {
                return Ok(end);
            }
            let Some(at) = self.next(same_tier).await else { return Ok(end) };
            let Some(next) = self.run.session.choice.advance(at) else { return Ok(end) };
            let why = match &end {
                End::Unsupported(why) => why.clone(),
                _ => format!("the program raised, and {} is asked whether it should", called(&next)),
            };
            end = match self.again(&next, why).await {
                Ok(second) => second,
                Err(Halt::Log(error)) => return Err(error),
                Err(Halt::End(struck)) => return Ok(struck),
                Err(Halt::Lost) => {
                    // The state that the first engine left is gone; what it said of this run stays true.
                    self.run.session.end(Status::Crashed, None, cant_move(&next));
                    return Ok(end);
                }
            };
        }
    }

    /// Brings another cell to the same place and goes on there.
    async fn again(&mut self, next: &Candidate, why: String) -> Result<End, Halt> {
        let mut past = self.run.session.history.replays();
        let Some((source, replay)) = past.pop() else { return Err(Halt::Lost) };
        self.transfer(next, why.clone(), past).await?;
        self.run.session.history.restart();
        let calls = std::mem::take(&mut self.run.calls);
        self.replay = replay;
        let feed = self.feed(source);
        let end = self.until_end(feed).await?;
        let finished = matches!(end, End::Done(_) | End::NoValue(_) | End::Raised(_) | End::Unsupported(_));
        if end == diverged() || (finished && !self.replay.is_over()) {
            self.run.calls = calls;
            return Err(Halt::Lost);
        }
        self.arrived(next, &why);
        Ok(end)
    }

    /// Repeats an earlier snippet, whose outcome the caller has long had.
    async fn repeat(&mut self, source: Source, mut replay: Replay) -> Result<(), Halt> {
        let mut turn = self.feed(source);
        loop {
            let step = match self.step(turn).await? {
                Ok(step) => step,
                Err(_) if self.run.session.switch.is_killed() => return Err(Halt::End(self.run.killed())),
                Err(_) => return Err(Halt::Lost),
            };
            turn = match step {
                Step::Event(Event::Call(call)) => match replay.answer(&call) {
                    Ok(Some(result)) => Turn::Answer(call.id, result),
                    _ => return Err(Halt::Lost),
                },
                Step::Event(Event::Print(stream, bytes)) => match replay.printed(stream, &bytes) {
                    Ok([]) => Turn::Continue,
                    _ => return Err(Halt::Lost),
                },
                Step::Event(Event::Await(_) | Event::Shown(_)) | Step::Look => Turn::Continue,
                Step::Event(Event::Done(_) | Event::NoValue(_) | Event::Raised(_)) if replay.is_over() => return Ok(()),
                Step::Event(Event::Limit(kind, reached)) => return Err(Halt::End(self.lost_to(kind, reached))),
                Step::Struck(hit) => return Err(Halt::End(End::Limited(hit))),
                Step::Killed => return Err(Halt::End(self.run.killed())),
                Step::Event(
                    Event::Done(_)
                    | Event::NoValue(_)
                    | Event::Raised(_)
                    | Event::Unsupported(..)
                    | Event::Snapshotted(_)
                    | Event::Restored
                    | Event::Filed(_)
                    | Event::Exited(_),
                )
                | Step::Answered(_) => return Err(Halt::Lost),
            };
        }
    }

    /// A limit in the middle of a repetition: half of the past is no place to go on from, whatever the cell outlives.
    fn lost_to(&self, kind: LimitKind, reached: u64) -> End {
        match self.inner_limit(kind, reached) {
            End::Refused(hit, _) => End::Limited(hit),
            end => end,
        }
    }
}

/// What a candidate is called in a message.
fn called(candidate: &Candidate) -> String {
    match candidate.engine {
        Some(engine) => format!("engine `{}`", engine.as_str()),
        None => format!("the `{}` tier", candidate.tier.name()),
    }
}

fn cant_move(next: &Candidate) -> String {
    let (what, remedy) = match next.engine {
        Some(engine) => (format!("the engine `{}`", engine.as_str()), "open the session with that engine"),
        None => (called(next), "open a session whose policy names that tier alone in `[isolation] tiers`"),
    };
    format!("this needs {what}, and what the session did so far can't be repeated there; {remedy}")
}

fn unsupported(feature: &str, line: Option<u32>) -> String {
    let feature = plain(feature);
    match line {
        Some(line) => format!("line {line} needs {feature}, which the engine does not have"),
        None => format!("the program needs {feature}, which the engine does not have"),
    }
}

fn broke(why: &str) -> End {
    End::Crashed(format!("the worker broke the protocol: {why}; the session is lost, open a new one"))
}

fn diverged() -> End {
    End::Crashed("the run went another way when it was repeated".to_owned())
}
