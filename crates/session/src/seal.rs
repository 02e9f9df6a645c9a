//! Snapshots under seal: authenticated, and bound to format, engine, tenant and policy.
//!
//! Answers to: `session`. Must not: look at a single byte of the state before the seal is found whole.

use hmac::{Hmac, Mac};
use ringfence_types::{Engine, Tenant};
use sha2::Sha256;

/// Raised whenever the bytes of any engine's state change their form.
const FORMAT: u8 = 1;
const MAGIC: &[u8; 8] = b"RFSNAP\r\n";
const TAG: usize = 32;
const FIXED: usize = MAGIC.len() + 3 + 32 + 1;

/// The key that snapshots are sealed with. Whoever has it can make the host run any state.
#[derive(Clone)]
pub struct SnapshotKey([u8; 32]);

impl SnapshotKey {
    /// A key from 256 secret bits.
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Checks the seal of `bytes` and what they are bound to, and takes nothing up; gives the engine that wrote them.
    /// `policy` is the hash of the policy they were taken under.
    pub fn check(&self, tenant: &Tenant, policy: &[u8; 32], bytes: &[u8]) -> Result<Engine, SnapshotError> {
        open(self, tenant, policy, bytes).map(|(bound, _)| bound.engine)
    }
}

impl std::fmt::Debug for SnapshotKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SnapshotKey")
    }
}

/// Why bytes are not taken up as a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Too short, or not a snapshot at all.
    #[error("the bytes are not a snapshot of Ringfence")]
    NotASnapshot,
    /// Changed, or sealed with another key.
    #[error("the snapshot's seal is broken: its bytes were changed, or another key sealed it")]
    Seal,
    /// Of another version.
    #[error("the snapshot is of format {0}, and this version reads format 1; take it again with this version")]
    Format(u8),
    /// Of another tenant.
    #[error("the snapshot belongs to another tenant")]
    Tenant,
    /// Taken under another policy.
    #[error("the snapshot was taken under another policy; restore it with the policy it was taken under")]
    Policy,
    /// Another engine is asked for than the one that wrote it.
    #[error("the snapshot is of the engine `{wrote}` and can't be taken up by `{asked}`; leave the engine out")]
    Engine {
        /// The engine that wrote it.
        wrote: &'static str,
        /// The one that is asked for.
        asked: &'static str,
    },
}

/// What a snapshot is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The engine that wrote the state.
    pub engine: Engine,
    /// Whether it was taken in the middle of a run.
    pub mid_run: bool,
    /// Whose it is.
    pub tenant: Tenant,
    /// The policy it was taken under.
    pub policy: [u8; 32],
}

fn mac(key: &SnapshotKey, bytes: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).ok()?;
    mac.update(bytes);
    Some(mac)
}

/// Puts the seal on.
pub fn seal(key: &SnapshotKey, bound: &Bound, state: &[u8]) -> Vec<u8> {
    let tenant = bound.tenant.as_str().as_bytes();
    let mut bytes = Vec::with_capacity(FIXED + tenant.len() + state.len() + TAG);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[FORMAT, engine_number(bound.engine), u8::from(bound.mid_run)]);
    bytes.extend_from_slice(&bound.policy);
    bytes.push(u8::try_from(tenant.len()).unwrap_or(u8::MAX));
    bytes.extend_from_slice(tenant);
    bytes.extend_from_slice(state);
    // HMAC takes keys of any length, so there is always a tag.
    let tag = mac(key, &bytes).map(|mac| mac.finalize().into_bytes());
    bytes.extend_from_slice(tag.as_ref().map(|tag| tag.as_slice()).unwrap_or_default());
    bytes
}

/// Checks the seal, then what it is bound to, and gives the state.
pub fn open<'a>(
    key: &SnapshotKey,
    tenant: &Tenant,
    policy: &[u8; 32],
    bytes: &'a [u8],
) -> Result<(Bound, &'a [u8]), SnapshotError> {
    let (sealed, tag) = bytes.split_last_chunk::<TAG>().ok_or(SnapshotError::NotASnapshot)?;
    let rest = sealed.strip_prefix(MAGIC).ok_or(SnapshotError::NotASnapshot)?;
    mac(key, sealed).and_then(|mac| mac.verify_slice(tag).ok()).ok_or(SnapshotError::Seal)?;
    let ([format, engine, mid_run], rest) = rest.split_first_chunk().ok_or(SnapshotError::NotASnapshot)?;
    if *format != FORMAT {
        return Err(SnapshotError::Format(*format));
    }
    let (taken_under, rest) = rest.split_first_chunk::<32>().ok_or(SnapshotError::NotASnapshot)?;
    let ([length], rest) = rest.split_first_chunk().ok_or(SnapshotError::NotASnapshot)?;
    let (owner, state) = rest.split_at_checked(usize::from(*length)).ok_or(SnapshotError::NotASnapshot)?;
    if owner != tenant.as_str().as_bytes() {
        return Err(SnapshotError::Tenant);
    }
    if taken_under != policy {
        return Err(SnapshotError::Policy);
    }
    let engine = engine_of(*engine).ok_or(SnapshotError::NotASnapshot)?;
    Ok((Bound { engine, mid_run: *mid_run == 1, tenant: tenant.clone(), policy: *policy }, state))
}

fn engine_number(engine: Engine) -> u8 {
    match engine {
        Engine::Monty => 1,
        Engine::Rustpython => 2,
    }
}

fn engine_of(number: u8) -> Option<Engine> {
    [Engine::Monty, Engine::Rustpython].into_iter().find(|engine| engine_number(*engine) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_refused() {
        let key = SnapshotKey::new([7; 32]);
        let bound = Bound { engine: Engine::Monty, mid_run: true, tenant: Tenant::local(), policy: [3; 32] };
        let sealed = seal(&key, &bound, b"state");
        assert_eq!(open(&key, &bound.tenant, &bound.policy, &sealed), Ok((bound.clone(), b"state".as_slice())));
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&key, &bound.tenant, &bound.policy, &changed).is_err(), "bit {bit}");
        }
        for end in 0..sealed.len() {
            assert!(open(&key, &bound.tenant, &bound.policy, &sealed[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_snapshot_of_another_owner_is_refused_by_name() {
        let key = SnapshotKey::new([7; 32]);
        let bound = Bound { engine: Engine::Monty, mid_run: false, tenant: Tenant::local(), policy: [3; 32] };
        let sealed = seal(&key, &bound, b"state");
        let other: Tenant = "other".parse().expect("a plain name");
        assert_eq!(open(&key, &other, &bound.policy, &sealed), Err(SnapshotError::Tenant));
        assert_eq!(open(&key, &bound.tenant, &[4; 32], &sealed), Err(SnapshotError::Policy));
        assert_eq!(open(&SnapshotKey::new([8; 32]), &bound.tenant, &bound.policy, &sealed), Err(SnapshotError::Seal));
        assert_eq!(open(&key, &bound.tenant, &bound.policy, b"pickle"), Err(SnapshotError::NotASnapshot));
    }
}
