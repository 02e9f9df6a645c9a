//! Machines on which something is missing: which tier runs there and how strong, and which refuses with what remedy.
//!
//! Answers to: `run`. Must not: take a refusal for a run that the table promises, or the reverse; or pass a condition that
//! could not be set up: it is told as not run.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_types::{Strength, TierName};
use serde_json::Value as Json;

use super::condition::HIDDEN_ARGUMENT;
use crate::Check;
use crate::case::Case;
use crate::report::{Row, State};
use crate::stage::Stage;

const NOBODY: u32 = 65534;

/// What a tier does where something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The code runs behind a wall of this strength.
    Runs(Strength),
    /// The code does not run, and the reason holds these words: what is missing, or what to do.
    Refused(&'static str),
    /// The condition is of no matter to this tier.
    Nothing,
}

/// The table. A pair that is not in it fails.
pub fn wanted(tier: TierName, condition: &str) -> Option<Want> {
    use TierName::{Embedded, Microvm, Process, Wasm};
    use Want::{Nothing, Refused, Runs};
    let want = match (tier, condition) {
        (Embedded, "no unprivileged user namespaces") => Runs(Strength::Process),
        (Embedded, "Landlock ABI 0") => Runs(Strength::Process),
        (Embedded, "nested in Docker with default seccomp") => Runs(Strength::Process),
        // What is left is weaker than the floor, which the policy leaves at `process`.
        (Process, "no unprivileged user namespaces" | "nested in Docker with default seccomp") => {
            Refused("namespaces can't be made: ")
        }
        (Process, "Landlock ABI 0") => Refused("landlock is missing"),
        (Embedded | Process, "not root") => Runs(Strength::Process),
        (Process, "cgroup v2 not delegated") => Runs(Strength::Process),
        (Embedded, "cgroup v2 not delegated") => Nothing,
        // The worker can't lock itself in, and ends before it has seen the code.
        (Embedded, "seccomp filter refused") => Refused("use a kernel built with CONFIG_SECCOMP_FILTER"),
        (Process, "seccomp filter refused") => Refused("seccomp"),
        (Embedded | Process, "worker binary missing") => Refused("check that the file is there"),
        (Embedded | Process, "disk full") => Refused("could not be written: No space left on device"),
        (Embedded, "named package missing") => Refused("packages"),
        (Process, "named package missing") => Refused("no_such_package_xyz"),
        // These ask for the tier that is missing: no other is taken instead.
        (Embedded | Process | Wasm, "/dev/kvm missing") => Refused("microvm: not in this build"),
        (Embedded | Process | Microvm, "wasm file missing or wrong hash") => Refused("wasm: not in this build"),
        _ => return None,
    };
    Some(want)
}

/// The tier that the policy asks for.
pub fn asked(tier: TierName, condition: &str) -> TierName {
    match condition {
        "/dev/kvm missing" => TierName::Microvm,
        "wasm file missing or wrong hash" => TierName::Wasm,
        _ => tier,
    }
}

/// Every condition of the case, each with a row.
pub fn rows(stage: &Stage, case: &Case) -> Result<Vec<Row>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let worker = runnable_copy(folder.path(), "ringfence", &stage.worker).map_err(|error| error.to_string())?;
    let one = |condition: &String| row(stage.tier, case, condition, &worker);
    Ok(case.names("conditions").iter().map(one).collect())
}

fn row(tier: TierName, case: &Case, condition: &str, worker: &Path) -> Row {
    let row = |verdict: &str, expected: String, faults: Vec<String>, state| Row {
        id: format!("{} {condition}", case.id),
        suite: "attack",
        verdict: verdict.to_owned(),
        expected,
        faults,
        state,
    };
    let expected = match wanted(tier, condition) {
        None => {
            let why = format!("the table does not say what the {tier} tier does here");
            return row("unknown", "in the table".to_owned(), vec![why], State::Failed);
        }
        Some(Want::Nothing) => return row("n/a", "n/a".to_owned(), Vec::new(), State::NotApplicable),
        Some(expected) => expected,
    };
    let words = match expected {
        Want::Runs(strength) => format!("runs at {strength}"),
        Want::Refused(says) => format!("refused: {says}"),
        Want::Nothing => "n/a".to_owned(),
    };
    let told = match under(asked(tier, condition), condition, worker, case.text("run")) {
        Ok(told) => told,
        Err(why) => return row("broken", words, vec![why], State::Failed),
    };
    if let Some(why) = told.get("not_set").and_then(Json::as_str) {
        return row("not run", words, vec![format!("the condition can't be set up here: {why}")], State::NotRun);
    }
    match judged(expected, asked(tier, condition), &told) {
        Ok(verdict) => row(&verdict, words, Vec::new(), State::Passed),
        Err(why) => row(&verdict(&told), words, vec![format!("{why}: {told}")], State::Failed),
    }
}

/// A copy that any user can run.
fn runnable_copy(folder: &Path, name: &str, program: &Path) -> std::io::Result<PathBuf> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    let copy = folder.join(name);
    std::fs::copy(program, &copy)?;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))?;
    Ok(copy)
}

/// Shell words that change what the program sees of the machine before it starts, in a mount namespace of its own.
fn mounts(condition: &str, folder: &Path) -> Option<String> {
    match condition {
        "cgroup v2 not delegated" => {
            Some("mount -t tmpfs -o ro,mode=755 ringfence-conformance /sys/fs/cgroup".to_owned())
        }
        "disk full" => {
            Some(format!("mount -t tmpfs -o size=128k,mode=700 ringfence-conformance '{}'", folder.display()))
        }
        _ => None,
    }
}

/// What this program tells when it runs the code under a condition.
fn under(asked: TierName, condition: &str, worker: &Path, code: &str) -> Result<Json, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let is_root = rustix::process::geteuid().is_root();
    let mut own = std::env::current_exe().map_err(|error| error.to_string())?;
    if condition == "not root" && is_root {
        // What was built may lie in a home that others can't enter.
        own = runnable_copy(folder.path(), "suite", &own).map_err(|error| error.to_string())?;
    }
    let mut command = match mounts(condition, folder.path()) {
        None => Command::new(own),
        Some(_) if !is_root => return Ok(serde_json::json!({"not_set": "mounts need root"})),
        Some(mounts) => {
            let mut command = Command::new("unshare");
            let script = format!("if {mounts}; then exec \"$@\"; else echo '{{\"not_set\": \"no mount\"}}'; fi");
            command.args(["-m", "sh", "-c", &script, "sh"]).arg(own);
            command
        }
    };
    command.args([HIDDEN_ARGUMENT, asked.as_str(), condition, code]).arg(worker).arg(folder.path());
    if condition == "not root" && is_root {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    let output = command.output().map_err(|error| format!("{condition}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).map_err(|_| {
        format!("{condition}: the program told nothing: {text}{}", String::from_utf8_lossy(&output.stderr))
    })
}

fn verdict(told: &Json) -> String {
    let text = |key: &str| told.get(key).and_then(Json::as_str).unwrap_or_default();
    match text("stdout").contains("ran") {
        true => format!("runs at {}", text("strength")),
        false => "refused".to_owned(),
    }
}

/// Exactly what the table says.
pub fn judged(want: Want, asked: TierName, told: &Json) -> Result<String, String> {
    let text = |key: &str| told.get(key).and_then(Json::as_str).unwrap_or_default();
    let check = |holds: bool, why: &str| -> Check { if holds { Ok(()) } else { Err(why.to_owned()) } };
    let ran = text("stdout").contains("ran");
    match want {
        Want::Nothing => {}
        Want::Runs(strength) => {
            check(ran && text("status") == "completed", "it did not run")?;
            check(text("tier") == asked.as_str(), "it ran on another tier")?;
            check(text("strength") == strength.as_str(), "it ran at another strength")?;
        }
        Want::Refused(says) => {
            check(!ran, "it ran although it can't be locked in")?;
            check(text("reason").contains(says), "the refusal does not say what is missing")?;
        }
    }
    Ok(verdict(told))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_no_run_and_a_run_no_refusal() {
        let ran = json!({"status": "completed", "stdout": "ran\n", "tier": "process", "strength": "process"});
        let refused = json!({"status": "unsupported", "stdout": "", "reason": "no seccomp here; use a newer kernel"});
        let runs = Want::Runs(Strength::Process);
        let refuses = Want::Refused("seccomp");
        let check = |want, told: &Json, expected: Result<&str, &str>| {
            let judged = judged(want, TierName::Process, told);
            assert_eq!(judged.as_deref().map_err(String::as_str), expected);
        };
        check(runs, &ran, Ok("runs at process"));
        check(runs, &refused, Err("it did not run"));
        check(refuses, &refused, Ok("refused"));
        check(refuses, &ran, Err("it ran although it can't be locked in"));
        check(Want::Refused("landlock"), &refused, Err("the refusal does not say what is missing"));
        check(Want::Runs(Strength::Kernel), &ran, Err("it ran at another strength"));
        let elsewhere = json!({"status": "completed", "stdout": "ran\n", "tier": "embedded", "strength": "process"});
        check(runs, &elsewhere, Err("it ran on another tier"));
    }
}
