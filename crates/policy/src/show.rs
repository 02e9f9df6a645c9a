//! The resolved policy as text and as a hash.
//!
//! Answers to: `Policy::show`, `Policy::hash`. Must not: leave out a default.
//! INVARIANT: what is shown reads back as an equal policy, and equal policies have equal hashes.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::settings::Settings;

/// TOML with every default written out.
pub(crate) fn toml(settings: &Settings, declared_allowed: bool) -> String {
    let note = if declared_allowed { "# Every function that the caller declares is allowed too.\n" } else { "" };
    // A policy holds text, numbers, lists and tables with text keys, all of which TOML has.
    let text = toml::to_string(settings).unwrap_or_else(|fault| format!("# cannot be written as TOML: {fault}\n"));
    format!("{note}{text}")
}

/// SHA-256 over JSON with sorted keys and no space.
/// `locked` is the digest of the environment that was found.
pub(crate) fn hash(settings: &Settings, declared_allowed: bool, locked: Option<&str>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"ringfence policy 1\n");
    hasher.update([u8::from(declared_allowed)]);
    let mut canonical = String::new();
    write(&serde_json::to_value(settings).unwrap_or_default(), &mut canonical);
    hasher.update(canonical);
    if let Some(locked) = locked {
        hasher.update(b"\nenvironment ");
        hasher.update(locked);
    }
    hasher.finalize().into()
}

fn write(json: &Json, out: &mut String) {
    match json {
        Json::Object(map) => {
            let mut members: Vec<(&String, &Json)> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                out.push_str(&Json::from(key.as_str()).to_string());
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write(item, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}
