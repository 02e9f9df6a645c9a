//! The target functions. Each reads an input as the product would, and holds what was read to a promise.
//!
//! Answers to: [`crate::TARGETS`]. Must not: catch anything; the caller does.

use hmac::{Hmac, Mac};
use ringfence_policy::Policy;
use ringfence_session::SnapshotKey;
use ringfence_types::json::{from_json, to_json};
use ringfence_types::{Tenant, ValueBudget};
use ringfence_wire::{HEADER, Header, from_guest, from_guest_cap, to_guest, to_guest_cap};
use sha2::Sha256;

/// The key of the snapshots that are fuzzed.
pub const KEY: [u8; 32] = [7; 32];
/// The policy hash that they are bound to.
pub const POLICY: [u8; 32] = [3; 32];

/// A header and a body from a guest: what is read must be written and read again as the same.
pub fn wire_from_guest(data: &[u8]) {
    let Some((kind, body)) = split(data, from_guest_cap) else { return };
    let Ok(frame) = from_guest(kind, body, ValueBudget::DEFAULT) else { return };
    let written = frame.encode();
    match split(&written, from_guest_cap).map(|(kind, body)| from_guest(kind, body, ValueBudget::DEFAULT)) {
        Some(Ok(again)) => assert_eq!(again.encode(), written, "a frame from the guest is read in two ways"),
        other => panic!("a frame that was read can't be read again: {other:?}"),
    }
}

/// A header and a body from the host.
pub fn wire_to_guest(data: &[u8]) {
    let Some((kind, body)) = split(data, to_guest_cap) else { return };
    let Ok(frame) = to_guest(kind, body) else { return };
    let written = frame.encode();
    match split(&written, to_guest_cap).map(|(kind, body)| to_guest(kind, body)) {
        Some(Ok(again)) => assert_eq!(again.encode(), written, "a frame to the guest is read in two ways"),
        other => panic!("a frame that was read can't be read again: {other:?}"),
    }
}

/// The kind and the body of a frame. The length in the header is held to the cap of its kind, then not believed, so
/// that a mutated body is still read.
fn split(data: &[u8], cap: fn(u8) -> Option<usize>) -> Option<(u8, &[u8])> {
    let (head, body) = data.split_first_chunk::<HEADER>()?;
    if let Ok(header) = Header::parse(*head, cap) {
        assert!(cap(header.kind).is_some_and(|cap| header.length <= cap), "a header over its cap is taken");
    }
    let [.., kind] = *head;
    (body.len() <= cap(kind)?).then_some((kind, body))
}

/// A policy file: one that is taken must be shown as a policy that is its equal; a refusal must name a line of it.
pub fn policy_parse(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Policy::parse(text, "fuzz.toml") {
        Ok(policy) => {
            let shown = policy.show();
            match Policy::parse(&shown, "shown.toml") {
                Ok(again) => assert_eq!(again.hash(), policy.hash(), "a policy is shown as another:\n{shown}"),
                Err(errors) => panic!("a policy is shown as none: {errors}\n{shown}"),
            }
        }
        Err(errors) => {
            assert!(!errors.errors().is_empty(), "a policy is refused for nothing");
            let lines = text.lines().count().max(1) + 1;
            let is_there = |line: u32| (1..=lines).contains(&(line as usize));
            assert!(errors.errors().iter().filter_map(|error| error.line()).all(is_there), "no such line: {errors}");
            assert!(!errors.to_string().contains('\u{1b}'), "a message carries a terminal's escape");
        }
    }
}

/// A snapshot, as it is and under a right seal: none but the sealed one may be taken.
pub fn snapshot_open(data: &[u8]) {
    let key = SnapshotKey::new(KEY);
    let tenant = Tenant::local();
    let is_sealed = data.split_last_chunk::<32>().is_some_and(|(state, seal)| sealed(state) == *seal);
    let taken = key.check(&tenant, &POLICY, data);
    assert!(taken.is_err() || is_sealed, "a snapshot without a seal is taken");
    let mut under_seal = data.to_vec();
    under_seal.extend_from_slice(&sealed(data));
    // Whoever has the key may write any state: it must be read or refused, no more.
    let _ = key.check(&tenant, &POLICY, &under_seal);
}

/// The seal of these bytes.
pub fn sealed(bytes: &[u8]) -> [u8; 32] {
    match Hmac::<Sha256>::new_from_slice(&KEY) {
        Ok(mut mac) => {
            mac.update(bytes);
            mac.finalize().into_bytes().into()
        }
        Err(_) => panic!("HMAC takes keys of any length"),
    }
}

/// A value as JSON: one that is taken must be written as JSON that is read as the same.
pub fn json_value(data: &[u8]) {
    let Ok(json) = serde_json::from_slice(data) else { return };
    let Ok(value) = from_json(&json, "fuzz") else { return };
    let written = to_json(&value);
    match from_json(&written, "written") {
        Ok(again) => assert_eq!(to_json(&again), written, "a value is written in two ways"),
        Err(error) => panic!("a value that was read can't be read again: {error}\n{written}"),
    }
}
