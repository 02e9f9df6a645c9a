//! Steps of one session: run, cancel, wait, snapshot, fork, pause, resume, and what a policy file may say.
//!
//! Answers to: `kinds`. Must not: go over a step that it does not know.

use std::time::{Duration, Instant};

use ringfence::Session;
use ringfence_policy::Policy;
use ringfence_session::{SessionError, Target};
use ringfence_types::{LimitKind, Outcome, SessionId, Source, Status};
use serde_json::Value as Json;

use super::python::{open, run};
use crate::case::{Case, Object};
use crate::oracle::texts;
use crate::plain::plain;
use crate::policy::Terms;
use crate::seen::Seen;
use crate::stage::Stage;

struct Steps<'a> {
    stage: &'a Stage,
    terms: Terms,
    session: Session,
    saved: Option<Vec<u8>>,
    lost: bool,
    /// Runs that completed.
    done: usize,
    /// Calls and policies that were refused.
    refused: usize,
    seen: Seen,
}

/// Every step of the case.
pub async fn play(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let mut terms = Terms::of(case);
    if let Some(ttl) = case.input.get("session_ttl_s").and_then(Json::as_f64) {
        terms.idle_ms = (ttl * 1000.0) as u64;
    }
    let tools = case.input.get("policy").and_then(|policy| policy.get("tools"));
    terms.tools.extend(tools.map(texts).unwrap_or_default());
    stage.canaries.forget();
    let session = open(stage, &terms)?;
    let mut steps =
        Steps { stage, terms, session, saved: None, lost: false, done: 0, refused: 0, seen: Seen::default() };
    for step in case.list("steps").iter().filter_map(Json::as_object) {
        if let Some(verdict) = steps.step(step).await? {
            steps.seen.verdicts = vec![verdict];
            break;
        }
    }
    if stage.canaries.connections() > 0 {
        steps.seen.faults.push("a canary's listener was reached".to_owned());
    }
    if steps.seen.verdicts.is_empty() {
        let verdict = match (steps.done, steps.refused) {
            (0, _) => "nothing ran",
            (_, 0) => "ok",
            _ => "deny",
        };
        steps.seen.verdicts.push(verdict.to_owned());
    }
    Ok(steps.seen)
}

impl Steps<'_> {
    /// One step; a verdict ends the case.
    async fn step(&mut self, step: &Object) -> Result<Option<String>, String> {
        let text = |key: &str| step.get(key).and_then(Json::as_str);
        if let Some(code) = text("run") {
            return self.run(code, step).await;
        }
        if step.contains_key("install") {
            return self.install(step).await;
        }
        if step.contains_key("snapshot") || step.contains_key("pause") {
            return self.save(step.contains_key("pause")).await;
        }
        if step.contains_key("resume") && self.saved.is_none() {
            self.session.thaw().map_err(|error| format!("it can't go on: {error}"))?;
        } else if step.contains_key("resume") {
            self.session = self.restored().await?;
        } else if step.contains_key("fork") {
            self.fork(step).await?;
        } else if let Some(seconds) = step.get("wait_s").and_then(Json::as_f64) {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        } else if let Some(name) = text("connect") {
            self.connect(name)?;
        } else if step.contains_key("touch_keeps_alive") {
            self.touch().await?;
        } else if let Some(call) = step.get("call") {
            self.call(&texts(call)).await?;
        } else if let Some(settings) = step.get("load_policy") {
            self.load(settings, text("want").unwrap_or_default())?;
        } else if step.contains_key("self_test") {
            self.probe().await?;
        } else {
            return Err(format!("the suite does not know the step {step:?}"));
        }
        Ok(None)
    }

    fn check(&mut self, holds: bool, what: &str, outcome: &Outcome) {
        if !holds {
            let told = format!("{} {:?} {:?}", outcome.status.as_str(), outcome.value, outcome.exception);
            self.seen.faults.push(format!("{what}: {told} {}", outcome.reason.as_deref().unwrap_or_default()));
        }
    }

    async fn run(&mut self, code: &str, step: &Object) -> Result<Option<String>, String> {
        if let Some(after) = step.get("cancel_after_s").and_then(Json::as_f64) {
            return self.cancel(code, Duration::from_secs_f64(after)).await;
        }
        let (outcome, ..) = run(self.stage, &mut self.session, Source::new(self.stage.canaries.placed(code))).await?;
        let value = outcome.value.as_ref().map_or(Json::Null, plain);
        if outcome.status == Status::Unsupported {
            return Ok(Some("unsupported".to_owned()));
        }
        if let Some(want) = step.get("want_value") {
            self.check(value == *want, "another value", &outcome);
        }
        if let Some(any) = step.get("want_value_any_of").and_then(Json::as_array) {
            let reported_lost =
                self.lost && matches!(outcome.status, Status::Crashed | Status::Killed | Status::Cancelled);
            self.check(any.contains(&value) || reported_lost, "another value", &outcome);
        }
        match step.get("want_error").and_then(Json::as_str) {
            Some("session_expired") => {
                let idle = outcome.limit.is_some_and(|hit| hit.kind == LimitKind::Idle);
                self.check(idle, "not told that the session expired", &outcome);
            }
            Some(other) => return Err(format!("the suite does not know the error `{other}`")),
            None if step.contains_key("want") || step.len() == 1 => {
                self.check(outcome.status == Status::Completed, "did not complete", &outcome);
            }
            None => {}
        }
        self.done += usize::from(outcome.status == Status::Completed);
        self.seen.outcomes.push(outcome);
        Ok(None)
    }

    /// Drops the run after a time. The next run says whether the session survived.
    async fn cancel(&mut self, code: &str, after: Duration) -> Result<Option<String>, String> {
        let started = Instant::now();
        let finished = tokio::time::timeout(after, self.session.run(code)).await;
        let latency = started.elapsed().saturating_sub(after);
        if finished.is_ok() {
            self.seen.faults.push("the run ended before it could be cancelled".to_owned());
        }
        if latency > Duration::from_secs(1) {
            self.seen.faults.push(format!("cancelling took {latency:?}"));
        }
        self.lost = true;
        Ok(None)
    }

    async fn install(&mut self, step: &Object) -> Result<Option<String>, String> {
        let packages = step.get("install").map(texts).unwrap_or_default();
        let names: Vec<&str> = packages.iter().filter_map(|package| package.split("==").next()).collect();
        let mut terms = self.terms.clone();
        terms.packages = names.iter().map(|name| (*name).to_owned()).collect();
        let mut session = open(self.stage, &terms)?;
        let (outcome, ..) = run(self.stage, &mut session, Source::new("1")).await?;
        let told = outcome.reason.clone().unwrap_or_default();
        let wants_refusal = step.get("want").and_then(Json::as_str) == Some("error names the package");
        if outcome.status == Status::Completed && !wants_refusal {
            (self.session, self.terms) = (session, terms);
            return Ok(None);
        }
        let is_named = told.contains("packages") || names.iter().any(|name| told.contains(name));
        let is_refused = outcome.status == Status::Unsupported && is_named;
        self.check(is_refused, "packages are neither there nor refused by name", &outcome);
        // A tier that has packages goes on after one that is missing; one without them is done here.
        Ok((!wants_refusal).then(|| "unsupported".to_owned()))
    }

    async fn save(&mut self, over: bool) -> Result<Option<String>, String> {
        match self.session.snapshot().await {
            Ok(saved) => self.saved = Some(saved),
            // A tier without snapshots may make the session stand still.
            Err(SessionError::Unsupported(_)) if over && self.session.freeze().is_ok() => return Ok(None),
            Err(SessionError::Unsupported(_)) => return Ok(Some("unsupported".to_owned())),
            Err(error) => return Err(format!("no snapshot: {error}")),
        }
        if over {
            self.session = open(self.stage, &self.terms)?;
        }
        Ok(None)
    }

    async fn restored(&self) -> Result<Session, String> {
        let saved = self.saved.as_deref().ok_or("there is no snapshot to go on from")?;
        let tools = self.stage.tools.registry(self.terms.tools.iter().map(String::as_str))?;
        let policy = self.terms.policy(self.stage.tier, &self.stage.data())?;
        let builder = self.stage.engine.session_with(policy).functions(tools);
        builder.restore(saved).await.map_err(|error| format!("the snapshot is not taken up: {error}"))
    }

    async fn fork(&mut self, step: &Object) -> Result<(), String> {
        let code = step.get("each_run").and_then(Json::as_str).unwrap_or_default();
        let mut printed = Vec::new();
        for _ in step.get("fork").map(texts).unwrap_or_default() {
            let mut fork = self.restored().await?;
            printed.push(run(self.stage, &mut fork, Source::new(code)).await?.0.stdout);
        }
        let (first, rest) = printed.split_first().ok_or("a fork of nothing")?;
        let equal = rest.iter().all(|other| other == first);
        if equal != (step.get("want").and_then(Json::as_str) == Some("equal")) {
            self.seen.faults.push(format!("the forks printed {printed:?}"));
        }
        Ok(())
    }

    /// There is no session of this name: nothing is found to act on, which is not how an expired one looks.
    fn connect(&mut self, name: &str) -> Result<(), String> {
        let unknown: SessionId = name.parse().map_err(|error| format!("{error}"))?;
        if self.stage.engine.kill(&Target::Session(unknown), "the suite") != 0 {
            self.seen.faults.push(format!("`{name}` is taken for a session"));
        }
        Ok(())
    }

    /// Runs keep a session alive past the time that would end it unfed.
    async fn touch(&mut self) -> Result<(), String> {
        let mut session = open(self.stage, &self.terms)?;
        let pause = Duration::from_millis(self.terms.idle_ms * 6 / 10);
        for _ in 0..3 {
            let (outcome, ..) = run(self.stage, &mut session, Source::new("1")).await?;
            self.check(outcome.status == Status::Completed, "a session that is fed expired", &outcome);
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    async fn call(&mut self, call: &[String]) -> Result<(), String> {
        let [name, argument] = call else { return Err(format!("the suite does not know the call {call:?}")) };
        let code = self.stage.canaries.placed(&format!("{name}({argument:?})"));
        let (outcome, ..) = run(self.stage, &mut self.session, Source::new(code)).await?;
        // Refused by the policy or by the function: either way an exception that says so, not a name that is missing.
        let kind = outcome.exception.as_ref().map(|exception| exception.kind.as_str());
        let is_refused = outcome.status == Status::Raised && kind == Some("PermissionError");
        self.check(is_refused, "the call was not refused", &outcome);
        self.refused += usize::from(is_refused);
        self.seen.outcomes.push(outcome);
        Ok(())
    }

    /// The settings as limits of a policy file.
    fn load(&mut self, settings: &Json, want: &str) -> Result<(), String> {
        let limits = toml::to_string(settings).map_err(|error| error.to_string())?;
        let policy = Policy::parse(&format!("version = 1\n[limits]\n{limits}"), "guest.toml");
        let right = match (&policy, want) {
            (Err(errors), "reject unknown key") => errors.to_string().contains("max_memory_mb"),
            (Err(_), "reject") => true,
            (Ok(policy), _) => policy.limits() == Policy::closed().limits(),
            (Err(_), _) => false,
        };
        self.refused += usize::from(right && policy.is_err());
        if !right {
            self.seen.faults.push(format!("{settings}: wants `{want}`, got {policy:?}"));
        }
        Ok(())
    }

    /// The tier is really tried, and says what it reaches.
    async fn probe(&mut self) -> Result<(), String> {
        let reports = self.stage.engine.inner().probe().await;
        let report = reports.iter().find(|report| report.tier == self.stage.tier);
        if report.is_none_or(|report| report.probe.strength().is_none()) {
            self.seen.faults.push(format!("the {} tier does not work here: {report:?}", self.stage.tier));
        }
        Ok(())
    }
}
