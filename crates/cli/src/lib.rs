//! The command line: parses it, runs the command, prints, gives the exit code.
//!
//! Answers to: `main`, which hands in how an engine is built. Must not: know a tier, or decide what a policy decides.
//! INVARIANT: this is the only crate that knows clap, and `printer` the only module that prints.
#![forbid(unsafe_code)]

mod approve;
mod args;
mod commands;
pub mod control;
mod environments;
mod exports;
mod fault;
mod filter;
mod folders;
mod input;
mod keys;
mod lines;
mod loading;
mod opened;
mod printer;
mod progress;
mod repr;
mod root;
mod show;
mod signals;
mod stdio;
mod table;

use std::future::Future;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use ringfence_api::Code;

pub use root::{BuildError, EngineOptions, Root};

use crate::args::{Cli, Command};
use crate::fault::Fault;
use crate::printer::Printer;

/// Runs the command that the process was started with.
pub fn main(root: &Root) -> ExitCode {
    let mut printer = Printer::default();
    let done = match parse(root) {
        Ok(cli) => dispatch(root, cli.command, &mut printer),
        Err(error) => refuse(&error, &mut printer),
    };
    // A command that failed has said why; one that went well did not where its output is lost.
    let done = done.and_then(|exit| printer.lost_output().map_or(Ok(exit), Err));
    match done {
        Ok(exit) => ExitCode::from(exit),
        Err(fault) => {
            printer.fault(&fault);
            ExitCode::from(fault.exit())
        }
    }
}

fn parse(root: &Root) -> Result<Cli, clap::Error> {
    let matches = Cli::command().version(root.version).try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

/// Help and the version go out as they are; a fault becomes one clear line.
fn refuse(error: &clap::Error, printer: &mut Printer) -> Result<u8, Fault> {
    let text = error.render();
    if !error.use_stderr() {
        printer.styled_text(&text.ansi().to_string());
        return Ok(0);
    }
    let text = text.to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        printer.error_line(text.trim_end());
        return Ok(Code::BadRequest.row().exit);
    }
    let (message, hint) = first_paragraph(&text);
    Err(Fault::usage(message).hint(hint))
}

/// The message in one line, and the tip where there is one.
fn first_paragraph(text: &str) -> (String, String) {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let message: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let hint = tip.map_or_else(|| "`ringfence --help` lists commands and options".to_owned(), str::to_owned);
    (message.join(" "), hint)
}

fn dispatch(root: &Root, command: Command, printer: &mut Printer) -> Result<u8, Fault> {
    match command {
        Command::Run(args) => {
            *printer = Printer::new(args.session.raw);
            wait_for(commands::run::run(root, args, printer))
        }
        Command::Repl(args) => {
            *printer = Printer::new(args.session.raw);
            wait_for(commands::repl::repl(root, args, printer))
        }
        Command::Exec(args) => {
            *printer = Printer::new(args.raw);
            wait_for(commands::exec::exec(root, args, printer))
        }
        Command::Env(command) => commands::env::env(command, printer),
        Command::Explain(args) => wait_for(commands::explain::explain(root, args, printer)),
        Command::Doctor(args) => wait_for(commands::doctor::doctor(root, args.json, printer)),
        Command::Ps(args) => commands::kill::ps(args.json, printer),
        Command::Top(args) => commands::top::top(&args, printer),
        Command::Kill(args) => commands::kill::kill(args, printer),
        Command::Freeze(args) => commands::freeze::freeze(args, true, printer),
        Command::Thaw(args) => commands::freeze::freeze(args, false, printer),
        Command::Resume(args) => commands::kill::resume(args, printer),
        Command::Holds(args) => commands::kill::holds(args.json, printer),
        Command::Policy(command) => commands::policy::policy(root, command, printer),
        Command::Audit(command) => commands::audit::audit(command, printer),
        Command::Completions { shell } => commands::shell::completions(shell, printer),
        Command::Stdio { listen } => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.map_err(|error| Fault::new(Code::Internal, format!("no event loop: {error}")))?;
            runtime.block_on(commands::stdio::stdio(root, listen.as_deref(), printer))
        }
        Command::Man => commands::shell::man(root, printer),
    }
}

/// One thread is enough: the work is done by workers, and by threads of the pools.
fn wait_for<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::new(Code::Internal, format!("no event loop: {error}")))?;
    let done = runtime.block_on(work);
    // A question at the terminal that nobody answered must not hold the process up.
    runtime.shutdown_background();
    done
}
