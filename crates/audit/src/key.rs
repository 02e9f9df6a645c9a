//! Ed25519 keys: who vouches for the marks of the chain.
//!
//! The secret half lives in a file that only its owner can read. Whoever can read it can forge a
//! log; keep it where the guest and other users can't.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::chain::{Hash, decode_hex, encode_hex};
use crate::error::AuditError;

/// Signs checkpoints, openings and heads.
#[derive(Clone)]
pub struct Keypair(SigningKey);

/// The public half of a [`Keypair`], written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// Text that is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a public key; give the 64 hexadecimal digits of `audit.jsonl.pub`")]
pub struct PublicKeyError {
    given: String,
}

/// Puts a file of one line there whole, where there is none: nobody ever reads a part of it. Whoever comes second leaves
/// the first one's as it is, and is told so by `false`.
pub(crate) fn place_once(path: &Path, line: &str) -> Result<bool, AuditError> {
    let mut unique = [0; 8];
    getrandom::fill(&mut unique).map_err(|error| AuditError::NoRandom { cause: error.to_string() })?;
    let draft = with_suffix(path, &format!(".{}", encode_hex(&unique)));
    let placed = private_file().create_new(true).write(true).open(&draft).and_then(|mut file| {
        file.write_all(line.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        // A link never replaces.
        match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            linked => linked.map(|()| true),
        }
    });
    let removed = std::fs::remove_file(&draft);
    placed.and_then(|placed| removed.map(|()| placed)).map_err(AuditError::open(path))
}

impl Keypair {
    /// The pair of a secret of 32 bytes.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&secret))
    }

    /// Reads the pair from a file, or makes a new one there with mode 0600.
    ///
    /// Two processes that come at the same time end up with the same pair: the file is made
    /// under another name first and appears whole.
    pub fn load_or_create(path: &Path) -> Result<Self, AuditError> {
        match Self::load(path) {
            Err(AuditError::Open { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => {
                Self::create(path)?;
                Self::load(path)
            }
            loaded => loaded,
        }
    }

    fn load(path: &Path) -> Result<Self, AuditError> {
        let file = std::fs::File::open(path).map_err(AuditError::open(path))?;
        refuse_exposed(path, &file, 0o077)?;
        let mut text = String::new();
        let bad = || AuditError::BadKey { path: path.to_owned() };
        file.take(100).read_to_string(&mut text).map_err(|_| bad())?;
        decode_hex(text.trim_end()).map(Self::from_secret).ok_or_else(bad)
    }

    fn create(path: &Path) -> Result<(), AuditError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| AuditError::NoRandom { cause: error.to_string() })?;
        place_once(path, &encode_hex(&secret)).map(drop)
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs a record by its hash: 128 hexadecimal digits.
    pub(crate) fn sign_record(&self, hash: &Hash) -> String {
        encode_hex(&self.0.sign(record_message(hash).as_bytes()).to_bytes())
    }

    /// Signs a head.
    pub fn sign_head(&self, seq: u64, hash: Hash) -> Head {
        let signature = encode_hex(&self.0.sign(head_message(seq, &hash).as_bytes()).to_bytes());
        Head { seq, hash, signature }
    }
}

impl fmt::Debug for Keypair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keypair({})", self.public())
    }
}

/// What a signature of a record is over. The word in front keeps it from passing for a head's.
fn record_message(hash: &Hash) -> String {
    format!("ringfence-audit-record-v1\n{hash}\n")
}

fn head_message(seq: u64, hash: &Hash) -> String {
    format!("ringfence-audit-head-v1\n{seq}\n{hash}\n")
}

impl PublicKey {
    /// Whether the owner of this key signed the record with this hash.
    pub(crate) fn signed_record(&self, hash: &Hash, signature: &str) -> bool {
        self.signed(&record_message(hash), signature)
    }

    /// Whether the owner of this key signed this head.
    pub fn signed_head(&self, head: &Head) -> bool {
        self.signed(&head_message(head.seq, &head.hash), &head.signature)
    }

    fn signed(&self, message: &str, signature: &str) -> bool {
        decode_hex(signature).is_some_and(|bytes: [u8; 64]| {
            self.0.verify_strict(message.as_bytes(), &Signature::from_bytes(&bytes)).is_ok()
        })
    }
}

impl FromStr for PublicKey {
    type Err = PublicKeyError;
    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        let key = decode_hex(text.trim()).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        key.map(Self).ok_or_else(|| PublicKeyError { given: crate::text::escape(text.trim(), 80) })
    }
}
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_hex(self.0.as_bytes()))
    }
}
impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// How far the log reaches at least: what the file `audit.jsonl.head` says, signed.
///
/// As text one line: sequence number, hash and signature, parted by single spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The record's sequence number.
    pub seq: u64,
    /// The record's hash.
    pub hash: Hash,
    /// The signature, in hexadecimal.
    pub signature: String,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.seq, self.hash, self.signature)
    }
}

impl Head {
    /// Reads the text of a head; absent where it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_suffix('\n').unwrap_or(text).split(' ');
        let head = Self {
            seq: parts.next()?.parse().ok()?,
            hash: Hash::from_hex(parts.next()?)?,
            signature: parts.next()?.to_owned(),
        };
        parts.next().is_none().then_some(head)
    }
}

/// Options that make files which only their owner can use.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Refuses what is not a plain file, or grants others one of `bits`.
pub(crate) fn refuse_exposed(path: &Path, file: &std::fs::File, bits: u32) -> Result<(), AuditError> {
    let about = file.metadata().map_err(AuditError::open(path))?;
    refuse_other_kinds(path, &about)?;
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777;
        if mode & bits != 0 {
            return Err(AuditError::Exposed { path: path.to_owned(), mode });
        }
    }
    #[cfg(not(unix))]
    let _ = bits;
    Ok(())
}

/// Refuses what is no plain file, such as a folder, a pipe or a device.
pub(crate) fn refuse_other_kinds(path: &Path, about: &std::fs::Metadata) -> Result<(), AuditError> {
    if about.is_file() {
        return Ok(());
    }
    let cause = std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a plain file");
    Err(AuditError::Open { path: path.to_owned(), cause })
}

/// The path with more at its end: `audit.jsonl` + `.head`.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
