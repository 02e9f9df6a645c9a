//! The cases as they are written in `tests/cases`.
//!
//! Answers to: `run`. Must not: change a case.

use std::collections::BTreeMap;

use ringfence_types::{Outcome, Status, TierName};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// An object of a case.
pub type Object = Map<String, Json>;

/// One attack or use case.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Case {
    /// `A…`, `U…` or `J…`.
    pub id: String,
    /// Where it comes from.
    #[serde(default)]
    pub source: String,
    /// One line.
    pub title: String,
    /// What is done; `kind` says how to read it.
    pub input: Object,
    /// What must come of it.
    pub expected: Expected,
    /// `escapes` where the program gets out of an unprotected interpreter.
    #[serde(default)]
    pub bare: Option<String>,
    /// What the case needs or is about; `needs:NAME` is a package.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// What must come of a case.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Expected {
    /// Checks of an attack.
    #[serde(default)]
    pub oracle: Object,
    /// Checks of a use.
    #[serde(default)]
    pub want: Object,
    /// Verdict by tier: one, or several joined by `|`.
    pub tiers: BTreeMap<String, String>,
    /// What tells that the attack was refused, or led nowhere.
    #[serde(default)]
    pub evidence: Evidence,
    /// Why.
    #[serde(default)]
    pub why: String,
}

/// What tells that an attack was refused, or led nowhere: how lines of the output begin, or the exception that ended it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// One of these begins a line of the output.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Each of these begins a line of the output.
    #[serde(default)]
    pub all: Vec<String>,
    /// One of these exceptions ended the program.
    #[serde(default)]
    pub raised: Vec<String>,
}

impl Evidence {
    /// Whether the case names any.
    pub fn is_named(&self) -> bool {
        !(self.lines.is_empty() && self.raised.is_empty())
    }

    /// Whether it is in what the program did.
    pub fn is_in(&self, outcome: &Outcome) -> bool {
        let begins = |start: &String| outcome.stdout.lines().any(|line| line.starts_with(start.as_str()));
        match outcome.status {
            Status::Completed => self.lines.iter().any(begins) && self.all.iter().all(begins),
            Status::Raised => outcome.exception.as_ref().is_some_and(|exception| self.raised.contains(&exception.kind)),
            _ => false,
        }
    }
}

impl Case {
    /// What the case is.
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// A text of the input; empty where there is none.
    pub fn text(&self, key: &str) -> &str {
        self.input.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    /// A list of the input; empty where there is none.
    pub fn list(&self, key: &str) -> &[Json] {
        self.input.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Names in a list of the input.
    pub fn names(&self, key: &str) -> Vec<String> {
        self.list(key).iter().filter_map(Json::as_str).map(str::to_owned).collect()
    }

    /// The verdicts that are right for a tier.
    pub fn verdicts(&self, tier: TierName) -> Vec<&str> {
        self.expected.tiers.get(tier.as_str()).map(|verdicts| verdicts.split('|').collect()).unwrap_or_default()
    }

    /// The packages that the case needs.
    pub fn packages(&self) -> Vec<String> {
        self.tags.iter().filter_map(|tag| tag.strip_prefix("needs:")).map(str::to_owned).collect()
    }

    /// The program: the code, or the template filled in.
    pub fn code(&self) -> String {
        let repeat = self.input.get("repeat").and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
        match self.kind() {
            "python-template" => self
                .text("template")
                .replacen("{open}", &self.text("open").repeat(repeat), 1)
                .replacen("{close}", &self.text("close").repeat(repeat), 1),
            _ => self.text("code").to_owned(),
        }
    }
}

/// One program with the output that CPython gives.
#[derive(Debug, Clone, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its source.
    pub code: String,
    /// What CPython prints.
    pub stdout: String,
}

/// One problem of HumanEval.
#[derive(Debug, Clone, Deserialize)]
struct Problem {
    task_id: String,
    prompt: String,
    canonical_solution: String,
    test: String,
    entry_point: String,
}

/// One object a line.
pub(crate) fn lines<T: serde::de::DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let line = |line: &str| serde_json::from_str(line).map_err(|error| format!("a case can't be read: {error}"));
    text.lines().filter(|line| !line.is_empty()).map(line).collect()
}

/// The attack cases.
pub fn attacks() -> Result<Vec<Case>, String> {
    lines(include_str!("../../cases/attack.jsonl"))
}

/// The use cases.
pub fn uses() -> Result<Vec<Case>, String> {
    lines(include_str!("../../cases/use.jsonl"))
}

/// What a process jail must hold against, point by point.
pub fn jail() -> Result<Vec<Case>, String> {
    lines(include_str!("../../cases/jail.jsonl"))
}

/// Programs as agents write them.
pub fn agent_programs() -> Result<Vec<Program>, String> {
    lines(include_str!("../../cases/use.agent.jsonl"))
}

/// HumanEval: each problem with its solution and tests, which prints `OK`.
pub fn humaneval() -> Result<Vec<Program>, String> {
    let problems: Vec<Problem> = lines(include_str!("../../cases/humaneval.jsonl"))?;
    let program = |problem: Problem| Program {
        name: problem.task_id,
        code: format!(
            "{}{}\n\n{}\n\ncheck({})\nprint(\"OK\")\n",
            problem.prompt, problem.canonical_solution, problem.test, problem.entry_point
        ),
        stdout: "OK\n".to_owned(),
    };
    Ok(problems.into_iter().map(program).collect())
}
