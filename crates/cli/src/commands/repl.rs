//! `ringfence repl`: line after line in one session, with history.
//!
//! Answers to: `lib`. Must not: end because a program raised; a session that a limit ended is followed by a new one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_policy::Policy;
use ringfence_session::Session;
use ringfence_types::{GuestPath, LimitKind, Outcome, Source, Status};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use crate::args::ReplArgs;
use crate::commands::run::{Watcher, exports, put, request, watched, withheld};
use crate::exports::Exports;
use crate::fault::Fault;
use crate::folders;
use crate::keys::snapshot_key;
use crate::lines::Blocks;
use crate::opened::{Opened, audit_log, likely};
use crate::printer::Printer;
use crate::root::{EngineOptions, Root};
use crate::{input, loading, show};

const HELP: &str = "\
:help            this
:files [FOLDER]  the files of the session
:snapshot FILE   write the session down (engine `monty`); `ringfence repl --snapshot FILE` goes on from it
:quit            end (Ctrl-D too)";

type Lines = Editor<Blocks, FileHistory>;

/// Runs it and gives the exit code.
pub async fn repl(root: &Root, args: ReplArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let args = Arc::new(args);
    let limit = Some(args.session.limits.load);
    let named = Arc::clone(&args);
    let policy = loading::read(limit, "reading the policy", move || input::policy(&named.session)).await?;
    let options = EngineOptions {
        audit: Some(audit_log(args.session.audit.as_deref(), &policy)?),
        snapshot_key: Some(snapshot_key()?),
        warm: 1,
        warm_up: likely("", args.session.engine.wanted()),
        python: args.session.python.clone(),
        environments: folders::environments().ok(),
    };
    let history = history();
    let mut lines = editor(history.as_deref())?;
    let opened = Opened::new(root, options, printer)?;
    let exports = exports(&args.session).await?;
    let mut inside = Inside { opened: &opened, args: &args, policy, exports: exports.as_ref() };
    let mut session = inside.first_session(printer).await?;
    loop {
        let (back, read) = loading::within(None, "reading the next line", next_line(lines)).await?;
        lines = back;
        let text = match read {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Fault::usage(format!("the terminal can't be read: {error}"))),
        };
        match text.trim() {
            "" => {}
            ":quit" | ":exit" | "exit()" | "quit()" => break,
            command if command.starts_with(':') => inside.command(command, &mut session, printer).await,
            _ => inside.snippet(text, &mut session, printer).await?,
        }
    }
    if let Some(path) = history {
        // A history that can't be kept is not worth a failure.
        let _ = lines.save_history(&path);
    }
    drop(session);
    drop(exports);
    opened.close()?;
    Ok(0)
}

fn history() -> Option<PathBuf> {
    folders::state_made().ok().map(|folder| folder.join("history"))
}

fn editor(history: Option<&Path>) -> Result<Lines, Fault> {
    let config = Config::builder().max_history_size(2000).map(|builder| builder.auto_add_history(true).build());
    let editor = config.and_then(Lines::with_config);
    let mut lines = editor.map_err(|error| Fault::usage(format!("the terminal can't be used: {error}")))?;
    lines.set_helper(Some(Blocks));
    if let Some(path) = history {
        // There is none at the first time.
        let _ = lines.load_history(path);
    }
    Ok(lines)
}

/// Reads in a thread of its own, so that the session's clocks go on meanwhile.
async fn next_line(mut lines: Lines) -> Result<(Lines, rustyline::Result<String>), Fault> {
    let reading = tokio::task::spawn_blocking(move || {
        let read = lines.readline(">>> ");
        (lines, read)
    });
    reading.await.map_err(|_| Fault::usage("the terminal can't be read"))
}

struct Inside<'a> {
    opened: &'a Opened,
    args: &'a ReplArgs,
    policy: Policy,
    exports: Option<&'a Exports>,
}

impl Inside<'_> {
    async fn first_session(&self, printer: &mut Printer) -> Result<Session, Fault> {
        let Some(path) = &self.args.snapshot else {
            let session = self.new_session().await?;
            withheld(&session, printer);
            return Ok(session);
        };
        let file = path.clone();
        let read = move || std::fs::read(&file).map_err(|error| Fault::file(&file, "read", &error));
        let bytes = loading::read(Some(self.args.session.limits.load), "reading the snapshot", read).await?;
        let request = request(&self.args.session, self.policy.clone(), self.exports)?;
        Ok(self.opened.engine.restore(request, &bytes).await?)
    }

    async fn new_session(&self) -> Result<Session, Fault> {
        let request = request(&self.args.session, self.policy.clone(), self.exports)?;
        let mut session = self.opened.engine.session(request)?;
        let given = self.args.session.files.clone();
        let limit = Some(self.args.session.limits.load);
        let files = loading::read(limit, "reading files", move || input::files(&given)).await?;
        loading::within(None, "putting files into the session", put(&mut session, files)).await?;
        Ok(session)
    }

    async fn snippet(&mut self, text: String, session: &mut Session, printer: &mut Printer) -> Result<(), Fault> {
        let source = Source { file: "<repl>".to_owned(), ..Source::new(text) };
        let (outcome, streamed) = {
            let mut watcher = Watcher::new(printer, true);
            let outcome = watched(&self.opened.engine, session, source, &mut watcher).await?;
            (outcome, watcher.streamed)
        };
        show::outcome(printer, &outcome, streamed, false);
        if over(&outcome) {
            *session = self.new_session().await?;
            printer.note("the session ended; a new one begins, without its names and files");
        }
        Ok(())
    }

    async fn command(&mut self, command: &str, session: &mut Session, printer: &mut Printer) {
        let (word, rest) = command.split_once(' ').map_or((command, ""), |(word, rest)| (word, rest.trim()));
        let done = match word {
            ":help" => {
                printer.line(HELP);
                Ok(())
            }
            ":files" => files(session, rest, printer).await,
            ":snapshot" if !matches!(rest, "" | "-") => snapshot(session, Path::new(rest), printer).await,
            ":snapshot" => Err(Fault::usage("name a file: `:snapshot FILE`")),
            _ => Err(Fault::usage(format!("there is no `{word}`")).hint("`:help` lists what there is")),
        };
        if let Err(fault) = done {
            printer.fault(&fault);
        }
    }
}

/// Whether nothing more can be run in the session.
fn over(outcome: &Outcome) -> bool {
    match outcome.status {
        Status::Killed | Status::Crashed | Status::Cancelled => true,
        Status::Limited => outcome.limit.is_none_or(|hit| hit.kind != LimitKind::Size),
        Status::Completed | Status::Raised | Status::Denied | Status::Unsupported => false,
    }
}

async fn files(session: &mut Session, folder: &str, printer: &mut Printer) -> Result<(), Fault> {
    let folder = if folder.is_empty() { "/workspace" } else { folder };
    let path = GuestPath::resolve(folder).map_err(Fault::usage)?;
    for entry in session.list_files(path).await? {
        let end = if entry.folder { "/" } else { "" };
        let name = ringfence_audit::escape(entry.path.as_str(), 1024);
        printer.line(&format!("{:>10}  {name}{end}", entry.size));
    }
    Ok(())
}

async fn snapshot(session: &mut Session, path: &Path, printer: &mut Printer) -> Result<(), Fault> {
    let bytes = session.snapshot().await?;
    crate::keys::write_private(path, &bytes).map_err(|error| Fault::file(path, "written", &error))?;
    printer.line(&format!("{} bytes in `{}`", bytes.len(), path.display()));
    Ok(())
}
