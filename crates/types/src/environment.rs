//! The name of a locked virtual environment, and what is known of one.
//!
//! Answers to: `policy`, which names one, and `session`, which looks it up. Must not: be a path.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that can't be an environment's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of an environment: use 1 to 64 letters, digits, `-`, `_` or `.`, the first no sign")]
pub struct EnvironmentNameError(String);

/// The name of an environment: never a path, never hidden.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvironmentName(String);

impl EnvironmentName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EnvironmentName {
    type Err = EnvironmentNameError;
    fn from_str(text: &str) -> Result<Self, EnvironmentNameError> {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        match plain && begins && text.len() <= 64 {
            true => Ok(Self(text.to_owned())),
            false => Err(EnvironmentNameError(text.chars().filter(|c| !c.is_control()).take(80).collect())),
        }
    }
}
impl TryFrom<String> for EnvironmentName {
    type Error = EnvironmentNameError;
    fn try_from(text: String) -> Result<Self, EnvironmentNameError> {
        text.parse()
    }
}
impl From<EnvironmentName> for String {
    fn from(name: EnvironmentName) -> Self {
        name.0
    }
}
impl fmt::Display for EnvironmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A locked environment of this machine, as a grant carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Its name.
    pub name: EnvironmentName,
    /// SHA-256 of what was installed, in hexadecimal.
    pub digest: String,
    /// The folder of its virtual environment, on the host.
    pub venv: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_a_path() {
        for (text, good) in [
            ("data-3.11", true),
            ("a", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("-x", false),
            (&"a".repeat(65), false),
        ] {
            assert_eq!(text.parse::<EnvironmentName>().is_ok(), good, "{text}");
        }
    }
}
