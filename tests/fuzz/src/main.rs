//! Replays the seeds of every target, then mutates them, on the stable toolchain.
//!
//! Answers to: `cargo xtask fuzz --replay`. Must not: lose the input that ended it. Each target runs in a process of
//! its own, which writes every input down before it is read: after a crash, that file holds the culprit.
//! The last line is `N passed, N failed`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]
#![forbid(unsafe_code)]

mod options;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use ringfence_fuzz::mutate::Mutator;
use ringfence_fuzz::{TARGETS, Target, seeds, sys};

use crate::options::Options;

#[global_allocator]
static ALLOCATOR: sys::Counting = sys::Counting;

/// One input that takes longer than this is a finding.
const SLOWEST: Duration = Duration::from_secs(5);

/// Why the program can't go on, or what it found.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Usage(#[from] options::UsageFault),
    #[error("`{0}` can't be used: {1}")]
    File(PathBuf, io::Error),
    #[error("{target}: the input in `{input}` {what}")]
    Found { target: &'static str, input: PathBuf, what: String },
    #[error("{0}: there are no seeds in `{1}`; write them with `--write-seeds`")]
    NoSeeds(&'static str, PathBuf),
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("error: {fault}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Fault> {
    let options = Options::read(std::env::args().skip(1))?;
    std::fs::create_dir_all(&options.failures).map_err(|error| Fault::File(options.failures.clone(), error))?;
    if options.write_seeds {
        return write_seeds(&options.seeds).map(|()| true);
    }
    if let Some(target) = options.one {
        return Ok(match replay(target, &options) {
            Ok(()) => true,
            Err(fault) => {
                eprintln!("error: {fault}");
                false
            }
        });
    }
    let failed = options.targets.iter().filter(|target| !in_own_process(**target, &options)).count();
    println!("{} passed, {failed} failed", options.targets.len() - failed);
    Ok(failed == 0)
}

fn write_seeds(folder: &Path) -> Result<(), Fault> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder).map_err(|error| Fault::File(folder.clone(), error))?;
        for (number, seed) in seeds::of(target.name).iter().enumerate() {
            let path = folder.join(format!("made-{number:02}"));
            std::fs::write(&path, seed).map_err(|error| Fault::File(path, error))?;
        }
    }
    Ok(())
}

/// Runs one target in a process of its own; whether it found nothing.
fn in_own_process(target: Target, options: &Options) -> bool {
    let command = std::env::current_exe().map(|program| {
        let mut command = Command::new(program);
        command.arg("--one").arg(target.name).arg("--seconds").arg(options.seconds.to_string());
        command.arg("--seeds").arg(&options.seeds).arg("--failures").arg(&options.failures);
        command
    });
    match command.and_then(|mut command| command.status()) {
        Ok(status) if status.success() => true,
        Ok(status) => {
            let current = current_path(target, options);
            eprintln!("{}: FAILED: {status}; the last input is in `{}`", target.name, current.display());
            false
        }
        Err(error) => {
            eprintln!("{}: FAILED: its process can't be started: {error}", target.name);
            false
        }
    }
}

fn current_path(target: Target, options: &Options) -> PathBuf {
    options.failures.join(format!("{}.current", target.name))
}

/// The seeds as they are, then mutations of them until the time is over.
fn replay(target: Target, options: &Options) -> Result<(), Fault> {
    let seeds = read_seeds(target, &options.seeds)?;
    let path = current_path(target, options);
    let current = File::create(&path).map_err(|error| Fault::File(path.clone(), error))?;
    let mut tried = Tried { target, current, path, executions: 0, peak: 0, slowest: Duration::ZERO };
    for seed in &seeds {
        tried.read(seed)?;
    }
    let number = seeds.len();
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut mutator = Mutator::new(seeds, options.row);
    while Instant::now() < end {
        let input = mutator.next_input();
        tried.read(&input)?;
    }
    println!(
        "{}: {number} seeds, {} executions in {} s, at most {} KiB and {} ms for one: passed",
        target.name,
        tried.executions,
        options.seconds,
        tried.peak.div_ceil(1024),
        tried.slowest.as_millis(),
    );
    // Nothing was found, so nothing needs to be kept.
    let _ = std::fs::remove_file(&tried.path);
    Ok(())
}

fn read_seeds(target: Target, folder: &Path) -> Result<Vec<Vec<u8>>, Fault> {
    let folder = folder.join(target.name);
    let entries = std::fs::read_dir(&folder).map_err(|error| Fault::File(folder.clone(), error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    // The order of a folder differs between machines; the inputs must not.
    paths.sort();
    if paths.is_empty() {
        return Err(Fault::NoSeeds(target.name, folder));
    }
    paths.into_iter().map(|path| std::fs::read(&path).map_err(|error| Fault::File(path, error))).collect()
}

struct Tried {
    target: Target,
    current: File,
    path: PathBuf,
    executions: u64,
    peak: usize,
    slowest: Duration,
}

impl Tried {
    /// Lets the target read one input, and holds it to its bounds.
    fn read(&mut self, input: &[u8]) -> Result<(), Fault> {
        let written = self.current.write_all_at(input, 0).and_then(|()| self.current.set_len(input.len() as u64));
        written.map_err(|error| Fault::File(self.path.clone(), error))?;
        let started = Instant::now();
        let mut result = Ok(());
        let run = self.target.run;
        let peak = sys::peak_of(|| result = std::panic::catch_unwind(|| run(input)));
        let time = started.elapsed();
        self.executions += 1;
        self.peak = self.peak.max(peak);
        self.slowest = self.slowest.max(time);
        let bound = self.target.memory_bound(input.len());
        let what = if result.is_err() {
            "makes it panic; the message is above".to_owned()
        } else if peak > bound {
            format!("makes it take {peak} bytes of memory, where {bound} are allowed")
        } else if time > SLOWEST {
            format!("takes {} s", time.as_secs())
        } else {
            return Ok(());
        };
        Err(Fault::Found { target: self.target.name, input: self.path.clone(), what })
    }
}
