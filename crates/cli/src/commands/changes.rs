//! What a program changed in copy-on-write mounts: told, and kept in a folder with `--changes`.
//!
//! Answers to: `run` and `exec`. Must not: look while the session's processes still run.

use std::path::Path;

use ringfence_session::Session;
use ringfence_session::changes::Destination;
use ringfence_types::{ChangeKind, Changes, Outcome};

use crate::fault::Fault;
use crate::printer::Printer;

/// The folder of `--changes`, before anything runs: a policy without such a mount, or a folder that is in use, is told
/// then.
pub fn destination(folder: Option<&Path>, session: &Session) -> Result<Option<Destination>, Fault> {
    let Some(folder) = folder else { return Ok(None) };
    session.differ()?;
    Destination::new(folder).map(Some).map_err(Fault::usage)
}

/// Ends the session, and puts what it changed into the outcome and the folder.
pub async fn collect(
    mut session: Session,
    destination: Option<Destination>,
    outcome: &mut Outcome,
) -> Result<(), Fault> {
    if session.grant().needs().mounts_cow {
        session.shut();
        outcome.changes = Some(match destination {
            Some(destination) => session.save_changes(destination).await?,
            None => session.changes().await?,
        });
    }
    Ok(())
}

/// Says in one line how much there is.
pub fn tell(outcome: &Outcome, folder: Option<&Path>, printer: &mut Printer) {
    let Some(changes) = &outcome.changes else { return };
    if changes.changes.is_empty() && changes.skipped.is_empty() && changes.complete {
        return;
    }
    let place = match folder {
        Some(folder) => format!("kept in `{}`", folder.display()),
        None => "not kept; `--changes DIR` keeps it".to_owned(),
    };
    printer.note(&format!("changed in copy-on-write mounts: {}; {place}", counts(changes)));
}

fn counts(changes: &Changes) -> String {
    let count = |kind: ChangeKind| format!("{} {}", changes.count(kind), kind.as_str());
    let mut text = [ChangeKind::Added, ChangeKind::Changed, ChangeKind::Removed].map(count).join(", ");
    if !changes.skipped.is_empty() {
        text.push_str(&format!(", {} left out", changes.skipped.len()));
    }
    if !changes.complete {
        text.push_str(", and more than is looked at");
    }
    text
}
