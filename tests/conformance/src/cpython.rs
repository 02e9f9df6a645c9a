//! CPython's own one-line assertions: each gives inside what the interpreter of this machine gives outside.
//!
//! Answers to: `run`. Must not: hold a right answer of its own: an assertion that fails outside has to fail inside alike.

use std::collections::BTreeMap;
use std::process::Stdio;

use ringfence::Session;
use ringfence_types::{Outcome, Source, Status, TierName, Value};
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::case::lines;
use crate::kinds::python::{open, run};
use crate::policy::Terms;
use crate::report::Row;
use crate::stage::Stage;

/// Tells of each expression, one a line: its value, or the exception's type.
const ORACLE: &str = r#"
import json, sys, warnings
warnings.simplefilter('ignore')
for line in sys.stdin:
    try:
        told = repr(bool(eval(compile(json.loads(line), 'main.py', 'eval'), {'__name__': '__main__'})))
    except Exception as e:
        told = type(e).__name__
    print(told)
"#;
/// Wrong answers that are told of one file.
const MOST_TOLD: usize = 5;

/// One assertion.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    /// The expression.
    pub src: String,
    /// The file of CPython's tests that it stands in.
    pub file: String,
    /// The line.
    pub line: u32,
}

/// All of them.
pub fn assertions() -> Result<Vec<Assertion>, String> {
    lines(include_str!("../../cases/cpython.jsonl"))
}

/// Whether the tier runs CPython.
pub fn is_for(tier: TierName) -> bool {
    matches!(tier, TierName::Wasm | TierName::Process | TierName::Container | TierName::Microvm)
}

/// One row for each file of tests, and one for the sum.
pub async fn rows(stage: &Stage) -> Result<Vec<Row>, String> {
    let assertions = assertions()?;
    let outside = outside(&assertions).await?;
    let mut files: BTreeMap<&str, (usize, usize, Vec<String>)> = BTreeMap::new();
    let terms = Terms { wall_ms: 20_000, ..Terms::default() };
    let mut session = open(stage, &terms)?;
    for (assertion, wanted) in assertions.iter().zip(&outside) {
        let inside = inside(stage, &terms, &mut session, assertion).await?;
        let (right, all, wrong) = files.entry(&assertion.file).or_default();
        *all += 1;
        if inside == *wanted {
            *right += 1;
        } else if wrong.len() < MOST_TOLD {
            let src: String = assertion.src.chars().take(100).collect();
            wrong.push(format!("line {}: `{src}` gives {inside}, outside {wanted}", assertion.line));
        }
    }
    let sum = files.values().map(|(right, ..)| right).sum::<usize>();
    let row = |(file, (right, all, wrong)): (&str, (usize, usize, Vec<String>))| {
        Row::judged(file, "cpython", format!("{right} of {all} right"), format!("{all} right"), wrong)
    };
    let mut rows: Vec<Row> = files.into_iter().map(row).collect();
    let all = assertions.len();
    let faults = if sum == all { Vec::new() } else { vec![format!("{} differ", all - sum)] };
    rows.push(Row::judged("cpython", "cpython", format!("{sum} of {all} right"), format!("{all} right"), faults));
    Ok(rows)
}

/// What the tier says. A session that ends is followed by another.
async fn inside(stage: &Stage, terms: &Terms, session: &mut Session, assertion: &Assertion) -> Result<String, String> {
    let code = format!("bool({})", assertion.src);
    let (outcome, ..) = run(stage, session, Source::new(code)).await?;
    if !matches!(outcome.status, Status::Completed | Status::Raised) {
        *session = open(stage, terms)?;
    }
    Ok(told(&outcome))
}

fn told(outcome: &Outcome) -> String {
    match (&outcome.value, &outcome.exception) {
        (Some(Value::Bool(true)), _) => "True".to_owned(),
        (Some(Value::Bool(false)), _) => "False".to_owned(),
        (_, Some(exception)) => exception.kind.clone(),
        _ => outcome.status.as_str().to_owned(),
    }
}

/// What the interpreter of this machine says.
async fn outside(assertions: &[Assertion]) -> Result<Vec<String>, String> {
    let fault = |error: std::io::Error| format!("`python3` can't be asked: {error}");
    let mut child = Command::new("python3")
        .args(["-I", "-c", ORACLE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(fault)?;
    let text: String =
        assertions.iter().map(|one| serde_json::Value::from(one.src.as_str()).to_string() + "\n").collect();
    let mut stdin = child.stdin.take().ok_or("`python3` has no standard input")?;
    let (written, output) = tokio::join!(
        async move {
            let written = stdin.write_all(text.as_bytes()).await;
            drop(stdin);
            written
        },
        child.wait_with_output()
    );
    written.map_err(fault)?;
    let answers: Vec<String> =
        String::from_utf8_lossy(&output.map_err(fault)?.stdout).lines().map(str::to_owned).collect();
    match answers.len() == assertions.len() {
        true => Ok(answers),
        false => Err(format!("`python3` answered {} of {} expressions", answers.len(), assertions.len())),
    }
}
