//! The command line of the replayer.
//!
//! Answers to: `main`. Must not: guess; an argument that is not known is named.

use std::path::PathBuf;

use ringfence_fuzz::{TARGETS, Target};

/// What is wrong with the command line.
#[derive(Debug, thiserror::Error)]
pub enum UsageFault {
    #[error("`{0}` wants something after it")]
    Alone(String),
    #[error("`{0}` is not a number")]
    Number(String),
    #[error("there is no fuzz target `{0}`; there are {names}", names = TARGETS.map(|target| target.name).join(", "))]
    Target(String),
}

/// What is asked for.
pub struct Options {
    /// Seconds of mutation for each target.
    pub seconds: u64,
    /// Which row of mutations.
    pub row: u64,
    /// The folder with a folder of seeds for each target.
    pub seeds: PathBuf,
    /// Where inputs are kept.
    pub failures: PathBuf,
    /// Write the seeds that are made from code, and end.
    pub write_seeds: bool,
    /// Run this one here.
    pub one: Option<Target>,
    /// Run these, each in a process of its own.
    pub targets: Vec<Target>,
}

impl Options {
    /// Reads the arguments after the program's name.
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, UsageFault> {
        let mut options = Self {
            seconds: 30,
            row: 1,
            seeds: "fuzz/seeds".into(),
            failures: std::env::temp_dir().join("ringfence-fuzz"),
            write_seeds: false,
            one: None,
            targets: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| UsageFault::Alone(argument.clone()));
            match argument.as_str() {
                "--seconds" => options.seconds = number(value()?)?,
                "--row" => options.row = number(value()?)?,
                "--seeds" => options.seeds = value()?.into(),
                "--failures" => options.failures = value()?.into(),
                "--one" => options.one = Some(target(value()?)?),
                "--write-seeds" => options.write_seeds = true,
                name => options.targets.push(target(name.to_owned())?),
            }
        }
        if options.targets.is_empty() {
            options.targets = TARGETS.to_vec();
        }
        Ok(options)
    }
}

fn number(given: String) -> Result<u64, UsageFault> {
    given.parse().map_err(|_| UsageFault::Number(given))
}

fn target(given: String) -> Result<Target, UsageFault> {
    Target::named(&given).ok_or(UsageFault::Target(given))
}
