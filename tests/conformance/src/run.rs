//! Running the suite: which cases, on which tier, and what each must come to.
//!
//! Answers to: `main`. Must not: skip a case in silence: one that does not apply has its own row.

use ringfence_types::TierName;

use crate::case::{self, Case, Program};
use crate::kinds;
use crate::kinds::python::was_let_in;
use crate::report::{Report, Row, State};
use crate::seen::Seen;
use crate::stage::Stage;
use crate::{bare, control, cpython, oracle, probes, programs, wants};

/// Agent programs that must be right; the rest may be `unsupported`, and none may be wrong.
const AGENT_BAR: usize = 65;
/// All of them.
const AGENT_PROGRAMS: usize = 72;

/// How often an escape that hangs on a race is tried without protection.
const RACE_TRIES: usize = 5;

/// Every suite by name.
const SUITES: [&str; 7] = ["attack", "use", "jail", "probes", "humaneval", "agent", "cpython"];

/// Which cases: a suite by its name, `cases` for those of the case bank and of the jail, or `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite(String);

impl std::str::FromStr for Suite {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        if ["cases", "all"].contains(&name) || SUITES.contains(&name) {
            return Ok(Self(name.to_owned()));
        }
        Err(format!("there is no suite `{name}`; use cases, all, {}", SUITES.join(", ")))
    }
}

impl Suite {
    /// Whether it holds the suite of this name.
    pub fn has(&self, name: &str) -> bool {
        match self.0.as_str() {
            "all" => true,
            "cases" => ["attack", "use", "jail", "probes"].contains(&name),
            own => own == name,
        }
    }
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
    fn has(&self, suite: &str) -> bool {
        self.suite.has(suite)
    }

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
    for (suite, cases) in [("attack", case::attacks()?), ("jail", case::jail()?)] {
        if !options.has(suite) {
            continue;
        }
        for case in cases.iter().filter(|case| options.wants(&case.id)) {
            rows.push(escape(suite, case).await);
        }
    }
    if options.has("probes") {
        rows.extend(probes::unprotected().await?.into_iter().filter(|row| options.wants(first_word(&row.id))));
    }
    Ok(rows)
}

async fn escape(suite: &'static str, case: &Case) -> Row {
    let is_root = rustix::process::geteuid().is_root();
    match case.bare.as_deref() {
        Some("escapes") => {}
        Some("escapes as root") if is_root => {}
        Some(_) => return Row::not_applicable(&case.id, suite, "escapes as root alone"),
        None => return Row::not_applicable(&case.id, suite, "stays inside an unprotected interpreter too"),
    }
    let seen = unprotected(case).await;
    let escaped = seen.as_ref().is_ok_and(escaped);
    let caught = seen.as_ref().is_ok_and(|seen| !oracle::faults(case, seen).is_empty());
    let faults = match &seen {
        _ if escaped && caught => Vec::new(),
        Ok(seen) if escaped => vec![format!("the suite did not see the escape: {}", oracle::printed(seen))],
        Ok(seen) => vec![format!("the fixture is dead, nothing escaped: {}", oracle::printed(seen))],
        Err(why) => vec![why.clone()],
    };
    let verdict = if escaped && caught { "escape seen" } else { "no escape" };
    Row::judged(&case.id, suite, verdict.to_owned(), "escape seen".to_owned(), faults)
}

/// Some escapes are races: each gets a few tries.
async fn unprotected(case: &Case) -> Result<Seen, String> {
    for _ in 1..RACE_TRIES {
        let seen = bare::play(case).await?;
        if escaped(&seen) {
            return Ok(seen);
        }
    }
    bare::play(case).await
}

fn escaped(seen: &Seen) -> bool {
    oracle::stdout(seen).contains("ESCAPED")
}

async fn product(options: &Options) -> Result<Vec<Row>, String> {
    let stage = Stage::set_up(options.tier)?;
    let mut rows = vec![control::row(&stage).await];
    if options.has("attack") {
        cases(&stage, options, "attack", &case::attacks()?, &mut rows).await;
    }
    if options.has("use") {
        cases(&stage, options, "use", &case::uses()?, &mut rows).await;
    }
    if options.has("jail") {
        cases(&stage, options, "jail", &case::jail()?, &mut rows).await;
    }
    if options.has("probes") && options.only.as_deref().is_none_or(|only| only.starts_with('P')) {
        let inside = if probes::is_for(options.tier) {
            or_broken("probes", probes::inside(&stage).await)
        } else {
            not_native("probes")
        };
        rows.extend(inside.into_iter().filter(|row| options.wants(first_word(&row.id))));
    }
    if options.has("humaneval") {
        let problems = case::humaneval()?;
        let bar = problems.len();
        known(&stage, options, "humaneval", (&problems, bar), &mut rows).await;
    }
    if options.has("agent") {
        known(&stage, options, "agent", (&case::agent_programs()?, agent_bar(options.tier)), &mut rows).await;
    }
    if options.has("cpython") && options.only.is_none() {
        rows.extend(if cpython::is_for(options.tier) {
            or_broken("cpython", cpython::rows(&stage).await)
        } else {
            not_native("cpython")
        });
    }
    if !stage.canaries.is_untouched() {
        rows.push(Row::broken("canaries", "the host's files were changed".to_owned()));
    }
    Ok(rows)
}

/// An interpreter written anew is held to the agents' programs; CPython has to get all of them right.
fn agent_bar(tier: TierName) -> usize {
    if cpython::is_for(tier) { AGENT_PROGRAMS } else { AGENT_BAR }
}

fn not_native(suite: &'static str) -> Vec<Row> {
    vec![Row::not_applicable(suite, suite, "for tiers that run CPython itself")]
}

fn or_broken(suite: &str, rows: Result<Vec<Row>, String>) -> Vec<Row> {
    rows.unwrap_or_else(|why| vec![Row::broken(suite, why)])
}

fn first_word(id: &str) -> &str {
    id.split(' ').next().unwrap_or_default()
}

async fn cases(stage: &Stage, options: &Options, suite: &'static str, cases: &[Case], rows: &mut Vec<Row>) {
    for case in cases.iter().filter(|case| options.wants(&case.id)) {
        if case.kind() == "environment-matrix" {
            let conditions = kinds::environment::rows(stage, case);
            rows.extend(conditions.unwrap_or_else(|why| vec![Row::broken(&case.id, why)]));
        } else {
            rows.push(one(stage, suite, case).await);
        }
    }
}

async fn one(stage: &Stage, suite: &'static str, case: &Case) -> Row {
    let expected = case.verdicts(stage.tier);
    if expected == ["n/a"] {
        return Row::not_applicable(&case.id, suite, "n/a");
    }
    let (verdict, mut faults) = match kinds::play(stage, case).await {
        Ok(seen) => {
            let mut faults = faults(&expected, case, &seen);
            faults.extend(seen.outcome().and_then(|first| was_let_in(stage.tier, first).err()));
            (seen.verdict(), faults)
        }
        Err(why) => ("broken".to_owned(), vec![why]),
    };
    if case.expected.evidence.is_named() {
        faults.extend(control::of(stage, case).await.err());
    }
    Row::judged(&case.id, suite, verdict, expected.join("|"), faults)
}

fn faults(expected: &[&str], case: &Case, seen: &Seen) -> Vec<String> {
    let mut faults = seen.faults.clone();
    let met = expected
        .iter()
        .copied()
        .find(|verdict| seen.is(verdict, &case.expected.evidence) || raised_as_wanted(case, seen, verdict));
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

/// A use may want an exception or take any end, and a case may take a refusal to parse for one.
fn raised_as_wanted(case: &Case, seen: &Seen, verdict: &str) -> bool {
    let kind = |outcome: &ringfence_types::Outcome| outcome.exception.as_ref().map(|e| e.kind.clone());
    let raised = seen.outcome().and_then(kind);
    let syntax = case.expected.oracle.contains_key("or_syntax_error") && raised.as_deref() == Some("SyntaxError");
    let want = &case.expected.want;
    let wanted = ["error_type", "errors", "exit_code", "any_outcome"].iter().any(|key| want.contains_key(*key))
        && raised.is_some();
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
        let verdict = format!("{right} of {} right", programs.len());
        rows.push(Row::judged(suite, suite, verdict, format!("at least {bar}"), faults));
    }
}
