//! Choosing a tier: among the allowed and ready ones at or above the floor, the cheapest that can run the program.
//!
//! Answers to: `session`, and `explain`. Must not: fall back to anything weaker than the policy's floor, or try a tier
//! that nobody needs: a probe takes its time.

use std::collections::BTreeSet;
use std::sync::Arc;

use ringfence_analysis::{Fit, Program, fit};
use ringfence_policy::{Grant, Needs};
use ringfence_tier::{Capabilities, Probe, Tier};
use ringfence_types::{Considered, Engine, FileOp, TierName};

use crate::brought;

/// A tier, and the engine in it, that can run a program under a grant.
#[derive(Clone)]
pub struct Candidate {
    /// The tier.
    pub tier: Arc<dyn Tier>,
    /// The engine, where the tier has several.
    pub engine: Option<Engine>,
    /// Whether the tier was found to work here, with all that the program needs.
    tried: bool,
}

/// What was looked at, and what can be taken, best first.
#[derive(Clone, Default)]
pub struct Choice {
    /// Every tier that the policy names, with the reason.
    pub considered: Vec<Considered>,
    /// The first is in use; the others are where a program may move.
    pub(crate) candidates: Vec<Candidate>,
    /// Modules that the caller brings himself.
    brought: BTreeSet<String>,
}

/// What a tier is wanted for.
#[derive(Clone, Copy)]
pub struct Wish<'a> {
    /// What was granted.
    pub grant: &'a Grant,
    /// What is to run, where that is known.
    pub program: Option<&'a Program>,
    /// The engine that the caller insists on.
    pub engine: Option<Engine>,
    /// A command is to run, which is no Python.
    pub command: bool,
    /// Files that are put into the session before anything runs.
    pub staged: &'a [FileOp],
}

/// How far to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Up to the first tier that fits: nothing dearer is tried.
    FirstFit,
    /// At every tier.
    All,
}

/// Looks at the tiers, cheapest first.
pub async fn choose(tiers: &[Arc<dyn Tier>], wish: Wish<'_>, reach: Reach) -> Choice {
    let mut by_cost: Vec<&Arc<dyn Tier>> = tiers.iter().collect();
    by_cost.sort_by_key(|tier| tier.capabilities().cost);
    let brought = brought::modules(wish.grant, wish.staged);
    let mut choice = Choice { brought, ..Choice::default() };
    let mut taken = None;
    for tier in by_cost {
        let (engines, why) = match declared(tier.as_ref(), wish) {
            Ok(found) => found,
            Err(why) => {
                choice.considered.push(Considered { tier: tier.name(), fit: false, why });
                continue;
            }
        };
        let one = |tried| move |engine| Candidate { tier: Arc::clone(tier), engine, tried };
        if let Some(first) = taken.filter(|_| reach == Reach::FirstFit) {
            choice.candidates.extend(engines.into_iter().map(one(false)));
            let why = format!("{why}; not tried, since the cheaper `{first}` fits");
            choice.considered.push(Considered { tier: tier.name(), fit: false, why });
            continue;
        }
        let (fit, why) = match tried(tier.as_ref(), wish, &choice.brought).await {
            Ok(degraded) => {
                choice.candidates.extend(engines.into_iter().map(one(true)));
                taken.get_or_insert(tier.name());
                (true, format!("{why}{degraded}"))
            }
            Err(why) => (false, why),
        };
        choice.considered.push(Considered { tier: tier.name(), fit, why });
    }
    let present = |name: &TierName| tiers.iter().any(|tier| tier.name() == *name);
    for tier in wish.grant.tiers().iter().copied().filter(|name| !present(name)) {
        choice.considered.push(Considered { tier, fit: false, why: "not in this build".to_owned() });
    }
    choice
}

impl Choice {
    /// Where `program` can go on after the candidate in use, in `same_tier` only where that is asked. Tries what was
    /// not tried yet.
    pub async fn next(&self, grant: &Grant, program: Option<&Program>, same_tier: bool) -> Option<usize> {
        let current = self.candidates.first()?.tier.name();
        for (at, candidate) in self.candidates.iter().enumerate().skip(1) {
            let suits = |engine| program.is_none_or(|program| fit(program, engine) == Fit::Right);
            if (same_tier && candidate.tier.name() != current) || !candidate.engine.is_none_or(suits) {
                continue;
            }
            // A session that ran a command does not move.
            let wish = Wish { grant, program, engine: candidate.engine, command: false, staged: &[] };
            if candidate.tried || tried(candidate.tier.as_ref(), wish, &self.brought).await.is_ok() {
                return Some(at);
            }
        }
        None
    }

    /// Gives up the candidates before this one, which is in use from now on.
    pub fn advance(&mut self, at: usize) -> Option<Candidate> {
        self.candidates.drain(..at.min(self.candidates.len()));
        self.candidates.first().cloned()
    }

    /// Tells that the program went on there: the row of the tier that gave the result names it, and why.
    pub(crate) fn moved(&mut self, from: TierName, to: &Candidate, why: &str) {
        let tier = to.tier.name();
        let here = match to.engine {
            Some(engine) => format!("engine `{}`, to which the program moved", engine.as_str()),
            None => "the program moved here".to_owned(),
        };
        for row in &mut self.considered {
            if row.tier == tier {
                let first = row.why.split("; not tried, since").next().unwrap_or_default();
                let first = if from == tier { format!("first: {first}") } else { first.to_owned() };
                row.why = format!("{here}: {why}; {first}");
                row.fit = true;
            } else if row.tier == from {
                row.why = format!("the program moved on to `{tier}`; first: {}", row.why);
                row.fit = false;
            }
        }
    }

    /// Every tier with its reason, in one line.
    pub fn reasons(&self) -> String {
        let reasons: Vec<String> = self.considered.iter().map(|row| format!("{}: {}", row.tier, row.why)).collect();
        reasons.join("; ")
    }
}

type Engines = Vec<Option<Engine>>;

/// Whether what the tier declares is enough: its engines for this, best first, and the reason.
fn declared(tier: &dyn Tier, wish: Wish<'_>) -> Result<(Engines, String), String> {
    if !wish.grant.tiers().contains(&tier.name()) {
        return Err("the policy does not allow it".to_owned());
    }
    if let Some(what) = lacks(tier.capabilities(), wish.grant.needs()) {
        return Err(format!("can't enforce what the policy asks for: {what}"));
    }
    if wish.command {
        let why = "runs commands".to_owned();
        return if tier.capabilities().commands {
            Ok((vec![None], why))
        } else {
            Err("runs Python only, no commands".to_owned())
        };
    }
    engines(tier.capabilities(), wish)
}

/// Whether the tier works here and has what the program imports; what does not hold in it is to be told too.
async fn tried(tier: &dyn Tier, wish: Wish<'_>, brought: &BTreeSet<String>) -> Result<String, String> {
    let Wish { grant, program, command, .. } = wish;
    let (strength, degraded) = match tier.probe().await {
        Probe::Unusable { why, remedy } => return Err(format!("not usable here: {why}; {remedy}")),
        Probe::Ready(strength) => (strength, String::new()),
        Probe::Degraded { strength, missing, remedy } => (strength, format!("; degraded: {missing}; {remedy}")),
    };
    if strength < grant.floor() {
        let floor = grant.floor();
        return Err(format!("reaches strength `{strength}` here, and the policy's floor is `{floor}`{degraded}"));
    }
    let here = tier.here();
    let commands = (command && !here.commands).then_some("commands");
    if let Some(what) = lacks(here, grant.needs()).or(commands) {
        return Err(format!("can't enforce here what is asked for: {what}{degraded}"));
    }
    if let Some(program) = program.filter(|_| tier.capabilities().engines.is_empty())
        && let Some(missing) = tier.missing(grant, &from_elsewhere(program, brought)).await
    {
        return Err(missing);
    }
    Ok(degraded)
}

/// The packages that a tier itself must have.
fn from_elsewhere<'p>(program: &'p Program, brought: &BTreeSet<String>) -> Vec<&'p str> {
    program.packages_needed().into_iter().filter(|package| !brought.contains(*package)).collect()
}

/// What of these a tier can't enforce. A section of the policy that it can't enforce makes it unfit; it is never ignored.
pub fn lacks(can: &Capabilities, needs: Needs) -> Option<&'static str> {
    let missing = [
        (needs.workspace && !can.workspace, "a workspace"),
        (needs.mounts_ro && !can.mounts_ro, "mounts"),
        (needs.mounts_rw && !can.mounts_rw, "writable mounts"),
        (needs.mounts_cow && !can.mounts_cow, "copy-on-write mounts"),
        (needs.no_exec && !can.no_exec, "that no other program is started"),
        (needs.network && !can.network, "filtered network"),
        (needs.secrets && !can.network, "secrets that the egress proxy puts in"),
        (needs.packages && !can.packages, "named packages"),
        (needs.venv && !can.packages, "a virtual environment"),
        (needs.type_check, "the check of types before a run, which this version does not have"),
        (needs.type_assertions, "assertions of types in a run, which this version does not have"),
        (needs.monitor_io && !can.measures_io, "a threshold on input and output"),
        (needs.anomaly, "anomaly rules, which this version does not have"),
    ];
    missing.into_iter().find(|(missing, _)| *missing).map(|(_, what)| what)
}

/// The engines of the tier that can run the program, best first, and the reason.
fn engines(can: &Capabilities, wish: Wish<'_>) -> Result<(Engines, String), String> {
    if let Some(engine) = wish.engine {
        let has = can.engines.iter().any(|info| info.engine == engine);
        let why = format!("engine `{}`, as asked for", engine.as_str());
        return if has { Ok((vec![Some(engine)], why)) } else { Err(format!("has no engine `{}`", engine.as_str())) };
    }
    let Some(fullest) = can.engines.last() else { return Ok((vec![None], "runs CPython itself".to_owned())) };
    let Some(program) = wish.program else {
        let why = format!("engine `{}`, since nothing is known yet of what will run", fullest.engine.as_str());
        return Ok((vec![Some(fullest.engine)], why));
    };
    let mut found = Vec::new();
    let mut reasons = Vec::new();
    for info in &can.engines {
        match fit(program, info.engine) {
            Fit::Right => found.push(info.engine),
            Fit::Doubtful { why } => reasons.push(format!("{}: {why}", info.engine.as_str())),
            Fit::Unsupported { feature, line } => {
                reasons.push(format!("{}: {feature} (line {line})", info.engine.as_str()));
            }
        }
    }
    let Some(first) = found.first() else { return Err(format!("can't run the program; {}", reasons.join("; "))) };
    let not = if reasons.is_empty() { String::new() } else { format!("; not {}", reasons.join("; ")) };
    Ok((found.iter().copied().map(Some).collect(), format!("engine `{}`{not}", first.as_str())))
}
