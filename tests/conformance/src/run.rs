//! Running the suite: which cases, on which tier, and what each must come to.
//!
//! Answers to: `main`. Must not: skip a case in silence: one that does not apply has its own row.

use ringfence_types::TierName;

use crate::case::{self, Case, Program};
use crate::kinds;
use crate::report::{Report, Row, State};
use crate::seen::Seen;
use crate::stage::Stage;
use crate::{bare, oracle, programs, wants};

/// Agent programs that must be right; the rest may be `unsupported`, and none may be wrong.
const AGENT_BAR: usize = 65;

/// Which cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Attack and use.
    Cases,
    /// The attack cases.
    Attack,
    /// The use cases.
    Use,
    /// HumanEval.
    HumanEval,
    /// Programs as agents write them.
    Agent,
    /// Everything.
    All,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// On which tier.
    pub tier: TierName,
    /// This case alone.
    pub only: Option<String>,
    /// Which cases.
    pub suite: Suite,
}

impl Options {
    fn wants(&self, id: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == id)
    }
}

/// Runs what was asked for.
pub async fn run(options: &Options) -> Report {
    let rows = match options.tier {
        TierName::Bare => escapes(options).await,
        _ => product(options).await,
    };
    let rows = rows.unwrap_or_else(|why| vec![Row::broken("set-up", why)]);
    Report { tier: options.tier.as_str().to_owned(), rows }
}

/// Against no isolation, every attack that can escape must be seen to.
async fn escapes(options: &Options) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for case in case::attacks()?.iter().filter(|case| options.wants(&case.id)) {
        if case.bare.as_deref() != Some("escapes") {
            rows.push(not_applicable(case, "attack", "stays inside an unprotected interpreter too"));
            continue;
        }
        let seen = bare::play(case).await;
        let escaped = seen.as_ref().is_ok_and(|seen| oracle::stdout(seen).contains("ESCAPED"));
        let caught = seen.as_ref().is_ok_and(|seen| !oracle::faults(case, seen).is_empty());
        let faults = match &seen {
            _ if escaped && caught => Vec::new(),
            Ok(seen) if escaped => vec![format!("the suite did not see the escape: {}", oracle::printed(seen))],
            Ok(seen) => vec![format!("the fixture is dead, nothing escaped: {}", oracle::printed(seen))],
            Err(why) => vec![why.clone()],
        };
        rows.push(Row {
            id: case.id.clone(),
            suite: "attack",
            verdict: if escaped && caught { "escape seen" } else { "no escape" }.to_owned(),
            expected: "escape seen".to_owned(),
            state: if faults.is_empty() { State::Passed } else { State::Failed },
            faults,
        });
    }
    Ok(rows)
}

async fn product(options: &Options) -> Result<Vec<Row>, String> {
    let stage = Stage::set_up()?;
    let mut rows = Vec::new();
    let has = |suites: &[Suite]| suites.contains(&options.suite) || options.suite == Suite::All;
    if has(&[Suite::Cases, Suite::Attack]) {
        cases(&stage, options, "attack", &case::attacks()?, &mut rows).await;
    }
    if has(&[Suite::Cases, Suite::Use]) {
        cases(&stage, options, "use", &case::uses()?, &mut rows).await;
    }
    if has(&[Suite::HumanEval]) {
        let problems = case::humaneval()?;
        let bar = problems.len();
        known(&stage, options, "humaneval", (&problems, bar), &mut rows).await;
    }
    if has(&[Suite::Agent]) {
        known(&stage, options, "agent", (&case::agent_programs()?, AGENT_BAR), &mut rows).await;
    }
    if !stage.canaries.is_untouched() {
        rows.push(Row::broken("canaries", "the host's files were changed".to_owned()));
    }
    Ok(rows)
}

async fn cases(stage: &Stage, options: &Options, suite: &'static str, cases: &[Case], rows: &mut Vec<Row>) {
    for case in cases.iter().filter(|case| options.wants(&case.id)) {
        rows.push(one(stage, options.tier.as_str(), suite, case).await);
    }
}

async fn one(stage: &Stage, tier: &str, suite: &'static str, case: &Case) -> Row {
    let expected = case.verdicts(tier);
    if expected == ["n/a"] {
        return not_applicable(case, suite, "n/a");
    }
    let (verdict, faults) = match kinds::play(stage, case).await {
        Ok(seen) => (seen.verdict(), faults(&expected, case, &seen)),
        Err(why) => ("broken".to_owned(), vec![why]),
    };
    let state = if faults.is_empty() { State::Passed } else { State::Failed };
    Row { id: case.id.clone(), suite, verdict, expected: expected.join("|"), faults, state }
}

fn faults(expected: &[&str], case: &Case, seen: &Seen) -> Vec<String> {
    let mut faults = seen.faults.clone();
    let met = expected.iter().copied().find(|verdict| seen.is(verdict) || raised_as_wanted(case, seen, verdict));
    if met.is_none() {
        faults.push(format!("verdict {}: {}", seen.verdict(), tail(seen)));
    }
    faults.extend(oracle::faults(case, seen));
    // A use that is refused by name, where that is acceptable, has no result to look at.
    if met != Some("unsupported") {
        faults.extend(wants::faults(case, seen));
    }
    faults
}

/// A use may want an exception, and a case may take a refusal to parse for one.
fn raised_as_wanted(case: &Case, seen: &Seen, verdict: &str) -> bool {
    let kind = |outcome: &ringfence_types::Outcome| outcome.exception.as_ref().map(|e| e.kind.clone());
    let raised = seen.outcome().and_then(kind);
    let syntax = case.expected.oracle.contains_key("or_syntax_error") && raised.as_deref() == Some("SyntaxError");
    let want = &case.expected.want;
    let wanted = ["error_type", "errors", "exit_code"].iter().any(|key| want.contains_key(*key)) && raised.is_some();
    syntax || (verdict == "ok" && wanted)
}

/// What the case did, for whoever looks into a failure.
fn tail(seen: &Seen) -> String {
    let Some(outcome) = seen.outcome() else { return String::new() };
    let exception = outcome.exception.as_ref().map(|e| format!("{}: {}", e.kind, e.message)).unwrap_or_default();
    let out: String = outcome.stdout.chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
    let engine = outcome.engine.as_deref().unwrap_or("-");
    format!("{engine} {:?} {exception} {}", out, outcome.reason.as_deref().unwrap_or_default())
}

fn not_applicable(case: &Case, suite: &'static str, expected: &str) -> Row {
    Row {
        id: case.id.clone(),
        suite,
        verdict: "n/a".to_owned(),
        expected: expected.to_owned(),
        faults: Vec::new(),
        state: State::NotApplicable,
    }
}

/// Programs of known output, and the bar that their number must reach.
async fn known(
    stage: &Stage,
    options: &Options,
    suite: &'static str,
    (programs, bar): (&[Program], usize),
    rows: &mut Vec<Row>,
) {
    let mut right = 0;
    for program in programs.iter().filter(|program| options.wants(&program.name)) {
        let row = programs::play(stage, suite, program).await;
        right += usize::from(row.state == State::Passed);
        rows.push(row);
    }
    if options.only.is_none() {
        let faults =
            if right < bar { vec![format!("only {right} of {} are right", programs.len())] } else { Vec::new() };
        rows.push(Row {
            id: suite.to_owned(),
            suite,
            verdict: format!("{right} of {} right", programs.len()),
            expected: format!("at least {bar}"),
            state: if faults.is_empty() { State::Passed } else { State::Failed },
            faults,
        });
    }
}
