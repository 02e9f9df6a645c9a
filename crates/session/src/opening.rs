//! Opening a cell: raced with the kill switch and the clock, and recorded as what it really is.
//!
//! Answers to: `session`. Must not: wait for a tier without end, or keep a cell below the floor.

use std::future::Future;
use std::time::Duration;

use ringfence_audit::Event;
use ringfence_audit::event::{CellOpened, EnforcementLevel, EnforcementLine};
use ringfence_policy::Grant;
use ringfence_tier::{Cell, Enforced, Enforcement, OPEN_PATIENCE, TierFault};
use ringfence_types::TierName;

use crate::choose::Candidate;
use crate::kill::KillSwitch;

/// A fresh cell of the floor's strength at least; `None` where the switch was pulled first.
pub async fn open(
    candidate: &Candidate,
    grant: &Grant,
    switch: &KillSwitch,
) -> Option<Result<Box<dyn Cell>, TierFault>> {
    let tier = candidate.tier.name();
    let opened = in_time(tier, OPEN_PATIENCE, candidate.tier.open(grant, candidate.engine));
    let cell = match switch.unless_pulled(opened).await? {
        Ok(cell) => cell,
        Err(fault) => return Some(Err(fault)),
    };
    let strength = cell.enforced().strength;
    if strength < grant.floor() {
        return Some(Err(TierFault::Open { tier, why: format!("it reached strength `{strength}` only") }));
    }
    Some(Ok(cell))
}

async fn in_time<T>(
    tier: TierName,
    patience: Duration,
    opening: impl Future<Output = Result<T, TierFault>>,
) -> Result<T, TierFault> {
    tokio::time::timeout(patience, opening).await.unwrap_or_else(|_| {
        Err(TierFault::Unusable {
            tier,
            why: format!("it opened no cell within {} s", patience.as_secs()),
            remedy: "look for a machine that is out of memory or overloaded".to_owned(),
        })
    })
}

/// What is recorded of an open cell.
pub fn record(tier: TierName, enforcement: &Enforcement) -> Event {
    let line = |line: &ringfence_tier::EnforcementLine| {
        let (level, why) = match &line.level {
            Enforced::Full => (EnforcementLevel::Full, None),
            Enforced::Partial(why) => (EnforcementLevel::Partial, Some(why.clone())),
            Enforced::None(why) => (EnforcementLevel::None, Some(why.clone())),
        };
        EnforcementLine { what: line.what.to_owned(), level, why }
    };
    Event::CellOpened(CellOpened {
        tier,
        strength: enforcement.strength,
        enforcement: enforcement.lines.iter().map(line).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tier_that_takes_too_long_is_unusable() {
        let never = std::future::pending::<Result<(), TierFault>>();
        let told = in_time(TierName::Process, Duration::ZERO, never).await.map_err(|fault| fault.to_string());
        assert_eq!(told, Err("the process tier can't be used here: it opened no cell within 0 s".to_owned()));
    }
}
