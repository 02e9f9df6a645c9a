//! The control of every attack: the same tier, policy and tools without the attack, which must do all that it is asked.
//!
//! Answers to: `run`. Must not: let a refusal count where a harmless program fails too: that proves nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ringfence_types::{Outcome, Source, Status, Value};

use crate::Check;
use crate::case::Case;
use crate::kinds::python::{open, run};
use crate::policy::Terms;
use crate::report::Row;
use crate::stage::Stage;

/// What was found of each policy so far.
#[derive(Debug, Default)]
pub struct Controls(Mutex<BTreeMap<String, Check>>);

/// Runs the control of a case, once for each policy.
pub async fn of(stage: &Stage, case: &Case) -> Check {
    let terms = Terms::of(case);
    let policy = terms.toml(stage.tier, &stage.data());
    let known = |controls: &Controls| controls.0.lock().unwrap_or_else(PoisonError::into_inner).get(&policy).cloned();
    if let Some(found) = known(&stage.controls) {
        return found;
    }
    let found = try_out(stage, &terms).await;
    stage.controls.0.lock().unwrap_or_else(PoisonError::into_inner).insert(policy, found.clone());
    found
}

/// The control without a case, before all others: whether the tier does anything, with a worker that is ready after it.
pub async fn row(stage: &Stage) -> Row {
    let found = try_out(stage, &Terms::default()).await;
    let verdict = if found.is_ok() { "completed" } else { "failed" };
    Row::judged("control", "suite", verdict.to_owned(), "completed".to_owned(), found.err().into_iter().collect())
}

async fn try_out(stage: &Stage, terms: &Terms) -> Check {
    let (code, wanted) = program(&terms.tools);
    let told = |why: String| format!("the control fails, so that no refusal proves anything: {why}");
    let mut session = open(stage, terms).map_err(told)?;
    let (outcome, ..) = run(stage, &mut session, Source::new(code)).await.map_err(told)?;
    judged(&outcome, &wanted).map_err(told)
}

/// Whether the control did all that it was asked.
pub fn judged(outcome: &Outcome, wanted: &str) -> Check {
    if outcome.status == Status::Completed && outcome.value == Some(Value::Int(42)) && outcome.stdout == wanted {
        return Ok(());
    }
    let (exception, reason) = (&outcome.exception, &outcome.reason);
    Err(format!("{} {:?} {:?} {exception:?} {reason:?}", outcome.status.as_str(), outcome.stdout, outcome.value))
}

/// A harmless program that does what attacks do on the way: it defines, raises, catches, formats, prints and calls every
/// tool that it may. With what it has to print.
pub fn program(tools: &[String]) -> (String, String) {
    let mut code =
        "def six(n):\n    return n * 6\n\ntry:\n    raise ValueError('control')\nexcept BaseException as e:\n    \
                    print('CONTROL:', type(e).__name__, len([1, 2]), sorted({'b': 1, 'a': 2}), 'x'.join(['1', '2']))\n"
            .to_owned();
    let mut wanted = "CONTROL: ValueError 2 ['a', 'b'] 1x2\n".to_owned();
    for (call, answer) in tools.iter().filter_map(|tool| call_of(tool)) {
        code.push_str(&format!("print({call})\n"));
        wanted.push_str(&format!("{answer}\n"));
    }
    (code + "six(7)\n", wanted)
}

/// A right call of a tool, and what it prints. The others fail by design.
fn call_of(tool: &str) -> Option<(&'static str, &'static str)> {
    Some(match tool {
        "get_weather" => ("get_weather('Rome')['city']", "Rome"),
        "search" => ("search('q', limit=1)[0]", "q #0"),
        "send_email" => ("send_email('a@x.test', 's', 'b')", "sent"),
        "echo" => ("echo([1, 'a'])", "[1, 'a']"),
        "read_file" => ("read_file('control.txt')", "control"),
        "get_secret" => ("len(get_secret('x'))", "18"),
        "slow" => ("slow(1)", "1"),
        _ => return None,
    })
}
