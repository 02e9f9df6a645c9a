//! Measures the promised numbers beside their peers, interleaved in one loop so that load hits all alike.
//!
//! Answers to: `cargo xtask bench`. Must not: assert a time; it reports medians, and whoever reads them judges. Every
//! sample checks its result, so that a fast wrong answer ends the program.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]
#![forbid(unsafe_code)]

mod contender;
mod left;
mod library;
mod many;
mod options;
mod peers;
mod process;
mod report;

use std::process::ExitCode;

use ringfence::CountingAllocator;

use crate::contender::{Contender, Fault};
use crate::options::{Options, Set};
use crate::report::Row;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    ringfence::become_worker_if_asked();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("error: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Fault> {
    let options = Options::read(std::env::args().skip(1))?;
    let folder = tempfile::tempdir().map_err(Fault::Folder)?;
    let runtime = tokio::runtime::Runtime::new().map_err(Fault::Runtime)?;
    let venv = options.venv.as_deref();
    let mut contenders = match options.set {
        Set::Core => library::contenders(&runtime, folder.path())?,
        Set::Process => process::contenders(&runtime, &options)?,
    };
    contenders.extend(peers::contenders(&options, folder.path())?);
    let mut rows = interleaved(contenders, options.samples)?;
    rows.extend(match options.set {
        Set::Core => many::measure(&runtime, folder.path())?,
        Set::Process => process::measure(&runtime, venv)?,
    });
    println!("{}", report::table(&rows));
    if let Some(path) = options.results {
        std::fs::write(&path, report::json(&rows)).map_err(|error| Fault::Results(path, error))?;
    }
    Ok(())
}

/// Each contender's turn in every round; slow ones sit some rounds out.
fn interleaved(mut contenders: Vec<Box<dyn Contender + '_>>, rounds: usize) -> Result<Vec<Row>, Fault> {
    let mut samples = vec![Vec::new(); contenders.len()];
    // What is measured is the warm state: the first rounds are not counted.
    for round in 0..rounds + 5 {
        for (contender, samples) in contenders.iter_mut().zip(&mut samples) {
            let turns = if round % contender.every() == 0 { contender.in_a_row() } else { 0 };
            for _ in 0..turns {
                let time = contender.sample()?;
                if round >= 5 {
                    samples.push(time);
                }
            }
        }
        if round % 50 == 49 {
            eprintln!("bench: {} of {rounds} rounds", round + 1);
        }
    }
    Ok(contenders.iter().zip(samples).map(|(contender, samples)| Row::new(contender.name(), samples)).collect())
}
