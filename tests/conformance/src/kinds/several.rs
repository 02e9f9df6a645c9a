//! Sessions beside each other: what one leaves must not be seen by another, and no two draw the same numbers.
//!
//! Answers to: `kinds`. Must not: run them one after the other where the case is about two at once.

use std::collections::BTreeMap;

use ringfence_types::{Source, Status};
use tokio::sync::oneshot;

use super::python::{open, ran_on, run};
use crate::case::Case;
use crate::policy::Terms;
use crate::seen::Seen;
use crate::stage::Stage;

const SIBLINGS: usize = 3;

/// One session runs `first`, and `code` runs in another as soon as the first has printed something.
pub async fn pair(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let terms = Terms::of(case);
    let (mut first, mut second) = (open(stage, &terms)?, open(stage, &terms)?);
    let (tell, told) = oneshot::channel();
    let mut tell = Some(tell);
    let started = |_: ringfence::Progress<'_>| {
        if let Some(tell) = tell.take() {
            // The other side is gone where the second session failed, and that is told below.
            let _ = tell.send(());
        }
    };
    let source = Source::new(stage.canaries.placed(case.text("first")));
    let watched = async {
        let outcome = first.run_watched(source, started).await.map_err(|error| error.to_string())?;
        ran_on(stage.tier, &outcome)?;
        Ok::<_, String>(outcome)
    };
    let beside = async {
        told.await.map_err(|_| "the first session ended without a word".to_owned())?;
        run(stage, &mut second, Source::new(stage.canaries.placed(&case.code()))).await
    };
    let (watched, beside) = tokio::join!(watched, beside);
    let (outcome, wall, events) = beside?;
    let mut seen = Seen { outcomes: vec![outcome], wall, events, ..Seen::default() };
    let first = watched?;
    if first.status != Status::Completed {
        let why = format!("{:?} {:?}", first.exception, first.reason);
        seen.faults.push(format!("the first session did not complete: {} {why}", first.status.as_str()));
    }
    seen.outcomes.push(first);
    Ok(seen)
}

/// The same program in several sessions of one policy: no line may come out twice.
pub async fn siblings(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let terms = Terms::of(case);
    let mut seen = Seen::default();
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..SIBLINGS {
        let mut session = open(stage, &terms)?;
        let (outcome, ..) = run(stage, &mut session, Source::new(case.code())).await?;
        if outcome.status != Status::Completed || outcome.stdout.is_empty() {
            seen.faults.push(format!(
                "a sibling did not complete: {} {:?}",
                outcome.status.as_str(),
                outcome.exception
            ));
        }
        for line in outcome.stdout.lines() {
            *lines.entry(line.to_owned()).or_default() += 1;
        }
        seen.outcomes.push(outcome);
    }
    let twice: Vec<&str> = lines.iter().filter(|(_, times)| **times > 1).map(|(line, _)| line.as_str()).collect();
    if !twice.is_empty() {
        seen.faults.push(format!("siblings draw the same: {twice:?}"));
    }
    seen.verdicts.push(if seen.faults.is_empty() { "ok" } else { "same" }.to_owned());
    Ok(seen)
}
