//! One record as one line: how it is written, taken apart and checked.
//!
//! The exact form is in the crate's documentation. INVARIANT: a line has one spelling. The hash
//! and the signature stand at fixed places at its end, in lower-case hexadecimal, so that no
//! byte of a line can change unseen.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::chain::Hash;
use crate::clock::rfc3339;
use crate::event::{Decision, Event, Scope};
use crate::key::Keypair;
use crate::text::write_json;

/// Longest line, in bytes, its newline not counted. A longer one is never written.
pub const LINE_MAX: usize = 1 << 20;

const HASH_MEMBER: &[u8] = b",\"hash\":\"";
const SIGNATURE_MEMBER: &[u8] = b",\"signature\":\"";

/// One record as read. Nothing in it is checked but its form; [`crate::verify()`] checks the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// When it was written: RFC 3339, UTC, milliseconds.
    pub time: String,
    /// Whose work it is about.
    pub tenant: Option<String>,
    /// The session it is about.
    pub session: Option<String>,
    /// The run it is about.
    pub run: Option<String>,
    /// The event's name. A newer writer may know more of them than this reader.
    pub event: String,
    /// Whether it permits or refuses something.
    pub decision: Decision,
    /// The event's detail.
    pub detail: Json,
    /// The hash of the record before it.
    pub prev: String,
    /// Its own hash.
    pub hash: String,
    /// The signature over its hash, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl Record {
    /// Reads one line. Bounded by [`LINE_MAX`]; `None` where it is not a record.
    pub fn parse(line: &[u8]) -> Option<Self> {
        if line.len() > LINE_MAX {
            return None;
        }
        serde_json::from_slice(line).ok()
    }

    /// The event with its typed detail; `None` where this reader does not know it.
    pub fn typed(&self) -> Option<Event> {
        serde_json::from_value(serde_json::json!({"event": self.event, "detail": self.detail})).ok()
    }
}

/// A line taken apart: what is hashed, and what was written as its hash and signature.
pub(crate) struct Framed<'a> {
    body: &'a [u8],
    pub(crate) hash: Hash,
    pub(crate) signature: Option<&'a str>,
}

impl<'a> Framed<'a> {
    /// Takes the hash and signature off the end of a line; `None` where they are not exactly there.
    pub(crate) fn split(line: &'a [u8]) -> Option<Self> {
        let inner = line.strip_suffix(b"\"}")?;
        let (inner, signature) = match take_member(inner, SIGNATURE_MEMBER, 128) {
            Some((rest, signature)) => (rest.strip_suffix(b"\"")?, Some(signature)),
            None => (inner, None),
        };
        let (body, hash) = take_member(inner, HASH_MEMBER, 64)?;
        Some(Self { body, hash: Hash::from_hex(hash)?, signature })
    }

    /// The hash that the line should have.
    pub(crate) fn computed(&self) -> Hash {
        hash_of_body(self.body)
    }
}

/// Takes `member` and its `digits` characters off the end.
fn take_member<'a>(bytes: &'a [u8], member: &[u8], digits: usize) -> Option<(&'a [u8], &'a str)> {
    let (rest, value) = bytes.split_at_checked(bytes.len().checked_sub(digits)?)?;
    Some((rest.strip_suffix(member)?, std::str::from_utf8(value).ok()?))
}

/// SHA-256 of the line with its hash and signature taken out: the body and the closing brace.
fn hash_of_body(body: &[u8]) -> Hash {
    Hash::finish(Sha256::new().chain_update(body).chain_update(b"}"))
}

/// Where the chain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Number of the last record; 0 where there is none.
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
}

impl Link {
    /// An empty log.
    pub const START: Self = Self { seq: 0, hash: Hash::NONE };
}

/// What goes into a line besides the chain.
pub(crate) struct Content<'a> {
    pub(crate) unix_millis: u64,
    pub(crate) scope: &'a Scope,
    pub(crate) event: &'static str,
    pub(crate) decision: Decision,
    /// Already tidied, bounded JSON.
    pub(crate) detail: &'a [u8],
}

/// Appends a line with its newline to `out`, and gives the link that it makes.
pub(crate) fn write_line(out: &mut Vec<u8>, after: Link, content: &Content<'_>, signer: Option<&Keypair>) -> Link {
    let seq = after.seq + 1;
    let start = out.len();
    let optional = |out: &mut Vec<u8>, name: &str, id: Option<&str>| {
        // Identifiers are plain names by their type: nothing in them needs escaping.
        match id {
            Some(id) => out.extend_from_slice(format!(",\"{name}\":\"{id}\"").as_bytes()),
            None => out.extend_from_slice(format!(",\"{name}\":null").as_bytes()),
        }
    };
    out.extend_from_slice(format!("{{\"seq\":{seq},\"time\":\"{}\"", rfc3339(content.unix_millis)).as_bytes());
    optional(out, "tenant", content.scope.tenant.as_ref().map(|id| id.as_str()));
    optional(out, "session", content.scope.session.as_ref().map(|id| id.as_str()));
    optional(out, "run", content.scope.run.as_ref().map(|id| id.as_str()));
    let decision = content.decision.as_str();
    out.extend_from_slice(
        format!(",\"event\":\"{}\",\"decision\":\"{decision}\",\"detail\":", content.event).as_bytes(),
    );
    out.extend_from_slice(content.detail);
    out.extend_from_slice(format!(",\"prev\":\"{}\"", after.hash).as_bytes());
    let hash = hash_of_body(out.get(start..).unwrap_or_default());
    out.extend_from_slice(HASH_MEMBER);
    out.extend_from_slice(hash.to_string().as_bytes());
    if let Some(signer) = signer {
        out.extend_from_slice(b"\"");
        out.extend_from_slice(SIGNATURE_MEMBER);
        out.extend_from_slice(signer.sign_record(&hash).as_bytes());
    }
    out.extend_from_slice(b"\"}\n");
    Link { seq, hash }
}

/// A record as harmless JSON on one line, for readers that filter a log.
pub fn to_line(record: &Record) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    write_json(&mut out, record)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}
