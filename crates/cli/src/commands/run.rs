//! `ringfence run`: one program, its output as it comes, its value, its exit code.
//!
//! Answers to: `lib`. Must not: print anything but the outcome with `--json`.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_api::{exit_code_of_status, outcome_to_json};
use ringfence_audit::event::ThresholdCrossed;
use ringfence_bridge::Registry;
use ringfence_policy::Policy;
use ringfence_session::{Engine, Handle, Request, RunError, Session, Watch, threshold_text};
use ringfence_types::{GuestPath, MimeBundle, MonitorAction, Outcome, Source, Status, Stream};

use crate::args::{RunArgs, SessionArgs};
use crate::commands::changes;
use crate::exports::Exports;
use crate::fault::Fault;
use crate::folders;
use crate::opened::{Opened, audit_log, likely};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::root::{EngineOptions, Root};
use crate::show::{self, Streamed};
use crate::signals::Ends;
use crate::{approve, input, loading};

/// Runs it and gives the exit code.
pub async fn run(root: &Root, args: RunArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let is_stdin = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if is_stdin(&args.program.file) && is_stdin(&args.stdin) {
        return Err(Fault::usage("standard input holds either the program or what it reads, not both"));
    }
    let args = Arc::new(args);
    // Whoever writes to standard input may take his time.
    let limit = Some(args.session.limits.load).filter(|_| !is_stdin(&args.program.file) && !is_stdin(&args.stdin));
    let named = Arc::clone(&args);
    let Named { source, policy, files } =
        loading::read(limit, "reading the program", move || Named::read(&named)).await?;
    let options = EngineOptions {
        audit: Some(audit_log(args.session.audit.as_deref(), &policy)?),
        snapshot_key: None,
        warm: 1,
        warm_up: likely(&source.code, args.session.engine.wanted()),
        python: args.session.python.clone(),
        environments: folders::environments().ok(),
    };
    let opened = Opened::new(root, options, printer)?;
    let exports = exports(&args.session).await?;
    let mut session = opened.engine.session(request(&args.session, policy, exports.as_ref())?)?;
    if !args.quiet && !args.json {
        withheld(&session, printer);
    }
    loading::within(None, "putting files into the session", put(&mut session, files)).await?;
    let destination = changes::destination(args.changes.as_deref(), &session)?;
    let (mut outcome, streamed) = {
        let mut watcher = Watcher::new(printer, !args.json);
        let outcome = watched(&opened.engine, &mut session, source, &mut watcher).await?;
        (outcome, watcher.streamed)
    };
    changes::collect(session, destination, &mut outcome).await?;
    drop(exports);
    if args.json {
        printer.line(&outcome_to_json(&outcome).to_string());
    } else {
        show::outcome(printer, &outcome, streamed, args.quiet);
        changes::tell(&outcome, args.changes.as_deref(), printer);
    }
    opened.close()?;
    Ok(exit_code(&outcome))
}

/// What the command line names, read.
struct Named {
    source: Source,
    policy: Policy,
    files: Vec<(GuestPath, Vec<u8>)>,
}

impl Named {
    fn read(args: &RunArgs) -> Result<Self, Fault> {
        let source = Source { inputs: input::inputs(&args.inputs)?, ..input::program(&args.program)? };
        let source = Source { stdin: input::stdin(args.stdin.as_deref())?, last: true, ..source };
        Ok(Self { source, policy: input::policy(&args.session)?, files: input::files(&args.session.files)? })
    }
}

/// Puts files into a session.
pub async fn put(session: &mut Session, files: Vec<(GuestPath, Vec<u8>)>) -> Result<(), Fault> {
    for (path, content) in files {
        session.put_file(path, content).await?;
    }
    Ok(())
}

/// The table's exit code; a program that left by `sys.exit(0)` did not fail.
pub fn exit_code(outcome: &Outcome) -> u8 {
    match outcome.exception.as_ref().and_then(|exception| exception.exit_code) {
        Some(0) if outcome.status == Status::Raised => exit_code_of_status(Status::Completed),
        _ => exit_code_of_status(outcome.status),
    }
}

/// The host functions of the file that `--exports` names.
pub async fn exports(args: &SessionArgs) -> Result<Option<Exports>, Fault> {
    match &args.exports {
        Some(file) => {
            let what = format!("loading `{}`", file.display());
            Ok(Some(loading::within(Some(args.limits.load), &what, Exports::start(file)).await?))
        }
        None => Ok(None),
    }
}

/// What is asked of the engine.
pub fn request(args: &SessionArgs, policy: Policy, exports: Option<&Exports>) -> Result<Request, Fault> {
    let functions = exports.map_or_else(|| Ok(Registry::new()), Exports::registry)?;
    Ok(Request {
        tenant: args.tenant.clone(),
        functions,
        engine: args.engine.wanted(),
        approve: approve::at_terminal().map(|ask| Arc::new(ask) as _),
        ..Request::new(policy)
    })
}

/// Tells which functions of the file the policy keeps from the program.
pub fn withheld(session: &Session, printer: &mut Printer) {
    for name in session.grant().withheld() {
        printer.note(&format!("the policy does not list `{name}`, so the program can't call it"));
    }
}

/// Passes output on while the program runs.
pub struct Watcher<'a> {
    printer: &'a mut Printer,
    progress: Progress,
    streams: bool,
    /// How much was passed on.
    pub streamed: Streamed,
}

impl<'a> Watcher<'a> {
    /// A watcher; `streams` says whether output is shown as it comes.
    pub fn new(printer: &'a mut Printer, streams: bool) -> Self {
        Self { printer, progress: Progress::default(), streams, streamed: Streamed::default() }
    }

    /// The line that shows that something is going on.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

impl Watch for Watcher<'_> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if !self.streams {
            return;
        }
        self.progress.end();
        match stream {
            Stream::Stdout => self.streamed.stdout += bytes.len(),
            Stream::Stderr => self.streamed.stderr += bytes.len(),
        }
        self.printer.guest(stream, bytes);
    }

    fn shown(&mut self, bundle: &MimeBundle) {
        let plain = bundle.0.iter().find(|(mime, _)| mime == "text/plain");
        if let Some((_, text)) = plain.filter(|_| self.streams) {
            self.progress.end();
            self.printer.guest(Stream::Stdout, text);
            self.printer.guest(Stream::Stdout, b"\n");
        }
    }

    fn crossed(&mut self, threshold: &ThresholdCrossed) {
        if self.streams && threshold.action == MonitorAction::Warn {
            self.progress.end();
            self.printer.note(&threshold_text(threshold));
        }
    }
}

/// Runs one snippet; the first Ctrl-C, `SIGTERM` or `SIGHUP` gives it up in order, the second at once.
pub async fn watched(
    engine: &Engine,
    session: &mut Session,
    source: Source,
    watcher: &mut Watcher<'_>,
) -> Result<Outcome, RunError> {
    let handle = session.handle();
    let progress = watcher.progress.clone();
    let running = session.run(source, watcher);
    let waits = {
        let (engine, handle) = (engine.clone(), handle.clone());
        move || engine.list().iter().any(|row| row.session == *handle.session() && row.tier.is_none())
    };
    interruptible(running, &handle, progress, waits).await
}

pub async fn interruptible<T>(
    running: impl Future<Output = T>,
    handle: &Handle,
    progress: Progress,
    waits_for_worker: impl Fn() -> bool,
) -> T {
    tokio::pin!(running);
    let mut ends = Ends::watch();
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    let mut asked = false;
    loop {
        tokio::select! {
            biased;
            done = &mut running => {
                progress.end();
                return done;
            }
            () = ends.received() => give_up(handle, &mut asked),
            _ = tick.tick() => if waits_for_worker() { progress.after_a_second("starting a worker") } else { progress.end() },
        }
    }
}

fn give_up(handle: &Handle, asked: &mut bool) {
    if *asked {
        std::process::exit(i32::from(exit_code_of_status(Status::Cancelled)));
    }
    *asked = true;
    handle.cancel();
}
