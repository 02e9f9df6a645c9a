//! The system calls and files that a jail closes, each tried by one program inside, and each with a row.
//!
//! Answers to: `run`. Must not: take a probe that tells nothing, or fails for a reason of its own, for a closed door.

use ringfence_types::{Source, Status, TierName};
use serde::Deserialize;

use crate::bare;
use crate::case::{Case, lines};
use crate::kinds::python::{open, run};
use crate::policy::Terms;
use crate::report::{Row, State};
use crate::seen::Seen;
use crate::stage::Stage;

const PROGRAM: &str = include_str!("../../cases/probes.py");
/// Other words by which a kernel or a jail says no: stricter than the table, or the same door closed earlier.
const CLOSED: [&str; 12] = [
    "EPERM",
    "EACCES",
    "ENOSYS",
    "ENOENT",
    "ENOTDIR",
    "EROFS",
    "ESRCH",
    "EAFNOSUPPORT",
    "ENETUNREACH",
    "EMFILE",
    "SIGSYS",
    "own",
];

/// One probe of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// `P…`.
    pub id: String,
    /// What the program calls it.
    pub probe: String,
    /// What it tells in the jail; `open` where the jail leaves it open.
    pub jail: String,
    /// `open` where it is open without protection; `open to root` where only to root.
    #[serde(default)]
    pub bare: Option<String>,
}

/// The table.
pub fn table() -> Result<Vec<Probe>, String> {
    lines(include_str!("../../cases/probes.jsonl"))
}

impl Probe {
    /// As in the table, or stricter.
    pub fn is_held(&self, told: &str) -> bool {
        let word = told.split(' ').next().unwrap_or_default();
        word == self.jail || (word != "open" && CLOSED.contains(&word))
    }
}

/// Every probe on the tier of the stage.
pub async fn inside(stage: &Stage) -> Result<Vec<Row>, String> {
    let terms = Terms { wall_ms: 60_000, ..Terms::default() };
    let mut session = open(stage, &terms)?;
    let (outcome, ..) = run(stage, &mut session, Source::new(PROGRAM)).await?;
    if outcome.status != Status::Completed {
        let why = format!("{:?} {:?} {:?}", outcome.exception, outcome.limit, outcome.reason);
        return Err(format!("the probes did not end: {} {why}", outcome.status.as_str()));
    }
    let row = |probe: Probe| {
        let told = told(&outcome.stdout, &probe.probe).unwrap_or("nothing");
        let faults = if probe.is_held(told) { Vec::new() } else { vec![format!("`{}` tells {told}", probe.probe)] };
        Row::judged(&name(&probe), "probes", told.to_owned(), probe.jail.clone(), faults)
    };
    Ok(table()?.into_iter().map(row).collect())
}

/// Every probe without protection: those that the jail closes must be open, or they prove nothing.
pub async fn unprotected() -> Result<Vec<Row>, String> {
    let seen = bare::play(&case()).await?;
    let is_root = rustix::process::geteuid().is_root();
    let row = |probe: Probe| {
        let told = told(&stdout(&seen), &probe.probe).unwrap_or("nothing").to_owned();
        match probe.bare.as_deref() {
            Some("open") => {}
            Some("open to root") if is_root => {}
            Some(_) => return Row::not_applicable(&name(&probe), "probes", "open to root alone"),
            None => {
                return Row::not_applicable(&name(&probe), "probes", "closed without protection too, or open in both");
            }
        }
        let why = vec![format!("`{}` tells {told}", probe.probe)];
        let expected = "open".to_owned();
        match told.split(' ').next() {
            Some("open") => Row::judged(&name(&probe), "probes", told, expected, Vec::new()),
            // A kernel without the call, the file or the family has no such door to close.
            Some("ENOSYS" | "ENOENT" | "EAFNOSUPPORT") => {
                Row { state: State::NotRun, ..Row::judged(&name(&probe), "probes", told, expected, why) }
            }
            _ => Row::judged(&name(&probe), "probes", told, expected, why),
        }
    };
    Ok(table()?.into_iter().map(row).collect())
}

fn name(probe: &Probe) -> String {
    format!("{} {}", probe.id, probe.probe)
}

fn stdout(seen: &Seen) -> String {
    crate::oracle::stdout(seen)
}

/// What the program tells of a probe.
fn told<'a>(out: &'a str, probe: &str) -> Option<&'a str> {
    out.lines().find_map(|line| line.strip_prefix(probe)?.strip_prefix('\t'))
}

/// The program as a case, for the tier without protection.
fn case() -> Case {
    let mut case = Case { id: "probes".to_owned(), ..Case::default() };
    case.input.insert("kind".to_owned(), "python".into());
    case.input.insert("code".to_owned(), PROGRAM.into());
    case
}

/// Whether the tier runs native code, which the probes are.
pub fn is_for(tier: TierName) -> bool {
    matches!(tier, TierName::Process | TierName::Container | TierName::Microvm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_holds_as_in_the_table_or_stricter() {
        #[track_caller]
        fn check(jail: &str, told: &str, held: bool) {
            let probe = Probe { id: "P00".into(), probe: "x".into(), jail: jail.into(), bare: None };
            assert_eq!(probe.is_held(told), held, "{jail} {told}");
        }
        check("EPERM", "EPERM", true);
        check("EPERM", "ENOSYS", true);
        check("EPERM", "SIGSYS", true);
        check("EPERM", "open", false);
        check("EPERM", "open 14", false);
        check("EPERM", "EFAULT", false);
        check("EPERM", "EINVAL", false);
        check("EPERM", "nothing", false);
        check("EPERM", "AttributeError", false);
        check("open", "open", true);
        check("open", "EACCES", true);
        check("ENOTTY", "ENOTTY", true);
    }

    #[test]
    fn every_probe_of_the_table_is_in_the_program() {
        let table = table().expect("read");
        assert_eq!(table.len(), 88);
        for probe in table {
            assert!(PROGRAM.contains(&format!("{:?}", probe.probe)), "{}", probe.probe);
        }
    }
}
