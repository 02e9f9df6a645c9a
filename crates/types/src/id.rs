//! Names of runs, sessions and tenants.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that was not of the right form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a {what}: use 1 to 64 letters, digits, `-`, `_` or `.`")]
pub struct IdError {
    given: String,
    what: &'static str,
}

fn is_plain_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

macro_rules! plain_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                if is_plain_name(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(IdError { given: text.chars().take(80).collect(), what: $what })
                }
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

plain_id!(
    /// One run: one snippet fed to one session.
    RunId,
    "run id"
);
plain_id!(
    /// One session: one user's line of work in one cell.
    SessionId,
    "session id"
);
plain_id!(
    /// Whose work it is. Limits, rates and kill switches are kept apart by tenant.
    Tenant,
    "tenant name"
);

impl Tenant {
    /// The tenant of a machine with a single user.
    pub fn local() -> Self {
        Self("local".to_owned())
    }
}

impl RunId {
    /// A run id from 128 random bits that the caller drew.
    pub fn from_random(bits: [u8; 16]) -> Self {
        Self(prefixed("run", bits))
    }
}

impl SessionId {
    /// A session id from 128 random bits that the caller drew.
    pub fn from_random(bits: [u8; 16]) -> Self {
        Self(prefixed("ses", bits))
    }
}

fn prefixed(prefix: &str, bits: [u8; 16]) -> String {
    format!("{prefix}_{:032x}", u128::from_be_bytes(bits))
}
