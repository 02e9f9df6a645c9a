//! `ringfence-conformance [--tier TIER] [--suite SUITE] [--only ID] [--json]`
//!
//! Answers to: `cargo xtask conformance`. Must not: end with 0 where a case failed or none was run.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the suite's printer")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use ringfence_conformance::canary::{ENVIRONMENT, VARIABLE};
use ringfence_conformance::kinds::condition;
use ringfence_conformance::run::{Options, run};
use ringfence_types::TierName;

/// Brings the loopback of a new network namespace up, and becomes the suite.
const LOOPBACK: &str = "ip link set lo up && exec \"$@\"";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [hidden, rest @ ..] = arguments.as_slice()
        && hidden == condition::HIDDEN_ARGUMENT
        && let [asked, condition, code, worker, folder] = rest
    {
        println!("{}", condition::told([asked, condition, code, worker, folder]));
        return ExitCode::SUCCESS;
    }
    match parse(&arguments) {
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
        Ok(_) if std::env::var_os(VARIABLE).is_none() => again(&arguments),
        Ok((options, json)) => suite(&options, json),
    }
}

/// Starts this program again where the canaries can live: the one in the environment has to be there from the start, the
/// listeners get a network of their own where that can be had, and what is left in the temporary folder is the suite's.
fn again(arguments: &[String]) -> ExitCode {
    let Ok(folder) = tempfile::Builder::new().prefix("ringfence-suite-").tempdir() else {
        eprintln!("error: the suite's temporary folder can't be made");
        return ExitCode::from(2);
    };
    // Other users have to reach what is below it: one condition is not to be root.
    if let Err(error) = std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)) {
        eprintln!("error: the suite's temporary folder can't be opened to others: {error}");
        return ExitCode::from(2);
    }
    let Ok(own) = std::env::current_exe() else {
        eprintln!("error: the suite can't find itself");
        return ExitCode::from(2);
    };
    let mut command = if has_own_network() { in_own_network(&own) } else { Command::new(&own) };
    command.args(arguments).env(VARIABLE, ENVIRONMENT).env("TMPDIR", folder.path());
    match command.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)),
        Err(error) => {
            eprintln!("error: the suite can't start itself again: {error}");
            ExitCode::from(2)
        }
    }
}

/// Root alone: for an ordinary user it would take a user namespace, and the suite would no longer run as that user.
fn has_own_network() -> bool {
    let mut tried = Command::new("unshare");
    tried.args(["-n", "sh", "-c", LOOPBACK, "sh", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    rustix::process::geteuid().is_root() && tried.status().is_ok_and(|status| status.success())
}

fn in_own_network(own: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", LOOPBACK, "sh"]).arg(own);
    command
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
    let suite = |name: &str| name.parse();
    let mut options = Options { tier: TierName::Embedded, only: None, suite: suite("cases")? };
    let mut json = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned().ok_or_else(|| format!("`{argument}` takes a value"));
        match argument.as_str() {
            "--tier" => options.tier = tier(&value()?)?,
            "--only" => options.only = Some(value()?),
            "--suite" => options.suite = suite(&value()?)?,
            "--json" => json = true,
            unknown => return Err(format!("`{unknown}` is not an option; use --tier, --suite, --only or --json")),
        }
    }
    Ok((options, json))
}

/// A tier as policies name it, or `bare`, which no policy can name.
fn tier(name: &str) -> Result<TierName, String> {
    if name == TierName::Bare.as_str() {
        return Ok(TierName::Bare);
    }
    name.parse().map_err(|error| format!("{error}, or bare"))
}
