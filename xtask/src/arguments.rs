//! The arguments after a command: flags, options with a number, and words.
//!
//! Answers to: the commands. Must not: let an argument pass that no command knows.

use crate::fault::Fault;

/// What is left to be understood.
pub struct Arguments(Vec<String>);

impl Arguments {
    /// The arguments as typed.
    pub fn new(typed: &[String]) -> Self {
        Self(typed.to_vec())
    }

    /// Whether the flag is there; takes it away.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|argument| argument != name);
        self.0.len() < before
    }

    /// The number after an option, or `default`; takes both away.
    pub fn number(&mut self, name: &str, default: u64) -> Result<u64, Fault> {
        let Some(at) = self.0.iter().position(|argument| argument == name) else { return Ok(default) };
        self.0.remove(at);
        if at == self.0.len() {
            return Err(Fault::Usage(format!("`{name}` wants a number after it")));
        }
        let given = self.0.remove(at);
        given.parse().map_err(|_| Fault::Usage(format!("`{name}` wants a number, not `{given}`")))
    }

    /// The words that are left. An option among them is one that nobody knows.
    pub fn words(self) -> Result<Vec<String>, Fault> {
        match self.0.iter().find(|word| word.starts_with('-')) {
            Some(unknown) => Err(Fault::Usage(format!("there is no option `{unknown}` here; see `cargo xtask help`"))),
            None => Ok(self.0),
        }
    }

    /// Fails where anything is left.
    pub fn finish(self) -> Result<(), Fault> {
        match self.words()?.first() {
            Some(word) => Err(Fault::Usage(format!("`{word}` is not wanted here; see `cargo xtask help`"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(typed: &[&str], want: &str) {
        let mut arguments = Arguments::new(&typed.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let flag = arguments.flag("--replay");
        let got = match arguments.number("--seconds", 30) {
            Ok(number) => match arguments.words() {
                Ok(words) => format!("{flag} {number} {words:?}"),
                Err(fault) => fault.to_string(),
            },
            Err(fault) => fault.to_string(),
        };
        assert_eq!(got, want);
    }

    #[test]
    fn arguments_are_understood_or_named() {
        check(&[], "false 30 []");
        check(&["--replay", "--seconds", "5", "json_value"], "true 5 [\"json_value\"]");
        check(&["--seconds"], "`--seconds` wants a number after it");
        check(&["--seconds", "soon"], "`--seconds` wants a number, not `soon`");
        check(&["--fast"], "there is no option `--fast` here; see `cargo xtask help`");
    }
}
