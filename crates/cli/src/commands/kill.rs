//! `ringfence ps`, `kill`, `resume` and `holds`: what runs in every process of this user, and how it is stopped.
//!
//! Answers to: `lib`. Must not: need an engine; the processes that have one are asked.

use ringfence_bridge::{Hold, HoldTarget};
use ringfence_session::Target;
use serde_json::json;

use crate::args::{KillArgs, ResumeArgs};
use crate::control::{Answered, Reply, Request, SessionRow, Wanted, ask_all, holds};
use crate::fault::Fault;
use crate::printer::Printer;
use crate::table::table;

impl From<crate::folders::FolderError> for Fault {
    fn from(error: crate::folders::FolderError) -> Self {
        Self::usage(error)
    }
}
impl From<holds::HoldsError> for Fault {
    fn from(error: holds::HoldsError) -> Self {
        Self::usage(error)
    }
}

/// Lists the sessions.
pub fn ps(as_json: bool, printer: &mut Printer) -> Result<u8, Fault> {
    let mut rows: Vec<(u32, SessionRow)> = Vec::new();
    for answered in ask_all(&Request::List)? {
        match answered.reply {
            Ok(Reply::Sessions { sessions }) => rows.extend(sessions.into_iter().map(|row| (answered.pid, row))),
            other => complain(printer, answered.pid, other),
        }
    }
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(pid, row)| {
                json!({"pid": pid, "session": row.session, "run": row.run, "tenant": row.tenant, "tier": row.tier,
                    "calls": row.calls, "age_ms": row.age_ms})
            })
            .collect();
        printer.line(&json!(rows).to_string());
        return Ok(0);
    }
    let dash = || "-".to_owned();
    let cells = |(pid, row): &(u32, SessionRow)| {
        let calls = if row.calls.is_empty() { dash() } else { row.calls.join(",") };
        vec![
            pid.to_string(),
            row.session.to_string(),
            row.run.as_ref().map_or_else(dash, ToString::to_string),
            row.tenant.to_string(),
            row.tier.map_or_else(dash, |tier| tier.to_string()),
            format!("{}.{}s", row.age_ms / 1000, row.age_ms % 1000 / 100),
            calls,
        ]
    };
    let heads = ["PID", "SESSION", "RUN", "TENANT", "TIER", "AGE", "CALLS"];
    printer.text(&table(&heads, rows.iter().map(cells).collect()));
    Ok(0)
}

fn complain(printer: &mut Printer, pid: u32, reply: Result<Reply, String>) {
    let why = match reply {
        Ok(Reply::Failed { why }) | Err(why) => why,
        Ok(_) => "it answered something else".to_owned(),
    };
    printer.complaint(&format!("process {pid}: {why}"), None);
}

/// Ends sessions, and sets a kill switch with `--hold`.
pub fn kill(args: KillArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let target = match (&args.id, args.tenant, args.function) {
        (Some(id), ..) => id.parse::<Wanted>().map_err(Fault::usage)?.0,
        (None, Some(tenant), _) => Target::Tenant(tenant),
        (None, None, Some(function)) => Target::Function(function),
        (None, None, None) => Target::All,
    };
    let hold = match held(&target).filter(|_| args.hold) {
        Some(target) => {
            let hold = Hold { target, by: who(), reason: args.reason.clone() };
            // On file first: a process that starts now finds it there.
            holds::set(&hold)?;
            Some(hold)
        }
        None => None,
    };
    let (by, reason) = ("`ringfence kill`".to_owned(), args.reason);
    let answers = ask_all(&Request::Kill { target: Wanted(target), by, reason, hold: hold.clone() })?;
    let (count, failed) = tally(answers, printer);
    printer.line(&match count {
        1 => "1 session ended".to_owned(),
        count => format!("{count} sessions ended"),
    });
    if let Some(hold) = hold {
        printer.line(&format!("held: {}; `ringfence resume {}` releases it", hold.target, hold.target));
    }
    if args.id.is_some() && count == 0 && !failed {
        return Err(Fault::new(ringfence_api::Code::NoSession, "no process has that run or session")
            .hint("`ringfence ps` lists them"));
    }
    Ok(if failed { ringfence_api::Code::Internal.row().exit } else { 0 })
}

fn held(target: &Target) -> Option<HoldTarget> {
    match target {
        Target::All => Some(HoldTarget::All),
        Target::Tenant(tenant) => Some(HoldTarget::Tenant(tenant.clone())),
        Target::Function(function) => Some(HoldTarget::Function(function.clone())),
        Target::Session(_) | Target::Run(_) => None,
    }
}

/// How many sessions were ended, and whether a process could not be asked.
fn tally(answers: Vec<Answered>, printer: &mut Printer) -> (usize, bool) {
    let (mut total, mut failed) = (0, false);
    for answered in answers {
        match answered.reply {
            Ok(Reply::Killed { count }) => total += count,
            Ok(Reply::Done) => {}
            other => {
                failed = true;
                complain(printer, answered.pid, other);
            }
        }
    }
    (total, failed)
}

/// Who sets or releases a hold, for the log.
fn who() -> String {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    user.unwrap_or_else(|| format!("uid {}", crate::folders::own_uid()))
}

/// Releases kill switches.
pub fn resume(args: ResumeArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let one: Option<HoldTarget> = match (&args.id, args.tenant, args.function) {
        (Some(id), ..) => Some(id.parse().map_err(Fault::usage)?),
        (None, Some(tenant), _) => Some(HoldTarget::Tenant(tenant)),
        (None, None, Some(function)) => Some(HoldTarget::Function(function)),
        (None, None, None) => None,
    };
    let mut released = holds::release(|hold| one.as_ref().is_none_or(|target| hold.target == *target))?;
    if let (Some(target), true) = (&one, released.is_empty()) {
        // Not on file, but a process may still have it.
        released.push(Hold { target: target.clone(), by: who(), reason: None });
        printer.note(&format!("`{target}` was not held on file; every process is told all the same"));
    }
    let mut failed = false;
    for hold in &released {
        let hold = Hold { by: who(), reason: args.reason.clone(), ..hold.clone() };
        failed |= tally(ask_all(&Request::Release { hold: hold.clone() })?, printer).1;
        printer.line(&format!("released: {}", hold.target));
    }
    if released.is_empty() {
        printer.line("nothing is held");
    }
    Ok(if failed { ringfence_api::Code::Internal.row().exit } else { 0 })
}

/// Lists the kill switches on file.
pub fn holds(as_json: bool, printer: &mut Printer) -> Result<u8, Fault> {
    let holds = holds::read()?;
    if as_json {
        printer.line(&json!(holds).to_string());
        return Ok(0);
    }
    let row = |hold: &Hold| {
        vec![hold.target.to_string(), hold.by.clone(), hold.reason.clone().unwrap_or_else(|| "-".to_owned())]
    };
    printer.text(&table(&["TARGET", "BY", "REASON"], holds.iter().map(row).collect()));
    Ok(0)
}
