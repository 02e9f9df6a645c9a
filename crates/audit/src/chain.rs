//! Hashes: what binds each record to the one before it.

use std::fmt;

use sha2::{Digest, Sha256};

/// The SHA-256 of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// What the first record names as its predecessor: 32 zero bytes.
    pub const NONE: Self = Self([0; 32]);

    /// The hash of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(crate) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// Reads 64 lower-case hexadecimal digits, and nothing else: one hash has one spelling.
    pub fn from_hex(text: &str) -> Option<Self> {
        decode_hex(text).map(Self)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_hex(&self.0))
    }
}
impl serde::Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// SHA-256 of bytes as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Hash::of(bytes).to_string()
}

pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble & 15)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Exactly `2 * N` lower-case digits.
pub(crate) fn decode_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (place, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *place = digit(*high)? << 4 | digit(*low)?;
    }
    Some(out)
}
