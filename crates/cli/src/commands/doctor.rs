//! `ringfence doctor`: every tier and folder really tried, with the remedy.
//!
//! Answers to: `lib`. Must not: assume; what it reports as ready has just worked.

use std::path::Path;
use std::process::Stdio;

use ringfence_api::Code;
use ringfence_session::TierReport;
use ringfence_tier::Probe;
use serde::Serialize;

use crate::control::{Listener, holds};
use crate::fault::Fault;
use crate::folders;
use crate::opened::default_log;
use crate::printer::Printer;
use crate::root::{EngineOptions, Root};
use crate::table::table;

/// What was found of one thing.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ready,
    Degraded,
    Unusable,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Unusable => "unusable",
        }
    }
}

/// Tries everything; 0 where some tier can be used and the log can be written, 5 where not.
pub async fn doctor(root: &Root, as_json: bool, printer: &mut Printer) -> Result<u8, Fault> {
    let engine = (root.build)(EngineOptions::in_memory())?;
    let tiers: Vec<Finding> = engine.probe().await.into_iter().map(tier).collect();
    let usable = tiers.iter().any(|finding| finding.state != State::Unusable);
    let log = audit_log(root);
    let writable = log.state != State::Unusable;
    let mut findings = tiers;
    findings.extend([log, control_socket(&engine), kill_switches(), python().await]);
    if as_json {
        printer.line(&serde_json::json!(findings).to_string());
    } else {
        let row = |finding: &Finding| {
            let remedy = finding.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
            vec![finding.what.clone(), finding.state.as_str().to_owned(), format!("{}{remedy}", finding.detail)]
        };
        printer.text(&table(&["WHAT", "STATE", "DETAIL"], findings.iter().map(row).collect()));
    }
    Ok(if usable && writable { 0 } else { Code::TierUnavailable.row().exit })
}

fn tier(report: TierReport) -> Finding {
    let what = format!("tier {}", report.tier);
    match report.probe {
        Probe::Ready(strength) => {
            let engines: Vec<String> = report
                .capabilities
                .engines
                .iter()
                .map(|info| format!("{} {}", info.engine.as_str(), info.version))
                .collect();
            let engines = if engines.is_empty() { "CPython of this machine".to_owned() } else { engines.join(", ") };
            let at_best = report.capabilities.at_best;
            let level = if at_best.is_empty() { String::new() } else { format!("{at_best}; ") };
            let detail = format!("strength `{strength}`; {level}{engines}");
            Finding { what, state: State::Ready, detail, remedy: None }
        }
        Probe::Degraded { strength, missing, remedy } => {
            let detail = format!("strength `{strength}`; {missing}");
            Finding { what, state: State::Degraded, detail, remedy: Some(remedy) }
        }
        Probe::Unusable { why, remedy } => Finding { what, state: State::Unusable, detail: why, remedy: Some(remedy) },
    }
}

fn found(what: &str, tried: Result<String, (String, &str)>, otherwise: State) -> Finding {
    let what = what.to_owned();
    match tried {
        Ok(detail) => Finding { what, state: State::Ready, detail, remedy: None },
        Err((detail, remedy)) => Finding { what, state: otherwise, detail, remedy: Some(remedy.to_owned()) },
    }
}

/// Opens the log as a run would, and closes it again.
fn audit_log(root: &Root) -> Finding {
    let remedy = "mend that, or give `--audit FILE`";
    let tried = folders::state_made().map(default_log).map_err(|error| (error.to_string(), remedy)).and_then(|path| {
        let options = EngineOptions { audit: Some(path.clone()), ..EngineOptions::in_memory() };
        let opened = (root.build)(options).map_err(|error| (error.to_string(), remedy))?;
        opened.log().close().map_err(|error| (error.to_string(), remedy))?;
        Ok(path.display().to_string())
    });
    found("audit log", tried, State::Unusable)
}

fn control_socket(engine: &ringfence_session::Engine) -> Finding {
    let tried = Listener::start(engine.clone()).map(|listener| listener.path().display().to_string());
    let remedy = "mend that, so that `ringfence kill` reaches every run";
    found("control socket", tried.map_err(|error| (error.to_string(), remedy)), State::Degraded)
}

fn kill_switches() -> Finding {
    let tried = match holds::read() {
        Ok(holds) if holds.is_empty() => Ok("none set".to_owned()),
        Ok(holds) => {
            let targets: Vec<String> = holds.iter().map(|hold| hold.target.to_string()).collect();
            Err((format!("set on {}", targets.join(", ")), "`ringfence resume TARGET` releases one"))
        }
        Err(error) => Err((error.to_string(), "nothing runs until then")),
    };
    found("kill switches", tried, State::Degraded)
}

/// Whether `--exports` can work: Python is started and asked for its version.
async fn python() -> Finding {
    const ASK: &str = "import sys; print(sys.version.split()[0]); sys.exit(0 if sys.version_info >= (3, 10) else 1)";
    let remedy = "install Python 3.10 or newer, or name it in RINGFENCE_PYTHON";
    let python = std::env::var_os("RINGFENCE_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = tokio::process::Command::new(&python);
    command.args(["-c", ASK]).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let name = Path::new(&python).display().to_string();
    let tried = match command.output().await {
        Ok(output) => {
            let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if output.status.success() {
                Ok(format!("{name} {version}"))
            } else {
                Err((format!("{name} {version} is too old or does not start"), remedy))
            }
        }
        Err(error) => Err((format!("{name}: {}", crate::fault::plain(&error)), remedy)),
    };
    found("python for --exports", tried, State::Degraded)
}
