//! `ringfence-conformance [--tier embedded|bare] [--suite cases|attack|use|humaneval|agent|all] [--only ID] [--json]`
//!
//! Answers to: `cargo xtask conformance`. Must not: end with 0 where a case failed or none was run.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the suite's printer")]

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use ringfence_conformance::canary::{ENVIRONMENT, VARIABLE};
use ringfence_conformance::kinds::environment;
use ringfence_conformance::run::{Options, Suite, run};
use ringfence_types::TierName;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [hidden, condition, code, worker] = arguments.as_slice()
        && hidden == environment::HIDDEN_ARGUMENT
    {
        println!("{}", environment::told(condition, code, worker));
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(VARIABLE).is_none() {
        // The canary in the environment has to be there from the start.
        let error = Command::new("/proc/self/exe").args(&arguments).env(VARIABLE, ENVIRONMENT).exec();
        eprintln!("error: the suite can't start itself again: {error}");
        return ExitCode::from(2);
    }
    match parse(&arguments) {
        Ok((options, json)) => suite(&options, json),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

fn suite(options: &Options, json: bool) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let report = runtime.block_on(run(options));
    match serde_json::to_string_pretty(&report) {
        Ok(text) if json => println!("{text}"),
        _ => println!("{}", report.table()),
    }
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(arguments: &[String]) -> Result<(Options, bool), String> {
    let mut options = Options { tier: TierName::Embedded, only: None, suite: Suite::Cases };
    let mut json = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned().ok_or_else(|| format!("`{argument}` takes a value"));
        match argument.as_str() {
            "--tier" => options.tier = tier(&value()?)?,
            "--only" => options.only = Some(value()?),
            "--suite" => options.suite = suite_named(&value()?)?,
            "--json" => json = true,
            unknown => return Err(format!("`{unknown}` is not an option; use --tier, --suite, --only or --json")),
        }
    }
    Ok((options, json))
}

fn tier(name: &str) -> Result<TierName, String> {
    match name {
        "embedded" => Ok(TierName::Embedded),
        "bare" => Ok(TierName::Bare),
        other => Err(format!("the suite does not run on `{other}` yet; use `embedded` or `bare`")),
    }
}

fn suite_named(name: &str) -> Result<Suite, String> {
    Ok(match name {
        "cases" => Suite::Cases,
        "attack" => Suite::Attack,
        "use" => Suite::Use,
        "humaneval" => Suite::HumanEval,
        "agent" => Suite::Agent,
        "all" => Suite::All,
        other => return Err(format!("there is no suite `{other}`; use cases, attack, use, humaneval, agent or all")),
    })
}
