//! What the suite found, as a table or as JSON.
//!
//! Answers to: `main`. Must not: leave a row out.

use serde::Serialize;

/// How a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As expected.
    Passed,
    /// Not as expected.
    Failed,
    /// A program that the tier refused by name; counted, and bounded by its suite's bar.
    Unsupported,
    /// The case is not for this tier.
    NotApplicable,
    /// What the case is about can't be set up on this machine; never counted as passed.
    NotRun,
}

/// One case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// `attack`, `use`, `jail`, `probes`, `humaneval`, `cpython`, `agent`, or `suite` for what must hold before any case.
    pub suite: &'static str,
    /// What was seen.
    pub verdict: String,
    /// What was expected.
    pub expected: String,
    /// What did not hold.
    pub faults: Vec<String>,
    /// The sum.
    pub state: State,
}

impl Row {
    /// A row of a case that is not for this tier, and why.
    pub fn not_applicable(id: &str, suite: &'static str, why: &str) -> Self {
        Self {
            id: id.to_owned(),
            suite,
            verdict: "n/a".to_owned(),
            expected: why.to_owned(),
            faults: Vec::new(),
            state: State::NotApplicable,
        }
    }

    /// A row with these faults, or passed where there are none.
    pub fn judged(id: &str, suite: &'static str, verdict: String, expected: String, faults: Vec<String>) -> Self {
        let state = if faults.is_empty() { State::Passed } else { State::Failed };
        Self { id: id.to_owned(), suite, verdict, expected, faults, state }
    }

    /// A fault of the suite or of the machine.
    pub fn broken(id: &str, why: String) -> Self {
        Self {
            id: id.to_owned(),
            suite: "suite",
            verdict: "broken".to_owned(),
            expected: "ready".to_owned(),
            faults: vec![why],
            state: State::Failed,
        }
    }
}

/// Everything that was found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The tier.
    pub tier: String,
    /// One row a case.
    pub rows: Vec<Row>,
}

impl Report {
    /// Rows that ended so.
    pub fn count(&self, state: State) -> usize {
        self.rows.iter().filter(|row| row.state == state).count()
    }

    /// Whether every row is as expected, and something was tried.
    pub fn is_good(&self) -> bool {
        self.count(State::Failed) == 0 && self.count(State::Passed) > 0
    }

    /// The table and its closing line.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.id.len()).max().unwrap_or_default();
        let mut text = format!("{:width$}  {:<7}  {:<22}  expected\n", "case", "", "verdict");
        for row in &self.rows {
            let mark = match row.state {
                State::Passed => "ok",
                State::Failed => "FAILED",
                State::Unsupported => "-",
                State::NotApplicable => "n/a",
                State::NotRun => "NOT RUN",
            };
            let verdict: String = row.verdict.chars().take(40).collect();
            text.push_str(&format!("{:width$}  {mark:<7}  {verdict:<22}  {}\n", row.id, row.expected));
            for fault in &row.faults {
                let fault: String = fault.chars().filter(|c| !c.is_control()).take(400).collect();
                text.push_str(&format!("{:width$}           {fault}\n", ""));
            }
        }
        text + &self.closing()
    }

    fn closing(&self) -> String {
        let mut more = String::new();
        let states =
            [(State::Unsupported, "unsupported"), (State::NotApplicable, "not applicable"), (State::NotRun, "not run")];
        for (state, what) in states {
            let names: Vec<&str> =
                self.rows.iter().filter(|row| row.state == state).map(|row| row.id.as_str()).collect();
            if !names.is_empty() {
                more.push_str(&format!("{} {what}: {}\n", names.len(), names.join(", ")));
            }
        }
        format!("{more}{} passed, {} failed", self.count(State::Passed), self.count(State::Failed))
    }
}
