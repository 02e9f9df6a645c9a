//! One stage of a long command: a program whose output goes on to the reader, is kept, and is counted.
//!
//! Answers to: the commands. Must not: stay silent for long, or call a stage good whose tests were never seen.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::say;
use crate::tally::Tally;

/// After this long without output, a line says that the stage still runs.
const QUIET: Duration = Duration::from_secs(30);
/// After the program has ended, what its children still print is waited for this long.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes of output that are kept for counting.
const KEPT: usize = 4 << 20;

/// A program to run.
pub struct Stage {
    name: String,
    command: Command,
    counted: Counted,
}

/// How a stage's tests are counted.
#[derive(Clone, Copy)]
pub enum Counted {
    /// It has none; only its failure counts.
    Nothing,
    /// It is one test.
    Once,
    /// Its output tells.
    By(fn(&str) -> Option<Tally>),
}

/// How a stage ended.
pub struct Report {
    /// The stage.
    pub name: String,
    /// Its tests.
    pub tally: Tally,
    /// How long it took.
    pub time: Duration,
    /// Why it did not run, or what else went wrong.
    pub note: String,
}

impl Report {
    /// A stage that could not be run, for this reason.
    pub fn not_run(name: &str, why: impl Into<String>, counts_as_failure: bool) -> Self {
        let tally = Tally { failed: u64::from(counts_as_failure), ..Tally::default() };
        Self { name: name.to_owned(), tally, time: Duration::ZERO, note: format!("not run: {}", why.into()) }
    }

    /// Whether nothing failed.
    pub fn is_good(&self) -> bool {
        self.tally.failed == 0
    }
}

impl Stage {
    /// A stage by its name.
    pub fn new(name: impl Into<String>, command: Command, counted: Counted) -> Self {
        Self { name: name.into(), command, counted }
    }
}

/// Runs a stage to its end.
pub fn run(stage: Stage) -> Report {
    let Stage { name, command, counted } = stage;
    say::progress(&format!("{name} ..."));
    let started = Instant::now();
    let (tally, note) = match watch(&name, command, started) {
        Ok((status, output)) => judge(counted, status, &output),
        Err(why) => (Tally { failed: 1, ..Tally::default() }, why),
    };
    let time = started.elapsed();
    let verdict = if tally.failed == 0 { "done" } else { "FAILED" };
    say::progress(&format!("{name}: {verdict} in {}", say::elapsed(time)));
    Report { name, tally, time, note }
}

fn judge(counted: Counted, status: ExitStatus, output: &str) -> (Tally, String) {
    let found = match counted {
        Counted::Nothing => Some(Tally::default()),
        Counted::Once => Some(Tally { passed: u64::from(status.success()), ..Tally::default() }),
        Counted::By(read) => read(output).filter(|tally| tally.passed + tally.failed > 0),
    };
    match found {
        None => (Tally { failed: 1, ..Tally::default() }, format!("no test was counted; it ended with {status}")),
        // A program that fails beside its tests, such as one that does not build, must not look green.
        Some(tally) if tally.failed == 0 && !status.success() => {
            (Tally { failed: 1, ..tally }, format!("it ended with {status}"))
        }
        Some(tally) => (tally, String::new()),
    }
}

fn watch(name: &str, mut command: Command, started: Instant) -> Result<(ExitStatus, String), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("`{program}` can't be started: {error}"))?;
    let (sender, lines) = channel();
    pass_on(child.stdout.take(), sender.clone());
    pass_on(child.stderr.take(), sender);
    let output = follow(name, &mut child, &lines, started);
    let status = child.wait().map_err(|error| format!("`{program}` can't be waited for: {error}"))?;
    Ok((status, output))
}

fn pass_on(stream: Option<impl Read + Send + 'static>, to: Sender<String>) {
    let Some(stream) = stream else { return };
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if to.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
}

fn follow(name: &str, child: &mut Child, lines: &Receiver<String>, started: Instant) -> String {
    let mut output = String::new();
    let mut heard = Instant::now();
    let mut ended: Option<Instant> = None;
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                say::line(&line);
                heard = Instant::now();
                keep(&mut output, &line);
            }
            Err(RecvTimeoutError::Disconnected) => return output,
            Err(RecvTimeoutError::Timeout) => {
                if ended.is_none() && !matches!(child.try_wait(), Ok(None)) {
                    ended = Some(Instant::now());
                }
                if ended.is_some_and(|at| at.elapsed() > LINGER) {
                    return output;
                }
                if heard.elapsed() > QUIET {
                    say::progress(&format!("{name} still runs, {}", say::elapsed(started.elapsed())));
                    heard = Instant::now();
                }
            }
        }
    }
}

/// Keeps the newest lines: the counts stand at the end.
fn keep(output: &mut String, line: &str) {
    if output.len() + line.len() > KEPT {
        output.clear();
    }
    output.push_str(line);
    output.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally;

    fn check(script: &str, counted: Counted, want: [u64; 2], note: &str) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let report = run(Stage::new("stage", command, counted));
        assert_eq!(([report.tally.passed, report.tally.failed], report.note.as_str()), (want, note), "{script}");
    }

    #[test]
    fn a_stage_is_good_only_where_tests_were_seen() {
        check("echo 3 passed, 0 failed", Counted::By(tally::closing), [3, 0], "");
        check("echo 3 passed, 2 failed; exit 1", Counted::By(tally::closing), [3, 2], "");
        check("echo 3 passed, 0 failed; exit 9", Counted::By(tally::closing), [3, 1], "it ended with exit status: 9");
        check(
            "echo all is well",
            Counted::By(tally::closing),
            [0, 1],
            "no test was counted; it ended with exit status: 0",
        );
        check(
            "echo 0 passed, 0 failed",
            Counted::By(tally::closing),
            [0, 1],
            "no test was counted; it ended with exit status: 0",
        );
        check("true", Counted::Once, [1, 0], "");
        check("false", Counted::Once, [0, 1], "it ended with exit status: 1");
        check("true", Counted::Nothing, [0, 0], "");
        check("kill -9 $$", Counted::Nothing, [0, 1], "it ended with signal: 9 (SIGKILL)");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let report = run(Stage::new("stage", Command::new("no-such-program"), Counted::Once));
        let want = "`no-such-program` can't be started: No such file or directory (os error 2)";
        assert_eq!((report.tally.failed, report.note.as_str()), (1, want));
    }
}
