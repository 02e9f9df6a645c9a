//! The policy itself: made closed or read from a file, adjusted, and asked for grants.
//!
//! Answers to: every front door. Must not: read a file (text comes in), or hold a session's state.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ringfence_types::{ByteSize, Environment, EnvironmentName, Limits, Span, Strength, TierName};
use serde::{Deserialize, Serialize};

use crate::denial::Denial;
use crate::error::{PolicyError, PolicyErrorKind, PolicyErrors};
use crate::file::PolicyFile;
use crate::grant::{self, Ask, Grant};
use crate::guard::FunctionGuard;
use crate::resolve;
use crate::settings::{SecretSource, Settings, best_strength};
use crate::show;

/// What code may do. Deny by default: whatever it does not name is refused.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) settings: Settings,
    /// Compiled from `settings.functions`, once.
    pub(crate) guards: Arc<BTreeMap<String, FunctionGuard>>,
    pub(crate) declared_allowed: bool,
    /// The environment that `settings.python.env` names, once it was found on this machine.
    pub(crate) environment: Option<Environment>,
    hash: [u8; 32],
}

impl PartialEq for Policy {
    /// Two policies are equal where they say the same.
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings && self.declared_allowed == other.declared_allowed
    }
}

/// Limits given beside the policy, as on the command line: each given one replaces the policy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitOverrides {
    /// Real time of one run.
    pub wall: Option<Span>,
    /// Whether time in host functions counts towards `wall`.
    pub wall_includes_calls: Option<bool>,
    /// Processor time of one run.
    pub cpu: Option<Span>,
    /// Memory of the guest.
    pub memory: Option<ByteSize>,
    /// Output of one run.
    pub output: Option<ByteSize>,
    /// Processes and threads at once.
    pub processes: Option<u32>,
    /// Open file descriptors at once.
    pub open_files: Option<u32>,
    /// Bytes of the private workspace.
    pub disk: Option<ByteSize>,
    /// Host-function calls in one run.
    pub host_calls: Option<u32>,
    /// One call of a host function.
    pub call: Option<Span>,
    /// How long a session that nobody feeds stays.
    pub idle: Option<Span>,
    /// How long a session stays in all.
    pub lifetime: Option<Span>,
}

impl Policy {
    /// No functions, no files, no network, 64 MiB, 5 s wall, 64 KiB output, floor process.
    pub fn closed() -> Self {
        Self::from_settings(Settings::closed(), BTreeMap::new())
    }

    /// Reads a policy from TOML text. `origin` is the file's name in errors; every fault is told at once.
    pub fn parse(text: &str, origin: &str) -> Result<Self, PolicyErrors> {
        resolve::policy(text).map_err(|faults| {
            let located = faults.into_iter().map(|fault| fault.located(text)).collect();
            PolicyErrors::new(origin, located)
        })
    }

    /// The resolved policy as TOML, every default written out. Reads back as an equal policy.
    pub fn show(&self) -> String {
        show::toml(&self.settings, self.declared_allowed)
    }

    /// JSON Schema of a policy file.
    pub fn schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(PolicyFile).to_value();
        without_null(&mut schema);
        schema
    }

    pub(crate) fn from_settings(settings: Settings, guards: BTreeMap<String, FunctionGuard>) -> Self {
        let mut policy =
            Self { settings, guards: Arc::new(guards), declared_allowed: false, environment: None, hash: [0; 32] };
        policy.rehash();
        policy
    }

    /// Allows every function that the caller declares, without guards: for a caller that registers
    /// functions and has no policy file. What the policy says of a listed function still holds.
    #[must_use]
    pub fn allowing_declared_functions(mut self) -> Self {
        self.declared_allowed = true;
        self.rehash();
        self
    }

    /// Takes every relative path of the policy as relative to `folder`, where its file is.
    #[must_use]
    pub fn with_paths_from(mut self, folder: &Path) -> Self {
        let joined = |path: &mut String| *path = folder.join(&*path).to_string_lossy().into_owned();
        let settings = &mut self.settings;
        settings.filesystem.mounts.iter_mut().for_each(|mount| joined(&mut mount.host));
        settings.python.venv.iter_mut().for_each(joined);
        settings.audit.log.iter_mut().for_each(joined);
        settings.anomaly.rules.iter_mut().filter(|rules| *rules != "default").for_each(joined);
        for secret in settings.secrets.values_mut() {
            if let SecretSource::File(path) = &mut secret.from {
                joined(path);
            }
        }
        self.rehash();
        self
    }

    /// Replaces each limit that is given. A limit of zero that would stop everything is refused.
    pub fn with_limits(mut self, given: LimitOverrides) -> Result<Self, PolicyErrors> {
        let limits = &mut self.settings.limits;
        replace(&mut limits.wall, given.wall);
        replace(&mut limits.wall_includes_calls, given.wall_includes_calls);
        replace(&mut limits.cpu, given.cpu);
        replace(&mut limits.memory, given.memory);
        replace(&mut limits.output, given.output);
        replace(&mut limits.processes, given.processes);
        replace(&mut limits.open_files, given.open_files);
        replace(&mut limits.disk, given.disk);
        replace(&mut limits.host_calls, given.host_calls);
        replace(&mut limits.call, given.call);
        replace(&mut limits.idle, given.idle);
        replace(&mut limits.lifetime, given.lifetime);
        let faults = zero_limits(limits);
        self.settled(faults.into_iter().map(|(_, fault)| fault).collect())
    }

    /// Allows this tier alone. A tier that the policy does not allow is refused.
    pub fn with_tier(mut self, tier: TierName) -> Result<Self, PolicyErrors> {
        if !self.settings.isolation.tiers.contains(&tier) {
            let message = format!("the policy does not allow tier `{tier}`; add it to `isolation.tiers`");
            return Err(self.fault(PolicyErrorKind::Contradiction, message));
        }
        self.settings.isolation.tiers = vec![tier];
        let faults = unreachable_floor(&self.settings);
        self.settled(faults.into_iter().collect())
    }

    /// Gives sessions a private writable `/workspace` of this size, where they have none. Nothing of the host's is in it.
    #[must_use]
    pub fn with_workspace(mut self, quota: ByteSize) -> Self {
        self.settings.filesystem.workspace.get_or_insert(quota);
        self.rehash();
        self
    }

    /// Replaces the floor. A floor that no allowed tier can reach is refused.
    pub fn with_floor(mut self, floor: Strength) -> Result<Self, PolicyErrors> {
        self.settings.isolation.floor = floor;
        let faults = unreachable_floor(&self.settings);
        self.settled(faults.into_iter().collect())
    }

    fn settled(mut self, faults: Vec<String>) -> Result<Self, PolicyErrors> {
        if faults.is_empty() {
            self.rehash();
            return Ok(self);
        }
        let errors =
            faults.into_iter().map(|message| PolicyError::new(PolicyErrorKind::Contradiction, None, message)).collect();
        Err(PolicyErrors::new(&self.settings.name, errors))
    }

    fn fault(&self, kind: PolicyErrorKind, message: String) -> PolicyErrors {
        PolicyErrors::new(&self.settings.name, vec![PolicyError::new(kind, None, message)])
    }

    /// The locked environment that it names.
    pub fn environment(&self) -> Option<&EnvironmentName> {
        self.settings.python.env.as_ref()
    }

    /// The policy with the environment that it names, found on this machine. What was installed there is part of what
    /// the policy says from now on: another digest is another policy.
    #[must_use]
    pub fn with_environment(mut self, found: Environment) -> Self {
        self.environment = Some(found).filter(|found| self.environment() == Some(&found.name));
        self.rehash();
        self
    }

    /// What one session may do, or why it may not begin.
    pub fn decide(&self, ask: &Ask) -> Result<Grant, Denial> {
        grant::decide(self, ask)
    }

    /// SHA-256 of the resolved policy: equal for two files that say the same.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    fn rehash(&mut self) {
        let locked = self.environment.as_ref().map(|environment| environment.digest.as_str());
        self.hash = show::hash(&self.settings, self.declared_allowed, locked);
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// The least strength.
    pub fn floor(&self) -> Strength {
        self.settings.isolation.floor
    }

    /// The allowed tiers, lightest first.
    pub fn tiers(&self) -> &[TierName] {
        &self.settings.isolation.tiers
    }

    /// The audit log's file, as written; relative to the policy file.
    pub fn audit_log(&self) -> Option<&str> {
        self.settings.audit.log.as_deref()
    }

    /// The functions listed under `[functions]`.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.settings.functions.keys().map(String::as_str)
    }
}

/// TOML has no null: a key that may be left out is not one that may be null.
fn without_null(schema: &mut serde_json::Value) {
    use serde_json::Value as Json;
    let is_null = |item: &Json| *item == "null" || item.get("type").is_some_and(|kind| *kind == "null");
    match schema {
        Json::Array(items) => items.iter_mut().for_each(without_null),
        Json::Object(map) => {
            if map.get("default") == Some(&Json::Null) {
                map.remove("default");
            }
            for key in ["type", "anyOf"] {
                let Some(Json::Array(items)) = map.get_mut(key) else { continue };
                items.retain(|item| !is_null(item));
                match items.as_mut_slice() {
                    [only] if key == "type" => {
                        let only = only.take();
                        map.insert("type".to_owned(), only);
                    }
                    [Json::Object(only)] => {
                        let only = std::mem::take(only);
                        map.remove("anyOf");
                        map.extend(only);
                    }
                    _ => {}
                }
            }
            map.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

fn replace<T>(limit: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *limit = given;
    }
}

/// Each limit of zero that would let nothing run, with its key.
pub(crate) fn zero_limits(limits: &Limits) -> Vec<(&'static str, String)> {
    let amounts = [
        ("wall", limits.wall.millis(), "5s"),
        ("cpu", limits.cpu.millis(), "5s"),
        ("memory", limits.memory.bytes(), "64MiB"),
        ("output", limits.output.bytes(), "64KiB"),
        ("processes", u64::from(limits.processes), "1"),
        ("open_files", u64::from(limits.open_files), "16"),
        ("call", limits.call.millis(), "60s"),
        ("idle", limits.idle.millis(), "5min"),
        ("lifetime", limits.lifetime.millis(), "1h"),
    ];
    let zero = amounts.into_iter().filter(|(_, amount, _)| *amount == 0);
    zero.map(|(key, _, usual)| (key, format!("`limits.{key}` is zero, so nothing could run; the usual is `{usual}`")))
        .collect()
}

/// A floor above what any allowed tier can reach.
pub(crate) fn unreachable_floor(settings: &Settings) -> Option<String> {
    let floor = settings.isolation.floor;
    let best = settings.isolation.tiers.iter().map(|tier| best_strength(*tier)).max()?;
    (floor > best).then(|| {
        let reaching = TierName::ALL.into_iter().filter(|tier| best_strength(*tier) >= floor);
        let names = reaching.map(|tier| format!("`{tier}`")).collect::<Vec<_>>().join(", ");
        format!(
            "no allowed tier reaches the floor `{floor}`: the best of them reaches `{best}`; lower `isolation.floor` or allow one of {names}"
        )
    })
}
