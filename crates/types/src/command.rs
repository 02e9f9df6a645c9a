//! A command for a cell: a program of its own and its arguments, run by no interpreter of Python.
//!
//! Answers to: the front doors, which make one, and the tiers that run commands. Must not: be made with what no system
//! could run.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::files::GuestPath;

/// The most bytes of all arguments and of what is set in the environment, with one for each end.
const LONGEST: usize = 96 << 10;

/// A command: never empty, without NUL, and no longer than a system takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// What it reads as its standard input.
    pub stdin: Stdin,
    /// Where it starts; `None`: `/workspace` where the session has one, else `/tmp`.
    pub folder: Option<GuestPath>,
}

/// What a command reads as its standard input.
#[derive(Debug, Clone)]
pub enum Stdin {
    /// These bytes, then the end. None at all is the usual case.
    Bytes(Vec<u8>),
    /// The reading end of a pipe that somebody else writes to. Nothing but a pipe may be handed in: the command holds it.
    Pipe(Arc<OwnedFd>),
}

impl Default for Stdin {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl PartialEq for Stdin {
    /// Two pipes are equal where they are the same.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Pipe(one), Self::Pipe(other)) => Arc::ptr_eq(one, other),
            (Self::Bytes(_), Self::Pipe(_)) | (Self::Pipe(_), Self::Bytes(_)) => false,
        }
    }
}

/// Why there is no such command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandFault {
    /// No program is named.
    #[error("no command is named; give a program and its arguments, such as `ls -l`")]
    Empty,
    /// A system's texts end at a NUL.
    #[error("an argument or variable of the command has a NUL in it, or a variable's name is empty or has `=` in it")]
    Nul,
    /// There is too much of it.
    #[error("the command is {bytes} bytes long, over the limit of {LONGEST}; put long data into a file or its input")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
}

impl Command {
    /// A command without input. The first of the arguments is the program.
    pub fn new<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Result<Self, CommandFault> {
        let arguments = arguments.into_iter().map(Into::into).collect();
        let command = Self { arguments, environment: Vec::new(), stdin: Stdin::default(), folder: None };
        command.checked()
    }

    /// The same command, with these variables beside those that every command has.
    pub fn with_environment(self, environment: Vec<(String, String)>) -> Result<Self, CommandFault> {
        Self { environment, ..self }.checked()
    }

    /// The same command, which reads this.
    #[must_use]
    pub fn reading(self, stdin: Stdin) -> Self {
        Self { stdin, ..self }
    }

    fn checked(self) -> Result<Self, CommandFault> {
        if self.program().is_empty() {
            return Err(CommandFault::Empty);
        }
        let bad_name = self.environment.iter().any(|(name, _)| name.is_empty() || name.contains('='));
        if bad_name || self.texts().any(|text| text.contains('\0')) {
            return Err(CommandFault::Nul);
        }
        let bytes = self.texts().map(|text| text.len() + 1).sum();
        if bytes > LONGEST { Err(CommandFault::TooLong { bytes }) } else { Ok(self) }
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let variables = self.environment.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        self.arguments.iter().map(String::as_str).chain(variables)
    }

    /// The program as it was named.
    pub fn program(&self) -> &str {
        self.arguments.first().map_or("", String::as_str)
    }

    /// The program and its arguments.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Variables beside those that every command has.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_that_a_system_could_run() {
        let check = |arguments: &[&str], want: Result<&str, CommandFault>| {
            let command = Command::new(arguments.iter().copied());
            assert_eq!(command.as_ref().map(Command::program).map_err(|fault| *fault), want);
        };
        check(&["ls", "-l"], Ok("ls"));
        check(&["echo", ""], Ok("echo"));
        check(&[], Err(CommandFault::Empty));
        check(&["", "x"], Err(CommandFault::Empty));
        check(&["a\0b"], Err(CommandFault::Nul));
        check(&["echo", &"x".repeat(LONGEST)], Err(CommandFault::TooLong { bytes: LONGEST + 6 }));
        let set =
            |name: &str| Command::new(["env"]).and_then(|it| it.with_environment(vec![(name.into(), "1".into())]));
        assert!(set("A").is_ok());
        assert_eq!(set("A=B"), Err(CommandFault::Nul));
        assert_eq!(set(""), Err(CommandFault::Nul));
    }
}
