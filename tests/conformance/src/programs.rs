//! Whole programs whose output is known: HumanEval, and programs as agents write them.
//!
//! Answers to: `run`. Must not: take a wrong output for a missing feature.

use ringfence_types::{Outcome, Source, Status};

use crate::case::Program;
use crate::kinds::python::{open, run};
use crate::policy::Terms;
use crate::report::{Row, State};
use crate::stage::Stage;

/// Runs one program in a session of its own.
pub async fn play(stage: &Stage, suite: &'static str, program: &Program) -> Row {
    let (verdict, fault) = match output(stage, program).await {
        Ok(outcome) => judged(program, &outcome),
        Err(why) => ("no outcome".to_owned(), Some(why)),
    };
    let state = match (&fault, verdict.as_str()) {
        (Some(_), _) => State::Failed,
        (None, "unsupported") => State::Unsupported,
        (None, _) => State::Passed,
    };
    Row {
        id: program.name.clone(),
        suite,
        verdict,
        expected: "right".to_owned(),
        faults: fault.into_iter().collect(),
        state,
    }
}

async fn output(stage: &Stage, program: &Program) -> Result<Outcome, String> {
    let mut session = open(stage, &Terms { wall_ms: 20_000, ..Terms::default() })?;
    Ok(run(stage, &mut session, Source::new(program.code.clone())).await?.0)
}

fn judged(program: &Program, outcome: &Outcome) -> (String, Option<String>) {
    let quiet_exit = outcome.exception.as_ref().is_some_and(|exception| exception.exit_code == Some(0));
    let ended = outcome.status == Status::Completed || quiet_exit;
    if ended && outcome.stdout == program.stdout {
        return ("right".to_owned(), None);
    }
    if outcome.status == Status::Unsupported {
        return ("unsupported".to_owned(), None);
    }
    let engine = outcome.engine.as_deref().unwrap_or("-");
    let exception = outcome.exception.as_ref().map(|e| format!("{}: {}", e.kind, e.message)).unwrap_or_default();
    let why = outcome.reason.as_deref().unwrap_or_default();
    let told = format!("{engine}: {:?} {exception} {why}, CPython prints {:?}", outcome.stdout, program.stdout);
    (format!("wrong ({})", outcome.status.as_str()), Some(told))
}
