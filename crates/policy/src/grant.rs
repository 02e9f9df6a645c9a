//! What one session was granted, for everyone below to read and nobody but this crate to make.
//!
//! Answers to: `session`, `bridge` and every tier. Must not: be built or changed elsewhere.
//! INVARIANT: a grant holds only functions that are both listed and declared.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_types::{ByteSize, Environment, FunctionSpec, Limits, SessionId, Span, Strength, Tenant, TierName};

use crate::denial::{Denial, Refusal, shown};
use crate::guard::FunctionGuard;
use crate::policy::Policy;
use crate::settings::{
    Anomaly, Approval, FunctionRule, Monitor, Mount, MountMode, NetworkRule, Rate, Secret, Settings, TypeCheck, Types,
};

/// What a caller asks for: whose session it is, and the functions that he declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Whose work it is.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// The host functions that the caller offers.
    pub functions: Vec<FunctionSpec>,
}

/// The policy's answer for one session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Grant(Arc<Granted>);

#[derive(Debug, Clone)]
struct Granted {
    tenant: Tenant,
    session: SessionId,
    policy_hash: [u8; 32],
    settings: Settings,
    environment: Option<Environment>,
    guards: Arc<BTreeMap<String, FunctionGuard>>,
    functions: Vec<FunctionSpec>,
    withheld: Vec<String>,
    redact: Vec<[String; 2]>,
}

/// What a tier must be able to enforce for a grant. A tier that can't is unfit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// A private writable `/workspace`.
    pub workspace: bool,
    /// Read-only mounts.
    pub mounts_ro: bool,
    /// Writable mounts.
    pub mounts_rw: bool,
    /// Copy-on-write mounts.
    pub mounts_cow: bool,
    /// No other program may be started.
    pub no_exec: bool,
    /// Some network, filtered.
    pub network: bool,
    /// Secrets put in by the egress proxy.
    pub secrets: bool,
    /// Named CPython packages.
    pub packages: bool,
    /// A virtual environment of the host's.
    pub venv: bool,
    /// Host functions.
    pub functions: bool,
    /// The static check of types before a run.
    pub type_check: bool,
    /// Runtime assertions at annotated boundaries.
    pub type_assertions: bool,
    /// A threshold on what is read from and written to disks.
    pub monitor_io: bool,
    /// Anomaly rules over the audit log.
    pub anomaly: bool,
}

pub(crate) fn decide(policy: &Policy, ask: &Ask) -> Result<Grant, Denial> {
    let listed = |name: &str| policy.declared_allowed || policy.settings.functions.contains_key(name);
    let mut functions: Vec<FunctionSpec> = Vec::new();
    let mut withheld = Vec::new();
    for spec in &ask.functions {
        if functions.iter().any(|other| other.name == spec.name) || withheld.contains(&spec.name) {
            return Err(declared_twice(&spec.name));
        }
        if !listed(&spec.name) {
            withheld.push(spec.name.clone());
            continue;
        }
        if let Some(guard) = policy.guards.get(&spec.name) {
            guard.fits(spec)?;
        }
        functions.push(spec.clone());
    }
    Ok(Grant(Arc::new(Granted {
        tenant: ask.tenant.clone(),
        session: ask.session.clone(),
        policy_hash: policy.hash(),
        settings: policy.settings.clone(),
        environment: policy.environment.clone(),
        guards: Arc::clone(&policy.guards),
        functions,
        withheld,
        redact: policy.settings.audit.redact.iter().filter_map(|pattern| redaction(pattern)).collect(),
    })))
}

fn declared_twice(name: &str) -> Denial {
    Denial::Declaration(Refusal::new(
        format!("host function `{}` is declared twice", shown(name)),
        "give each host function a name of its own",
    ))
}

/// `functions.F.arguments.A` → the globs F and A.
pub(crate) fn redaction(pattern: &str) -> Option<[String; 2]> {
    let (function, argument) = pattern.strip_prefix("functions.")?.split_once(".arguments.")?;
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c == '*' || c == '_' || c.is_alphanumeric());
    (plain(function) && plain(argument)).then(|| [function.to_owned(), argument.to_owned()])
}

/// Whether `text` matches `pattern`, where `*` stands for any text.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Grant {
    /// The same for another session of the same tenant, which is forked from this one.
    #[must_use]
    pub fn for_branch(&self, session: SessionId) -> Self {
        Self(Arc::new(Granted { session, ..Granted::clone(&self.0) }))
    }
    /// Whose session it is.
    pub fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }
    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.0.session
    }
    /// [`Policy::hash`] of the policy that granted it.
    pub fn policy_hash(&self) -> [u8; 32] {
        self.0.policy_hash
    }
    /// The name of the policy that granted it.
    pub fn policy_name(&self) -> &str {
        &self.0.settings.name
    }
    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.0.settings.limits
    }
    /// The least strength that the tier must really reach.
    pub fn floor(&self) -> Strength {
        self.0.settings.isolation.floor
    }
    /// The allowed tiers, lightest first.
    pub fn tiers(&self) -> &[TierName] {
        &self.0.settings.isolation.tiers
    }
    /// Whether the guest may start other programs.
    pub fn may_exec(&self) -> bool {
        self.0.settings.isolation.exec
    }
    /// The functions that may be called.
    pub fn functions(&self) -> &[FunctionSpec] {
        &self.0.functions
    }
    /// The declaration of a function that may be called. The name is compared byte by byte.
    pub fn function(&self, name: &str) -> Option<&FunctionSpec> {
        self.0.functions.iter().find(|spec| spec.name == name)
    }
    /// Names of the functions that the caller declared and the policy does not list.
    pub fn withheld(&self) -> &[String] {
        &self.0.withheld
    }
    /// Folders of the host that the guest sees.
    pub fn mounts(&self) -> &[Mount] {
        &self.0.settings.filesystem.mounts
    }
    /// The quota of the private workspace; absent where there is none.
    pub fn workspace(&self) -> Option<ByteSize> {
        self.0.settings.filesystem.workspace
    }
    /// The hosts that the guest may talk to; empty is no network at all.
    pub fn network(&self) -> &[NetworkRule] {
        &self.0.settings.network.allow
    }
    /// Packages that the tier must have.
    pub fn packages(&self) -> &[String] {
        &self.0.settings.python.packages
    }
    /// The virtual environment: the locked one's, or the one that is named by its path, as written.
    pub fn venv(&self) -> Option<&str> {
        let locked = self.0.environment.as_ref().map(|environment| environment.venv.as_str());
        locked.or(self.0.settings.python.venv.as_deref())
    }
    /// The locked environment.
    pub fn environment(&self) -> Option<&Environment> {
        self.0.environment.as_ref()
    }
    /// Secrets by name: where from and where to. Never their values.
    pub fn secrets(&self) -> &BTreeMap<String, Secret> {
        &self.0.settings.secrets
    }
    /// What is done about types.
    pub fn types(&self) -> Types {
        self.0.settings.types
    }
    /// Rules that watch the audit log.
    pub fn anomaly(&self) -> &Anomaly {
        &self.0.settings.anomaly
    }
    /// How often what a running cell uses is recorded; zero: never.
    pub fn sample(&self) -> Span {
        self.0.settings.audit.sample
    }
    /// What is watched for while a cell runs.
    pub fn monitor(&self) -> &Monitor {
        &self.0.settings.monitor
    }
    /// The redaction patterns, as written.
    pub fn redactions(&self) -> &[String] {
        &self.0.settings.audit.redact
    }
    /// Whether this argument must not stand in the audit log.
    pub fn redact(&self, function: &str, argument: &str) -> bool {
        self.0.redact.iter().any(|[of, name]| glob(of, function) && glob(name, argument))
    }
    /// How many calls of the function a session may make.
    pub fn max_calls(&self, function: &str) -> Option<u32> {
        self.rule(function)?.max_calls
    }
    /// How long one call of the function may take: its own timeout, else the limit for all.
    pub fn call_limit(&self, function: &str) -> Span {
        self.rule(function).and_then(|rule| rule.timeout).unwrap_or(self.limits().call)
    }
    /// How often the function may be called.
    pub fn rate(&self, function: &str) -> Option<Rate> {
        self.rule(function)?.rate
    }
    /// When a human must agree to a call of it.
    pub fn approval(&self, function: &str) -> Approval {
        self.rule(function).map_or(Approval::Never, |rule| rule.approve.clone())
    }
    pub(crate) fn listed(&self, function: &str) -> bool {
        self.rule(function).is_some()
    }
    fn rule(&self, function: &str) -> Option<&FunctionRule> {
        self.0.settings.functions.get(function)
    }
    pub(crate) fn guard(&self, function: &str) -> Option<&FunctionGuard> {
        self.0.guards.get(function)
    }

    /// What the tier must be able to enforce.
    pub fn needs(&self) -> Needs {
        let settings = &self.0.settings;
        let mount = |mode| settings.filesystem.mounts.iter().any(|mount| mount.mode == mode);
        Needs {
            workspace: settings.filesystem.workspace.is_some(),
            mounts_ro: mount(MountMode::Ro),
            mounts_rw: mount(MountMode::Rw),
            mounts_cow: mount(MountMode::Cow),
            no_exec: !settings.isolation.exec,
            network: !settings.network.allow.is_empty(),
            secrets: !settings.secrets.is_empty(),
            packages: !settings.python.packages.is_empty(),
            venv: settings.python.venv.is_some() || settings.python.env.is_some(),
            functions: !self.0.functions.is_empty(),
            type_check: settings.types.check != TypeCheck::Off,
            type_assertions: settings.types.inject,
            monitor_io: settings.monitor.warn.io.or(settings.monitor.kill.io).is_some(),
            anomaly: !settings.anomaly.rules.is_empty(),
        }
    }
}
