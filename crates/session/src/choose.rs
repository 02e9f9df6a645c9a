//! Choosing a tier: among the allowed and ready ones at or above the floor, the cheapest that can run the program.
//!
//! Answers to: `run`, and `explain`. Must not: fall back to anything weaker than the policy's floor.

use std::sync::Arc;

use ringfence_analysis::{Fit, Program, fit};
use ringfence_policy::{Grant, Needs};
use ringfence_tier::{Capabilities, Probe, Tier};
use ringfence_types::{Considered, Engine, TierName};

/// A tier, and the engine in it, that can run a program under a grant.
#[derive(Clone)]
pub struct Candidate {
    /// The tier.
    pub tier: Arc<dyn Tier>,
    /// The engine, where the tier has several.
    pub engine: Option<Engine>,
}

/// What was looked at, and what can be taken, best first.
#[derive(Clone, Default)]
pub struct Choice {
    /// Every tier that the policy names, with the reason.
    pub considered: Vec<Considered>,
    pub(crate) candidates: Vec<Candidate>,
}

/// Looks at every tier. `wanted` is the engine that the caller insists on.
pub async fn choose(
    tiers: &[Arc<dyn Tier>],
    grant: &Grant,
    program: Option<&Program>,
    wanted: Option<Engine>,
) -> Choice {
    let mut by_cost: Vec<&Arc<dyn Tier>> = tiers.iter().collect();
    by_cost.sort_by_key(|tier| tier.capabilities().cost);
    let mut choice = Choice::default();
    for tier in by_cost {
        match look(tier, grant, program, wanted).await {
            Ok((engines, why)) => {
                let one = |engine| Candidate { tier: Arc::clone(tier), engine };
                choice.candidates.extend(engines.into_iter().map(one));
                choice.considered.push(Considered { tier: tier.name(), fit: true, why });
            }
            Err(why) => choice.considered.push(Considered { tier: tier.name(), fit: false, why }),
        }
    }
    let present = |name: &TierName| tiers.iter().any(|tier| tier.name() == *name);
    for tier in grant.tiers().iter().copied().filter(|name| !present(name)) {
        choice.considered.push(Considered { tier, fit: false, why: "not in this build".to_owned() });
    }
    choice
}

type Engines = Vec<Option<Engine>>;

async fn look(
    tier: &Arc<dyn Tier>,
    grant: &Grant,
    program: Option<&Program>,
    wanted: Option<Engine>,
) -> Result<(Engines, String), String> {
    if !grant.tiers().contains(&tier.name()) {
        return Err("the policy does not allow it".to_owned());
    }
    enforceable(tier.capabilities(), grant.needs())?;
    let found = engines(tier.capabilities(), program, wanted)?;
    match tier.probe().await {
        Probe::Unusable { why, remedy } => Err(format!("not usable here: {why}; {remedy}")),
        Probe::Ready(strength) | Probe::Degraded { strength, .. } if strength < grant.floor() => {
            Err(format!("reaches strength `{strength}` here, and the policy's floor is `{}`", grant.floor()))
        }
        Probe::Ready(_) | Probe::Degraded { .. } => Ok(found),
    }
}

/// A section of the policy that a tier can't enforce makes it unfit; it is never ignored.
fn enforceable(can: &Capabilities, needs: Needs) -> Result<(), String> {
    let missing = [
        (needs.workspace && !can.workspace, "a workspace"),
        (needs.mounts_ro && !can.mounts_ro, "mounts"),
        (needs.mounts_rw && !can.mounts_rw, "writable mounts"),
        (needs.network && !can.network, "filtered network"),
        (needs.secrets && !can.network, "secrets that the egress proxy puts in"),
        (needs.packages && !can.packages, "named packages"),
        (needs.venv && !can.packages, "a virtual environment"),
        (needs.type_check, "the check of types before a run, which this version does not have"),
        (needs.type_assertions, "assertions of types in a run, which this version does not have"),
        (needs.anomaly, "anomaly rules, which this version does not have"),
    ];
    match missing.into_iter().find(|(missing, _)| *missing) {
        Some((_, what)) => Err(format!("can't enforce what the policy asks for: {what}")),
        None => Ok(()),
    }
}

/// The engines of the tier that can run the program, best first, and the reason.
fn engines(can: &Capabilities, program: Option<&Program>, wanted: Option<Engine>) -> Result<(Engines, String), String> {
    if let Some(engine) = wanted {
        let has = can.engines.iter().any(|info| info.engine == engine);
        let why = format!("engine `{}`, as asked for", engine.as_str());
        return if has { Ok((vec![Some(engine)], why)) } else { Err(format!("has no engine `{}`", engine.as_str())) };
    }
    if can.engines.is_empty() {
        return Ok((vec![None], "runs CPython itself".to_owned()));
    }
    let mut found = Vec::new();
    let mut reasons = Vec::new();
    for info in &can.engines {
        let last = info.engine == Engine::Rustpython;
        match program.map_or(Fit::Right, |program| fit(program, info.engine)) {
            Fit::Right => found.push(info.engine),
            // The fuller engine may try what nobody is sure of; the smaller one may not.
            Fit::Doubtful { .. } if last => found.push(info.engine),
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
