//! `ringfence freeze` and `thaw`: sessions of every process of this user stand still, and go on.
//!
//! Answers to: `lib`. Must not: need an engine; the processes that have one are asked, as by `ps` and `kill`.

use ringfence_session::Target;

use crate::args::FreezeArgs;
use crate::control::{Reply, Request, Wanted, ask_all};
use crate::fault::Fault;
use crate::printer::Printer;

/// Makes them stand still, or go on.
pub fn freeze(args: FreezeArgs, still: bool, printer: &mut Printer) -> Result<u8, Fault> {
    let target = match (&args.id, args.tenant) {
        (Some(id), _) => id.parse::<Wanted>().map_err(Fault::usage)?.0,
        (None, Some(tenant)) => Target::Tenant(tenant),
        (None, None) => Target::All,
    };
    let command = if still { "freeze" } else { "thaw" };
    let by = format!("`ringfence {command}`");
    let (mut total, mut failed) = (0, false);
    for answered in ask_all(&Request::Freeze { target: Wanted(target), still, by, reason: args.reason })? {
        let why = match answered.reply {
            Ok(Reply::Frozen { count, faults }) => {
                total += count;
                faults
            }
            Ok(Reply::Failed { why }) | Err(why) => vec![format!("process {}: {why}", answered.pid)],
            Ok(_) => vec![format!("process {}: it answered something else", answered.pid)],
        };
        failed |= !why.is_empty();
        why.iter().for_each(|why| printer.complaint(why, None));
    }
    let done = if still { "frozen" } else { "thawed" };
    printer.line(&match total {
        1 => format!("1 session {done}"),
        count => format!("{count} sessions {done}"),
    });
    if args.id.is_some() && total == 0 && !failed {
        let state = if still { "goes on" } else { "stands still" };
        return Err(Fault::new(
            ringfence_api::Code::NoSession,
            format!("no process has that run or session, and it {state}"),
        )
        .hint("`ringfence top` lists them"));
    }
    Ok(if failed { ringfence_api::Code::Internal.row().exit } else { 0 })
}
