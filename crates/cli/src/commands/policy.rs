//! `ringfence policy`: check, schema, reference, show.
//!
//! Answers to: `lib`. Must not: decide; the policy crate does.

use ringfence_policy::Policy;

use crate::args::PolicyCommand;
use crate::commands::reference::reference;
use crate::fault::Fault;
use crate::input::policy_file;
use crate::printer::Printer;
use crate::root::{EngineOptions, Root};

/// Runs it and gives the exit code.
pub fn policy(root: &Root, command: PolicyCommand, printer: &mut Printer) -> Result<u8, Fault> {
    match command {
        PolicyCommand::Check { file } => {
            let policy = policy_file(&file)?;
            printer.line(&format!("{}: policy `{}` is good", file.display(), policy.name()));
        }
        PolicyCommand::Schema => {
            // A schema is made of texts and numbers.
            printer.line(&serde_json::to_string_pretty(&Policy::schema()).unwrap_or_default());
        }
        PolicyCommand::Reference => {
            let engine = (root.build)(EngineOptions::in_memory())?;
            let schema = serde_json::to_value(Policy::schema()).unwrap_or_default();
            printer.text(&reference(&schema, &engine.capabilities()));
        }
        PolicyCommand::Show { file } => {
            let policy = file.as_deref().map_or_else(|| Ok(Policy::closed()), policy_file)?;
            printer.text(&policy.show());
        }
    }
    Ok(0)
}
