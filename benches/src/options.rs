//! The command line.
//!
//! Answers to: `main`. Must not: guess.

use std::path::PathBuf;

use crate::contender::Fault;

/// Which measurements.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Set {
    /// The embedded tier and what all tiers share.
    #[default]
    Core,
    /// The process tier.
    Process,
}

/// What is asked for. A peer that is not named is not measured, and the table says so by its absence.
#[derive(Default)]
pub struct Options {
    /// Rounds.
    pub samples: usize,
    /// A Python that has pydantic-monty, and the program for it.
    pub peer_python: Option<PathBuf>,
    /// See `peer_python`.
    pub peer_program: Option<PathBuf>,
    /// The machine's Python.
    pub python: Option<PathBuf>,
    /// The built command line.
    pub program: Option<PathBuf>,
    /// Which measurements.
    pub set: Set,
    /// An environment with numpy and pandas.
    pub venv: Option<PathBuf>,
    /// The folder of the Python package.
    pub package: Option<PathBuf>,
    /// Where the results go as JSON.
    pub results: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments after the program's name.
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Fault> {
        let mut options = Self { samples: 60, ..Self::default() };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or_else(|| Fault::Usage(argument.clone()))?;
            match argument.as_str() {
                "--samples" => options.samples = value.parse().map_err(|_| Fault::Usage(value))?,
                "--peer-python" => options.peer_python = Some(value.into()),
                "--peer-program" => options.peer_program = Some(value.into()),
                "--python" => options.python = Some(value.into()),
                "--program" => options.program = Some(value.into()),
                "--venv" => options.venv = Some(value.into()),
                "--package" => options.package = Some(value.into()),
                "--set" if value == "core" => options.set = Set::Core,
                "--set" if value == "process" => options.set = Set::Process,
                "--results" => options.results = Some(value.into()),
                _ => return Err(Fault::Usage(argument)),
            }
        }
        Ok(options)
    }
}
