//! `cargo xtask test`: every test there is, after one build.
//!
//! Answers to: people and CI. Must not: leave a test out in silence. What can't be run is named; in CI it is a failure.
//! The last line is `N passed, N failed`, over all stages.

use std::time::Instant;

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::python::Environment;
use crate::say;
use crate::setup;
use crate::stage::{self, Counted, Report, Stage};
use crate::tally::{self, Tally};
use crate::workspace::{Built, Workspace, in_ci};

/// Each tier of this build with the cases that it is held to, and no isolation at all, where the attacks must succeed.
const TIERS: [(&str, &str); 5] =
    [("embedded", "all"), ("process", "jail"), ("process", "probes"), ("process", "attack"), ("bare", "cases")];
const CONFORMANCE: &str = "ringfence-conformance";

/// Runs everything; whether all passed.
pub fn run(workspace: &Workspace, typed: &[String]) -> Result<bool, Fault> {
    Arguments::new(typed).finish()?;
    let started = Instant::now();
    say::progress(&format!("the target folder is {}", workspace.target().display()));
    setup::nextest(workspace)?;
    let build = stage::run(workspace.build(Built::Tests));
    let mut reports = Vec::new();
    let is_built = build.is_good();
    reports.push(build);
    if is_built {
        rust(workspace, &mut reports);
        conformance_of_each_tier(workspace, &mut reports);
    }
    python(workspace, is_built, &mut reports);
    say::progress(&format!("all stages took {}", say::elapsed(started.elapsed())));
    Ok(summary(&reports))
}

/// The conformance suite alone; whether it passed.
pub fn conformance(workspace: &Workspace, typed: &[String]) -> Result<bool, Fault> {
    if !workspace.has("tests/conformance") {
        return Err(Fault::Usage("there is no `tests/conformance` in this tree".to_owned()));
    }
    workspace.build_programs()?;
    let mut command = workspace.command(workspace.program(CONFORMANCE));
    command.args(typed);
    let status = command.status().map_err(Fault::reading(workspace.program(CONFORMANCE)))?;
    Ok(status.success())
}

fn rust(workspace: &Workspace, reports: &mut Vec<Report>) {
    let tests = workspace.cargo(&[
        "nextest",
        "run",
        "--release",
        "--workspace",
        "--no-fail-fast",
        "--status-level=slow",
        "--final-status-level=fail",
    ]);
    reports.push(stage::run(Stage::new("Rust tests", tests, Counted::By(tally::nextest))));
    // The whole workspace, for its features: those of one package alone would build the interpreters again.
    let examples = workspace.cargo(&["test", "--release", "--workspace", "--doc", "--no-fail-fast", "--quiet"]);
    reports.push(stage::run(Stage::new("Rust examples in documents", examples, Counted::By(tally::cargo_test))));
}

fn conformance_of_each_tier(workspace: &Workspace, reports: &mut Vec<Report>) {
    for (tier, suite) in TIERS {
        let name = format!("conformance, {tier}, {suite}");
        if !workspace.has("tests/conformance") {
            reports.push(Report::not_run(&name, "there is no `tests/conformance` in this tree", in_ci()));
            continue;
        }
        let mut command = workspace.command(workspace.program(CONFORMANCE));
        command.args(["--tier", tier, "--suite", suite]);
        reports.push(stage::run(Stage::new(name, command, Counted::By(tally::closing))));
    }
}

fn python(workspace: &Workspace, is_built: bool, reports: &mut Vec<Report>) {
    let folder = workspace.path("python");
    let environment = match Environment::prepare(workspace, "tests", &folder.join("requirements-test.txt")) {
        Ok(environment) => environment,
        Err(fault) => {
            reports.push(Report::not_run("Python tests", fault.to_string(), true));
            return;
        }
    };
    let tool = |name: &str, arguments: &[&str]| {
        let mut command = workspace.command(environment.program(name));
        command.args(arguments).current_dir(&folder).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    let mut pytest = tool("pytest", &["-q", "-p", "no:cacheprovider"]);
    pytest.env("RINGFENCE_BIN", workspace.program("ringfence"));
    if is_built {
        reports.push(stage::run(Stage::new("Python tests", pytest, Counted::By(tally::pytest))));
    } else {
        reports.push(Report::not_run("Python tests", "the program was not built", true));
    }
    let caches = workspace.target().join("python");
    let mut mypy = tool("mypy", &["--strict", "--cache-dir"]);
    mypy.arg(caches.join("mypy"));
    reports.push(stage::run(Stage::new("Python types (mypy)", mypy, Counted::Once)));
    let lint = tool("ruff", &["check", "--no-cache"]);
    reports.push(stage::run(Stage::new("Python lints (ruff)", lint, Counted::Once)));
    let format = tool("ruff", &["format", "--check", "--no-cache"]);
    reports.push(stage::run(Stage::new("Python format (ruff)", format, Counted::Once)));
}

fn summary(reports: &[Report]) -> bool {
    let width = reports.iter().map(|report| report.name.len()).max().unwrap_or_default();
    say::line(&format!("\n{:width$}  {:>7} {:>7} {:>7} {:>8}", "stage", "passed", "failed", "not run", "time"));
    for Report { name, tally, time, note } in reports {
        let Tally { passed, failed, skipped } = tally;
        let time = say::elapsed(*time);
        say::line(format!("{name:width$}  {passed:>7} {failed:>7} {skipped:>7} {time:>8}  {note}").trim_end());
    }
    let sum = reports.iter().map(|report| report.tally).fold(Tally::default(), Tally::and);
    say::line(&format!("\n{} passed, {} failed", sum.passed, sum.failed));
    sum.failed == 0
}
