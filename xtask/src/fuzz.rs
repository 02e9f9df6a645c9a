//! `cargo xtask fuzz --replay`: the seeds of every fuzz target, replayed and mutated on the stable toolchain.
//!
//! Answers to: people and CI. Must not: hold a target; those are in `tests/fuzz`, and `fuzz/` gives the same ones to
//! the coverage-guided fuzzer.

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::stage::{self, Counted, Stage};
use crate::tally;
use crate::workspace::Workspace;

/// Replays; whether no target failed.
pub fn run(workspace: &Workspace, typed: &[String]) -> Result<bool, Fault> {
    let mut arguments = Arguments::new(typed);
    let seconds = arguments.number("--seconds", 30)?;
    if !arguments.flag("--replay") {
        let how = "`cargo xtask fuzz` wants `--replay`; the coverage-guided fuzzer is `cargo +nightly fuzz run TARGET`";
        return Err(Fault::Usage(how.to_owned()));
    }
    let targets = arguments.words()?;
    workspace.build_programs()?;
    let mut command = workspace.command(workspace.program("ringfence-fuzz"));
    command.arg("--seconds").arg(seconds.to_string());
    command.arg("--seeds").arg(workspace.path("fuzz/seeds"));
    command.arg("--failures").arg(workspace.target().join("fuzz-failures"));
    command.args(targets);
    Ok(stage::run(Stage::new("fuzz", command, Counted::By(tally::closing))).is_good())
}
