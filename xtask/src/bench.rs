//! `cargo xtask bench`: the promised numbers, measured beside their peers in one run.
//!
//! Answers to: people. Must not: measure by itself; `benches/` does, and has every contender in one loop.

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::python::Environment;
use crate::say;
use crate::stage::{self, Counted, Stage};
use crate::workspace::Workspace;

const SETS: [&str; 3] = ["core", "process", "pyperformance"];

/// Measures; whether the program ran to its end.
pub fn run(workspace: &Workspace, typed: &[String]) -> Result<bool, Fault> {
    let mut arguments = Arguments::new(typed);
    let samples = arguments.number("--samples", 60)?;
    let words = arguments.words()?;
    if let Some(other) = words.iter().find(|word| !SETS.contains(&word.as_str())) {
        return Err(Fault::Usage(format!("there is no benchmark `{other}`; there are `{}`", SETS.join("`, `"))));
    }
    let set = words.first().map_or("core", String::as_str);
    workspace.build_programs()?;
    if set == "pyperformance" {
        return jailed_and_bare(workspace);
    }
    let peers = Environment::prepare(workspace, "peers", &workspace.path("benches/requirements.txt"))?;
    let results = workspace.target().join("bench.json");
    let mut command = workspace.command(workspace.program("ringfence-bench"));
    command.arg("--samples").arg(samples.to_string());
    command.arg("--set").arg(set);
    if set == "process" {
        let science = Environment::prepare(workspace, "science", &workspace.path("benches/science.txt"))?;
        command.arg("--venv").arg(science.folder()).arg("--package").arg(workspace.path("python"));
    } else {
        command.arg("--peer-python").arg(peers.program("python"));
        command.arg("--peer-program").arg(workspace.path("benches/pydantic_monty_pool.py"));
    }
    command.arg("--python").arg(interpreter(workspace, &peers)?);
    command.arg("--program").arg(workspace.program("ringfence"));
    command.arg("--results").arg(&results);
    let report = stage::run(Stage::new(format!("bench {set}"), command, Counted::Nothing));
    if report.is_good() {
        say::progress(&format!("wrote {}", results.display()));
    }
    Ok(report.is_good())
}

/// What a jail costs a program that computes: pyperformance's benchmarks in the same interpreter, bare and jailed.
fn jailed_and_bare(workspace: &Workspace) -> Result<bool, Fault> {
    let environment = Environment::prepare(workspace, "pyperformance", &workspace.path("benches/pyperformance.txt"))?;
    let mut command = workspace.command(environment.program("python"));
    command.arg(workspace.path("benches/jailed_and_bare.py"));
    command.env("PYTHONPATH", workspace.path("python")).env("RINGFENCE_BIN", workspace.program("ringfence"));
    Ok(stage::run(Stage::new("bench pyperformance", command, Counted::Nothing)).is_good())
}

/// The machine's Python itself: what `python3` names may be a script that looks for it.
fn interpreter(workspace: &Workspace, environment: &Environment) -> Result<String, Fault> {
    let python = environment.program("python");
    let mut command = workspace.command(&python);
    command.args(["-c", "import sys; print(sys._base_executable)"]);
    let output = command.output().map_err(Fault::reading(&python))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if path.is_empty() { Err(Fault::Unclear { program: "python".to_owned(), expected: "path" }) } else { Ok(path) }
}
