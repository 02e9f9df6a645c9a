//! From the parameters of `open` to what an engine is asked for.
//!
//! Answers to: `connection` and `work`, which open sessions by a plan. Must not: loosen anything that the policy says.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ringfence_bridge::Registry;
use ringfence_policy::{LimitOverrides, Policy};
use ringfence_session::{Engine, Request};
use ringfence_types::{Engine as Interpreter, FunctionSpec, Tenant, TierName};
use serde_json::{Value as Json, json};

use super::Options;
use super::events::Wanted;
use super::fault::Fault;
use super::frames::Object;
use super::remote::{Link, RemoteApproval, RemoteFunction};
use super::request::{Open, PolicyFrom};

/// A policy file is not longer than this.
const LONGEST_POLICY: u64 = 1 << 20;
/// How many policies are remembered.
const MOST_KNOWN: usize = 8;

/// What sessions are opened by; a fork opens more by the same plan.
pub(super) struct Plan {
    /// The engine that records where the policy says.
    pub engine: Engine,
    pub wanted: Wanted,
    policy: Policy,
    tenant: Tenant,
    interpreter: Option<Interpreter>,
    functions: Vec<FunctionSpec>,
    approvals: bool,
}

impl Plan {
    pub fn new(engine: &Engine, options: &Options, policies: &Policies, open: Open) -> Result<Self, Fault> {
        let mut policy = policies.read(open.policy)?;
        if let Some(tier) = open.tier {
            let tier: TierName = tier.parse().map_err(|error| Fault::request(format!("{error}")))?;
            policy = policy.with_tier(tier).map_err(|errors| Fault::request(errors.to_string()))?;
        }
        if !open.limits.is_empty() {
            policy = policy.with_limits(limits(&open.limits)?).map_err(|errors| Fault::request(errors.to_string()))?;
        }
        let tenant = match open.tenant {
            Some(tenant) => tenant.parse().map_err(|error| Fault::request(format!("{error}")))?,
            None => Tenant::local(),
        };
        Ok(Self {
            engine: recording(engine, options, &policy)?,
            wanted: Wanted { output: open.output, shown: open.shown, thresholds: open.thresholds },
            policy,
            tenant,
            interpreter: interpreter(open.engine.as_deref())?,
            functions: open.functions,
            approvals: open.approvals,
        })
    }

    /// What the engine is asked for, for one session.
    pub fn request(&self, link: &Arc<Link>) -> Result<Request, Fault> {
        let mut functions = Registry::new();
        for spec in &self.functions {
            let function = RemoteFunction { spec: spec.clone(), link: Arc::clone(link) };
            functions.add(Arc::new(function)).map_err(|error| Fault::request(error.to_string()))?;
        }
        Ok(Request {
            policy: self.policy.clone(),
            tenant: self.tenant.clone(),
            functions,
            approve: self.approvals.then(|| Arc::new(RemoteApproval(Arc::clone(link))) as _),
            engine: self.interpreter,
        })
    }
}

/// The policies that were read last: a client opens many sessions under few, and reading one takes longer than all
/// the rest of opening.
#[derive(Default)]
pub(super) struct Policies(Mutex<VecDeque<Known>>);

struct Known {
    origin: Option<String>,
    text: String,
    policy: Policy,
}

impl Policies {
    fn read(&self, from: Option<PolicyFrom>) -> Result<Policy, Fault> {
        let (origin, text) = match from {
            None => return Ok(unnamed().clone()),
            Some(PolicyFrom::Text(text)) => (None, text),
            Some(PolicyFrom::Path(path)) => {
                let text = read(&path);
                let text = text.map_err(|why| Fault::policy(format!("the policy `{path}` can't be read: {why}")))?;
                (Some(path), text)
            }
        };
        if let Some(policy) = self.known(origin.as_deref(), &text) {
            return Ok(policy);
        }
        let policy = match &origin {
            None => Policy::parse(&text, "policy")?,
            Some(path) => {
                let folder = Path::new(path).parent().unwrap_or(Path::new(""));
                Policy::parse(&text, path)?.with_paths_from(folder)
            }
        };
        self.keep(Known { origin, text, policy: policy.clone() });
        Ok(policy)
    }

    fn known(&self, origin: Option<&str>, text: &str) -> Option<Policy> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|known| known.origin.as_deref() == origin && known.text == text)?;
        Some(found.policy.clone())
    }

    fn keep(&self, policy: Known) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == MOST_KNOWN {
            known.pop_front();
        }
        known.push_back(policy);
    }
}

/// The policy of a client that names none: closed, but for the functions that it declares itself.
fn unnamed() -> &'static Policy {
    static UNNAMED: OnceLock<Policy> = OnceLock::new();
    UNNAMED.get_or_init(|| Policy::closed().allowing_declared_functions())
}

fn read(path: &str) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    if metadata.len() > LONGEST_POLICY {
        return Err("it is longer than 1 MiB".to_owned());
    }
    String::from_utf8(std::fs::read(path).map_err(|error| error.to_string())?)
        .map_err(|_| "it is not valid UTF-8".to_owned())
}

/// The engine whose log is the one that the policy names.
fn recording(engine: &Engine, options: &Options, policy: &Policy) -> Result<Engine, Fault> {
    match (policy.audit_log(), &options.engine_for_log) {
        (None, _) => Ok(engine.clone()),
        (Some(log), Some(engine_for_log)) => engine_for_log(Path::new(log)).map_err(Fault::policy),
        (Some(log), None) => {
            let why = format!("the policy names the audit log `{log}`, and this engine records in its own");
            Err(Fault::policy(why).hint("take `audit.log` out of the policy"))
        }
    }
}

fn interpreter(name: Option<&str>) -> Result<Option<Interpreter>, Fault> {
    let all = [Interpreter::Monty, Interpreter::Rustpython];
    match name {
        None | Some("auto") => Ok(None),
        Some(name) => match all.into_iter().find(|engine| engine.as_str() == name) {
            Some(engine) => Ok(Some(engine)),
            None => {
                let name: String = name.chars().take(80).collect();
                Err(Fault::request(format!("`{name}` is not an engine; use one of: auto, monty, rustpython")))
            }
        },
    }
}

fn limits(given: &Object) -> Result<LimitOverrides, Fault> {
    let known = serde_json::to_value(LimitOverrides::default()).unwrap_or_default();
    let known: Vec<&str> = known.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    for (name, value) in given {
        if !known.contains(&name.as_str()) {
            let shown: String = name.chars().take(80).collect();
            return Err(Fault::request(format!("`{shown}` is not a limit")).hint(nearest(&shown, &known)));
        }
        if let Err(error) = serde_json::from_value::<LimitOverrides>(json!({name: value})) {
            let fault = Fault::request(format!("limit `{name}`: {error}"));
            let needs_unit = value.is_number() && error.to_string().ends_with("expected a string");
            return Err(if needs_unit { fault.hint("write it with its unit, as `5s` or `64MiB`") } else { fault });
        }
    }
    serde_json::from_value(Json::Object(given.clone())).map_err(|error| Fault::request(format!("`limits`: {error}")))
}

fn nearest(given: &str, known: &[&str]) -> String {
    let distance = |name: &&&str| strsim::damerau_levenshtein(given, name);
    match known.iter().min_by_key(distance) {
        Some(name) if distance(&name) <= 3 => format!("did you mean `{name}`?"),
        _ => format!("use one of: {}", known.join(", ")),
    }
}
