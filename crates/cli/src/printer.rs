//! The only place that prints.
//!
//! Answers to: every command, and `main`, which asks for a lost output at the end. Must not: let a control sequence of
//! the guest's reach a terminal, unless `--raw` asks for it, treat a reader that went away as a fault, or let any other
//! failure to write pass in silence.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use ringfence_api::Code;
use ringfence_types::Stream;

use crate::fault::{Fault, plain};
use crate::filter::Filter;

const FAULT: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();
const NOTE: Style = AnsiColor::Yellow.on_default();

/// Writes to standard output and standard error.
#[derive(Debug)]
pub struct Printer {
    stdout: Filter,
    stderr: Filter,
    /// Why standard output takes nothing more.
    stopped: Option<io::Error>,
}

impl Default for Printer {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Printer {
    /// A printer. `raw` lets control sequences of guests through to a terminal.
    pub fn new(raw: bool) -> Self {
        let filter = |terminal: bool| if terminal && !raw { Filter::terminal() } else { Filter::off() };
        Self { stdout: filter(io::stdout().is_terminal()), stderr: filter(io::stderr().is_terminal()), stopped: None }
    }

    /// Passes on what a guest printed, as it is where no terminal shows it.
    pub fn guest(&mut self, stream: Stream, bytes: &[u8]) {
        let filter = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let shown = filter.pass(bytes);
        self.write(stream, &shown);
    }

    /// Writes a text of our own to standard output, a line end added.
    pub fn line(&mut self, text: &str) {
        self.write(Stream::Stdout, format!("{text}\n").as_bytes());
    }

    /// Writes a text as it is to standard output.
    pub fn text(&mut self, text: &str) {
        self.write(Stream::Stdout, text.as_bytes());
    }

    /// Writes a text with its styles, which are left out where they would not be shown.
    pub fn styled_text(&mut self, text: &str) {
        if self.stopped.is_none() {
            let mut stdout = anstream::AutoStream::auto(io::stdout().lock());
            let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            self.stopped = written.err();
        }
    }

    /// What of standard output was lost, where it could not be written. A reader that went away has what it wanted.
    pub fn lost_output(&self) -> Option<Fault> {
        let error = self.stopped.as_ref().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
        let message = format!("standard output can't be written: {}; what follows is lost", plain(error));
        Some(Fault::new(Code::OutputFailed, message))
    }

    /// Writes a line to standard error.
    pub fn error_line(&mut self, text: &str) {
        self.write(Stream::Stderr, format!("{text}\n").as_bytes());
    }

    /// Says why a command failed, and the next step.
    pub fn fault(&mut self, fault: &Fault) {
        self.complaint(&fault.to_string(), fault.next_step());
    }

    /// One clear line, and a hint below it.
    pub fn complaint(&mut self, message: &str, hint: Option<&str>) {
        self.styled(FAULT, "ringfence:", message);
        if let Some(hint) = hint {
            self.styled(HINT, "hint:", hint);
        }
    }

    /// Something that does not fail the command.
    pub fn note(&mut self, message: &str) {
        self.styled(NOTE, "note:", message);
    }

    fn styled(&mut self, style: Style, head: &str, message: &str) {
        let (on, off) = (style.render(), style.render_reset());
        let mut stderr = anstream::AutoStream::auto(io::stderr().lock());
        let message = one_stream_safe(message);
        // Nobody is left to be told where standard error is gone.
        let _ = writeln!(stderr, "{on}{head}{off} {message}");
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            // The command goes on to its own end all the same; the first failure is told there.
            Stream::Stdout if self.stopped.is_some() => {}
            Stream::Stdout => {
                let mut stdout = io::stdout().lock();
                self.stopped = stdout.write_all(bytes).and_then(|()| stdout.flush()).err();
            }
            // Nobody is left to be told where standard error is gone.
            Stream::Stderr => drop(io::stderr().lock().write_all(bytes)),
        }
    }
}

/// Messages may hold several lines of our own (faults of a policy), but nothing that steers a terminal.
fn one_stream_safe(message: &str) -> String {
    let mut filter = Filter::terminal();
    String::from_utf8_lossy(&filter.pass(message.as_bytes())).into_owned()
}
