//! `cargo xtask`: sets up, tests, generates and measures.
//!
//! Answers to: people and CI, who type `cargo xtask`. Must not: depend on a crate of Ringfence, so that it builds in
//! seconds; it drives cargo and the built programs, and reads what they print.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod fault;
mod fuzz;
mod generate;
mod python;
mod say;
mod setup;
mod stage;
mod tally;
mod test;
mod workspace;

use std::process::ExitCode;

use crate::fault::Fault;
use crate::workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test                            install what the tests need, build once, and run every test
  conformance [ARGUMENT...]       the conformance suite alone; its arguments are passed on
  generate [--check]              write the text that comes from code; with --check, fail where it has drifted
  bench [core|process|pyperformance] [--samples N]
                                  measure, print a table, and write bench.json into the target folder
  fuzz --replay [--seconds N]     replay and mutate the fuzz seeds, N seconds for each target (30)
       [TARGET...]

Everything is built once, into CARGO_TARGET_DIR; where that is not set, into ~/.cache/ringfence/target if that folder
exists (`.ci/run` makes it), else into target. With CI=true whatever is missing on the machine is a failure.";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            say::error(&fault.to_string());
            ExitCode::from(fault.exit())
        }
    }
}

/// Whether all went well.
fn run() -> Result<bool, Fault> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    let workspace = Workspace::find()?;
    match command.as_str() {
        "test" => test::run(&workspace, &rest),
        "conformance" => test::conformance(&workspace, &rest),
        "generate" => generate::run(&workspace, &rest),
        "bench" => bench::run(&workspace, &rest),
        "fuzz" => fuzz::run(&workspace, &rest),
        "help" | "--help" | "-h" => {
            say::line(USAGE);
            Ok(true)
        }
        other => Err(Fault::Usage(format!("there is no command `{other}`\n{USAGE}"))),
    }
}
