//! `ringfence explain`: which tier would run a program, and why not the others.
//!
//! Answers to: `lib`. Must not: run anything of the program, or leave a trace of it in the audit log.

use ringfence_api::Code;
use ringfence_policy::Policy;
use ringfence_session::Request;
use serde_json::json;

use crate::args::ExplainArgs;
use crate::fault::Fault;
use crate::input;
use crate::loading;
use crate::printer::Printer;
use crate::root::{EngineOptions, Root};
use crate::table::table;

/// Prints the table; 0 where some tier fits, 5 where none does.
pub async fn explain(root: &Root, args: ExplainArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let limit = Some(loading::USUAL).filter(|_| args.program.file.as_ref().is_none_or(|file| file.as_os_str() != "-"));
    let ExplainArgs { program, policy, .. } = args;
    let read = move || {
        let policy = policy.as_deref().map_or_else(|| Ok(Policy::closed()), input::policy_file)?;
        Ok((input::program(&program)?, policy))
    };
    let (source, mut policy) = loading::read(limit, "reading the program", read).await?;
    if let Some(tier) = args.tier {
        policy = policy.with_tier(tier)?;
    }
    let engine = (root.build)(EngineOptions::in_memory())?;
    let request = Request { engine: args.engine.wanted(), ..Request::new(policy) };
    let choice = engine.explain(request, &source.code).await?;
    let taken = choice.considered.iter().find(|row| row.fit);
    if args.json {
        let answer = json!({"tier": taken.map(|row| row.tier), "considered": choice.considered});
        printer.line(&answer.to_string());
    } else {
        let row = |row: &ringfence_types::Considered| {
            let chosen = taken.is_some_and(|taken| taken.tier == row.tier);
            let fit = if chosen {
                "taken"
            } else if row.fit {
                "fits"
            } else {
                "no"
            };
            vec![row.tier.to_string(), fit.to_owned(), row.why.clone()]
        };
        printer.text(&table(&["TIER", "FIT", "WHY"], choice.considered.iter().map(row).collect()));
    }
    Ok(if taken.is_some() { 0 } else { Code::Unsupported.row().exit })
}
