//! Keeps the host's secrets out of the log, wherever in a detail they turn up.
//!
//! It finds a secret as it is, in base64 (both alphabets, at every alignment), in hexadecimal,
//! percent-encoded, reversed and JSON-escaped. It can't find one that the guest has encrypted,
//! split or otherwise disguised: the only safe secret is one that never enters a cell.

use std::borrow::Cow;
use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::chain::encode_hex;
use crate::error::AuditError;

/// What stands in the log instead of a secret.
pub const SECRET: &str = "[secret]";

/// Shortest secret that is looked for, in bytes: anything shorter is in every text by chance.
pub const SECRET_MIN: usize = 4;

/// A set of secrets to keep out.
#[derive(Clone, Default)]
pub struct SecretScrubber {
    secrets: Vec<String>,
    finder: Option<AhoCorasick>,
}

impl SecretScrubber {
    /// Looks for these secrets. Those shorter than [`SECRET_MIN`] bytes are left out; ask
    /// [`Self::is_too_short`] first where that matters.
    pub fn new<T: AsRef<str>>(secrets: impl IntoIterator<Item = T>) -> Result<Self, AuditError> {
        Self::default().with(secrets)
    }

    /// Whether a secret is too short to be looked for.
    pub fn is_too_short(secret: &str) -> bool {
        secret.trim().len() < SECRET_MIN
    }

    /// The same set with more secrets in it.
    pub fn with<T: AsRef<str>>(&self, more: impl IntoIterator<Item = T>) -> Result<Self, AuditError> {
        let mut secrets = self.secrets.clone();
        for secret in more {
            let secret = secret.as_ref().trim();
            if !Self::is_too_short(secret) && !secrets.iter().any(|known| known == secret) {
                secrets.push(secret.to_owned());
            }
        }
        if secrets.is_empty() {
            return Ok(Self::default());
        }
        let shapes: Vec<String> = secrets.iter().flat_map(|secret| shapes(secret)).collect();
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(shapes);
        let finder = finder.map_err(|error| AuditError::Secrets { cause: error.to_string() })?;
        Ok(Self { secrets, finder: Some(finder) })
    }

    /// Whether a text holds a secret.
    pub fn hits(&self, text: &str) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.is_match(text))
    }

    /// The text with every secret replaced by [`SECRET`].
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.finder {
            Some(finder) if finder.is_match(text) => {
                let mut out = String::with_capacity(text.len());
                finder.replace_all_with(text, &mut out, |_, _, out| {
                    out.push_str(SECRET);
                    true
                });
                Cow::Owned(out)
            }
            _ => Cow::Borrowed(text),
        }
    }

    pub(crate) fn scrub_owned(&self, text: String) -> String {
        match self.scrub(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(scrubbed) => scrubbed,
        }
    }
}

/// Never the secrets themselves.
impl fmt::Debug for SecretScrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretScrubber({} secrets)", self.secrets.len())
    }
}

/// The forms in which a secret is looked for.
fn shapes(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let hex = encode_hex(bytes);
    let mut shapes = vec![secret.to_owned(), hex.to_uppercase(), hex, secret.chars().rev().collect()];
    shapes.push(percent_encoded(secret));
    if let Ok(quoted) = serde_json::to_string(secret) {
        let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        shapes.extend(inner.map(str::to_owned));
    }
    for shift in 0..3 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(bytes);
        // Characters that also carry bits of what stands before or behind are left out.
        let first = (shift * 8).div_ceil(6);
        let last = shifted.len() * 8 / 6;
        for text in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            shapes.extend(text.get(first..last).map(str::to_owned));
        }
    }
    shapes.retain(|shape| shape.len() >= SECRET_MIN);
    shapes.sort();
    shapes.dedup();
    shapes
}

fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}
