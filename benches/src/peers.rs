//! The peers: pydantic-monty's pool, a fresh CPython, and the built command line.
//!
//! Answers to: `main`. Must not: favour one; each is measured as its own users would call it.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::contender::{Contender, Fault};
use crate::library::{BUSY, IN_A_ROW, QUIET};
use crate::options::Options;

/// Every peer that the options name.
pub fn contenders(options: &Options, folder: &Path) -> Result<Vec<Box<dyn Contender>>, Fault> {
    let mut found: Vec<Box<dyn Contender>> = Vec::new();
    if let (Some(python), Some(program)) = (&options.peer_python, &options.peer_program) {
        for pause in [BUSY, QUIET] {
            let mut command = Command::new(python);
            command.arg(program);
            found.push(Box::new(Answering::start(POOL, command, pause)?));
        }
    }
    if let Some(python) = &options.python {
        let arguments = ["-c", "print(1+1)"].map(str::to_owned).to_vec();
        let name = "python3 -c 'print(1+1)'".to_owned();
        found.push(Box::new(Started { name, program: python.clone(), arguments, folder: folder.to_path_buf() }));
    }
    if let Some(program) = options.program.as_ref().filter(|program| answers(program, folder)) {
        let arguments = ["run", "-c", "print(1+1)"].map(str::to_owned).to_vec();
        let name = "ringfence run -c 'print(1+1)'".to_owned();
        found.push(Box::new(Started { name, program: program.clone(), arguments, folder: folder.to_path_buf() }));
    }
    Ok(found)
}

/// Whether the command line is there already.
fn answers(program: &Path, folder: &Path) -> bool {
    let mut command = Command::new(program);
    let output = command.args(["run", "-c", "print(1+1)"]).env("XDG_STATE_HOME", folder).output();
    let works = output.is_ok_and(|output| output.stdout.trim_ascii() == b"2");
    if !works {
        eprintln!("bench: `{} run` does not work in this build and is not measured", program.display());
    }
    works
}

const POOL: &str = "pydantic-monty 1.4.0, pool checkout and run of 1+1";

/// A program that answers each line, which says how many seconds to sleep before, with the nanoseconds of one sample.
pub struct Answering {
    name: String,
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    pause: Duration,
}

impl Answering {
    /// Starts it.
    pub fn start(name: &str, mut command: Command, pause: Duration) -> Result<Self, Fault> {
        let fault = |error| Fault::Peer(name.to_owned(), error);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(fault)?;
        let closed = || fault(io::Error::from(io::ErrorKind::BrokenPipe));
        let ask = child.stdin.take().ok_or_else(closed)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(closed)?);
        Ok(Self { name: name.to_owned(), child, ask, answers, pause })
    }
}

impl Contender for Answering {
    fn name(&self) -> String {
        format!("{}, every {:?}", self.name, self.pause)
    }

    fn in_a_row(&self) -> usize {
        IN_A_ROW
    }

    /// The time that its own process took: the way to it and back is not counted against it.
    fn sample(&mut self) -> Result<Duration, Fault> {
        let fault = |error| Fault::Peer(self.name.clone(), error);
        writeln!(self.ask, "{}", self.pause.as_secs_f64()).map_err(fault)?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(fault)?;
        line.trim().parse().map(Duration::from_nanos).map_err(|_| Fault::Answer(self.name.clone(), line))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Started {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// Where it may keep what it keeps: its audit log.
    folder: PathBuf,
}

impl Contender for Started {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn every(&self) -> usize {
        3
    }

    fn sample(&mut self) -> Result<Duration, Fault> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env("XDG_STATE_HOME", &self.folder).stdin(Stdio::null());
        let started = Instant::now();
        let output = command.output();
        let time = started.elapsed();
        let output = output.map_err(|error| Fault::Peer(self.name.clone(), error))?;
        if output.stdout.trim_ascii() == b"2" {
            Ok(time)
        } else {
            Err(Fault::Answer(self.name.clone(), String::from_utf8_lossy(&output.stdout).into_owned()))
        }
    }
}
