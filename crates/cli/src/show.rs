//! How an outcome is shown to a person: the rest of the output, the value, the traceback, the one clear line.
//!
//! Answers to: `run` and `repl`. Must not: print; it hands text to the printer.

use ringfence_types::{Dropped, GuestException, LimitKind, Outcome, Status, Stream, Value};

use crate::printer::Printer;
use crate::repr::repr;

/// How much of each stream was passed on while the program ran.
#[derive(Debug, Clone, Copy, Default)]
pub struct Streamed {
    /// Bytes of standard output.
    pub stdout: usize,
    /// Bytes of standard error.
    pub stderr: usize,
}

/// Shows what a run came to. `quiet` leaves out the value.
pub fn outcome(printer: &mut Printer, outcome: &Outcome, streamed: Streamed, quiet: bool) {
    let rest = unseen(&outcome.stdout, outcome.dropped.stdout, streamed.stdout);
    printer.guest(Stream::Stdout, rest.as_bytes());
    let rest = unseen(&outcome.stderr, outcome.dropped.stderr, streamed.stderr);
    printer.guest(Stream::Stderr, rest.as_bytes());
    if let Some(value) = outcome.value.as_ref().filter(|value| !quiet && **value != Value::None) {
        printer.line(&repr(value));
    }
    match outcome.exception.as_ref().map(|exception| (exception, exception.exit_code)) {
        Some((exception, Some(code))) => left(printer, exception, code),
        Some((exception, None)) => {
            printer.guest(Stream::Stderr, traceback(exception).as_bytes());
            if let Some(reason) = &outcome.reason {
                printer.note(reason);
            }
        }
        None => complain(printer, outcome),
    }
}

/// Says how a command came to its end, where that was not by itself. Its output was passed on as it came.
pub fn command(printer: &mut Printer, outcome: &Outcome) {
    let Dropped { stdout, stderr } = outcome.dropped;
    if stdout + stderr > 0 && outcome.status == Status::Completed {
        let code = outcome.exit_code.unwrap_or_default();
        let message =
            format!("the output was cut: {} bytes are missing; the command itself ended with {code}", stdout + stderr);
        printer.complaint(&message, Some("raise it with `--output SIZE`, or `output` under `[limits]`"));
    }
    match outcome.status {
        Status::Unsupported => printer.complaint(outcome.reason.as_deref().unwrap_or("no such command"), None),
        Status::Crashed => printer.complaint(outcome.reason.as_deref().unwrap_or("the jail died"), None),
        _ => complain(printer, outcome),
    }
}

/// A program that left by `sys.exit` has no traceback. Where it left with a text, that is in its standard error.
fn left(printer: &mut Printer, exception: &GuestException, code: i32) {
    let message = exception.message.trim();
    if code != 0 && (message.is_empty() || message.parse::<i64>().is_ok()) {
        printer.note(&format!("the program left with exit code {code}"));
    }
}

fn complain(printer: &mut Printer, outcome: &Outcome) {
    let reason = outcome.reason.as_deref();
    match outcome.status {
        Status::Completed => {
            if let Some(why) = reason {
                printer.note(why);
            }
        }
        Status::Limited => printer.complaint(reason.unwrap_or("a limit struck"), limit_hint(outcome).as_deref()),
        Status::Unsupported => {
            let hint = "`ringfence explain` shows what each tier lacks";
            printer.complaint(reason.unwrap_or("no allowed tier can run the program"), Some(hint));
        }
        Status::Denied => {
            let held = reason.is_some_and(|why| why.starts_with("a kill switch is set"));
            let hint = held.then_some("`ringfence holds` lists them, `ringfence resume TARGET` releases one");
            printer.complaint(reason.unwrap_or("the policy refused it"), hint);
        }
        Status::Crashed => {
            let hint = "the program crashed its interpreter; nothing else was harmed";
            printer.complaint(reason.unwrap_or("the worker died"), Some(hint));
        }
        Status::Raised | Status::Killed | Status::Cancelled => {
            printer.complaint(reason.unwrap_or(outcome.status.as_str()), None);
        }
    }
}

fn limit_hint(outcome: &Outcome) -> Option<String> {
    let hit = outcome.limit?;
    let flag = match hit.kind {
        LimitKind::Wall => "wall",
        LimitKind::Cpu => "cpu",
        LimitKind::Memory => "memory",
        LimitKind::Output => "output",
        LimitKind::HostCalls => "host-calls",
        LimitKind::Disk => return Some("raise `filesystem.workspace` or `limits.disk` in the policy".to_owned()),
        LimitKind::Processes | LimitKind::OpenFiles | LimitKind::Idle | LimitKind::Lifetime => {
            return Some(format!("raise `limits.{}` in the policy", hit.kind));
        }
        LimitKind::Size => return Some("pass large data as a file".to_owned()),
    };
    Some(format!("give `--{flag}`, or raise `limits.{}` in the policy", hit.kind))
}

/// What was kept of a stream and not passed on yet: past the cap only the end is kept, behind a line that says so.
fn unseen(kept: &str, dropped: u64, seen: usize) -> String {
    let marker = format!("\n[... {dropped} bytes dropped ...]\n");
    let cut = if dropped == 0 { None } else { kept.split_once(&marker) };
    let Some((head, tail)) = cut else {
        return String::from_utf8_lossy(kept.as_bytes().get(seen..).unwrap_or_default()).into_owned();
    };
    let start = head.len().saturating_add(usize::try_from(dropped).unwrap_or(usize::MAX));
    match seen.checked_sub(start) {
        Some(into) => String::from_utf8_lossy(tail.as_bytes().get(into..).unwrap_or_default()).into_owned(),
        None => format!("\n[... {} bytes dropped ...]\n{tail}", start - seen),
    }
}

/// The traceback as Python prints it.
pub fn traceback(exception: &GuestException) -> String {
    let mut text = String::new();
    write_traceback(exception, &mut text, 0);
    text
}

/// A chain of causes longer than this is cut: it comes from the guest.
const CAUSES_MAX: usize = 20;

fn write_traceback(exception: &GuestException, text: &mut String, depth: usize) {
    if let Some(cause) = exception.cause.as_deref().filter(|_| depth < CAUSES_MAX) {
        write_traceback(cause, text, depth + 1);
        text.push_str("\nThe above exception was the cause of the following exception:\n\n");
    }
    if !exception.frames.is_empty() {
        text.push_str("Traceback (most recent call last):\n");
    }
    for frame in &exception.frames {
        text.push_str(&format!("  File \"{}\", line {}, in {}\n", frame.file, frame.line, frame.function));
        if let Some(source) = &frame.source {
            text.push_str(&format!("    {}\n", source.trim()));
        }
    }
    match exception.message.as_str() {
        "" => text.push_str(&format!("{}\n", exception.kind)),
        message => text.push_str(&format!("{}: {message}\n", exception.kind)),
    }
    exception.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_seen_is_printed() {
        let check = |kept: &str, dropped: u64, seen: usize, want: &str| {
            assert_eq!(unseen(kept, dropped, seen), want, "{kept:?} {dropped} {seen}");
        };
        check("abc", 0, 3, "");
        check("abcdef", 0, 3, "def");
        // a..h, cap 8: seen 8 of 12, head 4, tail 4.
        check("abcd\n[... 4 bytes dropped ...]\nijkl", 4, 8, "ijkl");
        check("abcd\n[... 2 bytes dropped ...]\nghij", 2, 8, "ij");
        check("abcd\n[... 10 bytes dropped ...]\nwxyz", 10, 8, "\n[... 6 bytes dropped ...]\nwxyz");
        check("abcd", 5, 9, "");
    }
}
