//! `ringfence exec`: one command in the process tier's jail, its bytes as they come, its exit code.
//!
//! Answers to: `lib`. Must not: hand a descriptor of this process's own to the command, or give a command's exit code
//! where a limit or a refusal ended it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringfence_api::{exit_code_of_status, outcome_to_json};
use ringfence_policy::Policy;
use ringfence_types::{ByteSize, Command, GuestPath, Outcome, Status, Stdin};

use crate::args::{ExecArgs, SessionArgs};
use crate::commands::changes;
use crate::commands::run::{Watcher, interruptible, put, request};
use crate::fault::Fault;
use crate::opened::{Opened, audit_log};
use crate::printer::Printer;
use crate::root::{EngineOptions, Root};
use crate::{input, loading, show};

/// The workspace of a command without a policy.
const WORKSPACE: ByteSize = ByteSize::from_mib(64);

/// Runs it and gives the exit code.
pub async fn exec(root: &Root, args: ExecArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let session = args.session();
    let command = command(&args)?;
    let limit = Some(session.limits.load);
    let (as_json, folder) = (args.json, args.changes.clone());
    let (session, policy, files) = loading::read(limit, "reading the policy and files", move || {
        let (policy, files) = (policy(&session)?, input::files(&session.files)?);
        Ok((session, policy, files))
    })
    .await?;
    let options = EngineOptions {
        audit: Some(audit_log(session.audit.as_deref(), &policy)?),
        python: session.python.clone(),
        ..EngineOptions::in_memory()
    };
    let opened = Opened::new(root, options, printer)?;
    let mut inside = opened.engine.session(request(&session, policy, None)?)?;
    put(&mut inside, files).await?;
    let command = command.reading(own_input().map_err(|error| Fault::usage(format!("no input: {error}")))?);
    let destination = changes::destination(folder.as_deref(), &inside)?;
    let mut outcome = {
        let mut watcher = Watcher::new(printer, !as_json);
        let (handle, progress) = (inside.handle(), watcher.progress());
        interruptible(inside.exec(command, &mut watcher), &handle, progress, || false).await?
    };
    changes::collect(inside, destination, &mut outcome).await?;
    match as_json {
        true => printer.line(&outcome_to_json(&outcome).to_string()),
        false => {
            show::command(printer, &outcome);
            changes::tell(&outcome, folder.as_deref(), printer);
        }
    }
    opened.close()?;
    Ok(exit_code(&outcome))
}

fn command(args: &ExecArgs) -> Result<Command, Fault> {
    let variable = |item: &String| match item.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Fault::usage(format!("the variable `{item}` has no `=`")).hint("write it as `--env LANG=C`")),
    };
    let environment = args.environment.iter().map(variable).collect::<Result<_, _>>()?;
    let command = Command::new(args.command.iter().cloned()).and_then(|command| command.with_environment(environment));
    let folder = args.folder.as_deref().map(GuestPath::resolve).transpose().map_err(Fault::usage)?;
    let mut command = command.map_err(Fault::usage)?;
    command.folder = folder;
    Ok(command)
}

/// The policy's file, or the closed policy with a workspace.
fn policy(args: &SessionArgs) -> Result<Policy, Fault> {
    let policy = input::policy(args)?;
    Ok(if args.policy.is_none() { policy.with_workspace(WORKSPACE) } else { policy })
}

/// This command's own standard input through a pipe. The descriptor itself stays here: it may be a terminal, or a file
/// that can be written to as well.
fn own_input() -> io::Result<Stdin> {
    let (reading, mut writing) = io::pipe()?;
    let pass_on = move || {
        // The end of either side is the end of it.
        let _ = io::copy(&mut io::stdin().lock(), &mut writing);
    };
    std::thread::Builder::new().name("ringfence-input".to_owned()).spawn(pass_on)?;
    Ok(Stdin::Pipe(Arc::new(OwnedFd::from(reading))))
}

/// The command's own, unless its output was cut.
fn exit_code(outcome: &Outcome) -> u8 {
    match outcome.exit_code {
        Some(_) if outcome.dropped != Default::default() => exit_code_of_status(Status::Limited),
        Some(code) => u8::try_from(code).unwrap_or(u8::MAX),
        None => exit_code_of_status(outcome.status),
    }
}
