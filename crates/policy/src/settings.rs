//! What a policy says once it is read: every section resolved, with its defaults.
//!
//! Answers to: `resolve` (which builds it from a file), `policy`, `show` and `grant`.
//! Must not: hold a file position, a secret's value, or anything that was not validated.
//! INVARIANT: the names that serde writes here are the keys of the policy file.

use std::collections::BTreeMap;
use std::fmt;

use ringfence_types::{ByteSize, EnvironmentName, GuestPath, Limits, Span, Strength, TierName};
use serde::Serialize;
use serde_json::Value as Json;

/// A whole policy, resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Settings {
    pub version: u32,
    pub name: String,
    pub isolation: Isolation,
    pub limits: Limits,
    pub python: Python,
    pub filesystem: Filesystem,
    pub network: Network,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, Secret>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, FunctionRule>,
    pub types: Types,
    pub audit: Audit,
    #[serde(skip_serializing_if = "Monitor::is_default")]
    pub monitor: Monitor,
    pub anomaly: Anomaly,
}

/// Where the code may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Isolation {
    pub floor: Strength,
    pub tiers: Vec<TierName>,
    pub exec: bool,
}

/// What CPython needs, for the tiers that run it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Python {
    pub packages: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvironmentName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub venv: Option<String>,
}

/// The files the guest sees.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Filesystem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<ByteSize>,
    pub mounts: Vec<Mount>,
}

/// A folder of the host that the guest sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The host's path, as written; relative to the policy file.
    pub host: String,
    /// Where the guest sees it.
    pub at: GuestPath,
    /// Whether the guest may write to it.
    pub mode: MountMode,
}

/// Whether a mount may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MountMode {
    /// Read only.
    Ro,
    /// Read and write.
    Rw,
    /// Copy-on-write: what is written stays with the session, and the host's folder as it is.
    Cow,
}

/// The network; empty is none at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Network {
    pub allow: Vec<NetworkRule>,
}

/// One host that the guest may talk to, through the host's proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NetworkRule {
    /// A host name in lower case; `*.example.com` for every name under it.
    pub host: String,
    /// TCP ports.
    pub ports: Vec<u16>,
    /// HTTP methods in upper case; `*` stands for every method.
    pub methods: Vec<String>,
    /// Path patterns; `*` stands for any text.
    pub paths: Vec<String>,
}

impl NetworkRule {
    /// Whether the rule speaks of this host name (lower case, no final dot).
    pub fn covers_host(&self, host: &str) -> bool {
        host_matches(&self.host, host)
    }
}

/// Whether the pattern `*.example.com` or the plain name `pattern` stands for `host`.
pub(crate) fn host_matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => pattern == host,
    }
}

impl Inject {
    /// Whether the secret goes to this host (lower case, no final dot).
    pub fn covers_host(&self, host: &str) -> bool {
        host_matches(&self.host, host)
    }
}

/// A secret by name: where it comes from and where the proxy puts it. Never its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Secret {
    /// Where the host reads it.
    pub from: SecretSource,
    /// Where the egress proxy puts it.
    pub inject: Inject,
}

/// Where the host reads a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretSource {
    /// An environment variable of the host's.
    Env(String),
    /// A file of the host's.
    File(String),
}

/// Where the egress proxy puts a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inject {
    /// Only in requests to this host.
    pub host: String,
    /// Only in requests whose path matches one of these; `*` stands for any text.
    pub paths: Vec<String>,
    /// The header, in lower case.
    pub header: String,
    /// The header's value, with `{}` for the secret.
    pub format: String,
}

/// What the policy says of one host function.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct FunctionRule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    pub approve: Approval,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Json>,
}

/// How often a host function may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Calls.
    pub count: u32,
    /// In this span of time.
    pub per: Span,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = self.per.to_string();
        write!(f, "{}/{}", self.count, per.strip_prefix('1').filter(|unit| !starts_with_digit(unit)).unwrap_or(&per))
    }
}
fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}
impl Serialize for Rate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// When a human must agree to a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Never.
    #[default]
    Never,
    /// At the first call of a session.
    First,
    /// At every call.
    Always,
    /// At every call for which this CEL condition over `args` is true.
    When(String),
}

/// What is done about types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Types {
    /// The static check before anything runs.
    pub check: TypeCheck,
    /// Runtime assertions at annotated boundaries.
    pub inject: bool,
}

/// What a finding of the static check does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TypeCheck {
    /// Nothing is checked.
    #[default]
    Off,
    /// It is told.
    Warn,
    /// The program does not run.
    Error,
}

/// The audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Audit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    pub sample: Span,
    pub redact: Vec<String>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { log: None, sample: Span::from_secs(1), redact: Vec::new() }
    }
}

/// What is watched for while a cell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Monitor {
    /// How often it is looked at.
    pub every: Span,
    /// What is told.
    #[serde(skip_serializing_if = "Thresholds::is_default")]
    pub warn: Thresholds,
    /// What ends the session.
    #[serde(skip_serializing_if = "Thresholds::is_default")]
    pub kill: Thresholds,
}

/// Thresholds on what a cell uses; what is absent is not watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Thresholds {
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Processor time between two looks, in percent of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Bytes to and from disks since the cell was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<ByteSize>,
}

impl Default for Monitor {
    fn default() -> Self {
        Self { every: Span::from_secs(1), warn: Thresholds::default(), kill: Thresholds::default() }
    }
}

impl Monitor {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Thresholds {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Rules that watch the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Anomaly {
    /// `default`, or globs of Sigma rule files.
    pub rules: Vec<String>,
    /// What a rule does that does not say it itself.
    pub action: AnomalyAction,
}

/// What an anomaly rule does when it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnomalyAction {
    /// Tells.
    #[default]
    Alert,
    /// Ends the run.
    Kill,
    /// Refuses the function from then on.
    SuspendFunction,
}

impl Settings {
    /// No functions, no files, no network, 64 MiB, 5 s wall, 64 KiB output, floor process.
    pub fn closed() -> Self {
        Self {
            version: 1,
            name: "closed".to_owned(),
            isolation: Isolation { floor: Strength::Process, tiers: LOCAL_TIERS.to_vec(), exec: true },
            limits: Limits::closed(),
            python: Python::default(),
            filesystem: Filesystem::default(),
            network: Network::default(),
            secrets: BTreeMap::new(),
            functions: BTreeMap::new(),
            types: Types::default(),
            audit: Audit::default(),
            monitor: Monitor::default(),
            anomaly: Anomaly::default(),
        }
    }
}

/// Tiers allowed where a policy names none: those that keep the code on this machine.
pub(crate) const LOCAL_TIERS: [TierName; 5] =
    [TierName::Embedded, TierName::Wasm, TierName::Process, TierName::Container, TierName::Microvm];

/// The best strength that a tier can reach on any machine.
pub(crate) fn best_strength(tier: TierName) -> Strength {
    match tier {
        TierName::Bare => Strength::Language,
        TierName::Embedded | TierName::Wasm | TierName::Process => Strength::Process,
        TierName::Container => Strength::Kernel,
        TierName::Microvm | TierName::Remote | TierName::Cluster => Strength::Hardware,
    }
}
