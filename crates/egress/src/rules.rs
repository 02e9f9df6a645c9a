//! What the policy allows, asked for one target, method and path at a time.
//!
//! Answers to: `exchange` and `tunnel`. Must not: resolve a name or know where bytes go.
//! INVARIANT: several rules for one host add up; an address is allowed only where a rule names that very address.

use hyper::{HeaderMap, Method};
use ringfence_policy::NetworkRule;

use crate::headers;
use crate::path;
use crate::refusal::{Refusal, shown};
use crate::secret::Prepared;
use crate::target::{Host, Target};

/// `*` among a rule's methods stands for every method.
const ANY_METHOD: &str = "*";

/// The rules and secrets of one cell.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<NetworkRule>,
    secrets: Vec<Prepared>,
}

/// How a target may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Through a tunnel that nobody looks into, by this rule.
    Opaque(usize),
    /// Request by request; the first rule that names the target.
    Inspected(usize),
}

impl Reach {
    pub(crate) fn rule(self) -> usize {
        match self {
            Self::Opaque(rule) | Self::Inspected(rule) => rule,
        }
    }
}

/// Whether the rule asks nothing that can be seen inside TLS only: every method (`*`) and every path.
pub fn is_opaque(rule: &NetworkRule) -> bool {
    any_method(rule) && any_path(rule)
}
fn any_method(rule: &NetworkRule) -> bool {
    rule.methods.iter().any(|method| method == ANY_METHOD)
}
fn any_path(rule: &NetworkRule) -> bool {
    rule.paths.iter().any(|pattern| path::is_any(pattern))
}

fn names(rule: &NetworkRule, target: &Target) -> bool {
    let host = match &target.host {
        Host::Name(name) => rule.covers_host(name),
        Host::Address(address) => rule.host == address.to_string(),
    };
    host && rule.ports.contains(&target.port)
}

impl Rules {
    pub(crate) fn new(rules: Vec<NetworkRule>, secrets: Vec<Prepared>) -> Self {
        Self { rules, secrets }
    }

    /// Whether any host needs its TLS to be opened.
    pub(crate) fn inspects(&self) -> bool {
        !self.secrets.is_empty() || !self.rules.iter().all(is_opaque)
    }

    /// Whether any rule lets a tunnel through that nobody looks into.
    pub(crate) fn has_tunnels(&self) -> bool {
        self.rules.iter().any(is_opaque)
    }

    /// How the target may be reached at all.
    pub(crate) fn reach(&self, target: &Target) -> Result<Reach, Refusal> {
        let mut named = self.naming(target);
        let Some((first, _)) = named.next() else {
            return Err(Refusal::Target { target: self.shown(&target.to_string()) });
        };
        let opaque = self.naming(target).find(|(_, rule)| is_opaque(rule));
        let has_secret = self.secrets.iter().any(|secret| goes_to(secret, target));
        Ok(match opaque {
            Some((index, _)) if !has_secret => Reach::Opaque(index),
            _ => Reach::Inspected(first),
        })
    }

    fn naming(&self, target: &Target) -> impl Iterator<Item = (usize, &NetworkRule)> {
        self.rules.iter().enumerate().filter(move |(_, rule)| names(rule, target))
    }

    /// The rule that allows the request. `raw` is its path as it came, without the query.
    pub(crate) fn permit(
        &self,
        target: &Target,
        method: &Method,
        raw: &str,
        headers: &HeaderMap,
    ) -> Result<usize, Refusal> {
        let plain = path::read(raw);
        let mut refusal = Refusal::Target { target: self.shown(&target.to_string()) };
        for (index, rule) in self.naming(target) {
            match self.allows(rule, target, method, (raw, &plain), headers) {
                Ok(()) => return Ok(index),
                // The nearest miss is told.
                Err(found) if rank(&found) >= rank(&refusal) => refusal = found,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    fn allows(
        &self,
        rule: &NetworkRule,
        target: &Target,
        method: &Method,
        (raw, plain): (&str, &Result<String, &'static str>),
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        if !any_method(rule) {
            if !rule.methods.iter().any(|allowed| allowed == method.as_str()) {
                return Err(Refusal::Method {
                    target: self.shown(&target.to_string()),
                    method: self.shown(method.as_str()),
                });
            }
            if let Some(header) = headers::method_override(headers) {
                return Err(Refusal::Override(header));
            }
        }
        if !any_path(rule) {
            let plain = plain.as_ref().map_err(|why| Refusal::AmbiguousPath { path: self.shown(raw), why })?;
            if !rule.paths.iter().any(|pattern| ringfence_policy::glob(pattern, plain)) {
                return Err(Refusal::Path { target: self.shown(&target.to_string()), path: self.shown(raw) });
            }
            if let Some(header) = headers::path_override(headers) {
                return Err(Refusal::Override(header));
            }
        }
        Ok(())
    }

    /// The secrets that go into the request.
    pub(crate) fn secrets(&self, target: &Target, raw: &str) -> Vec<&Prepared> {
        let plain = path::read(raw).ok();
        let fits = |pattern: &String| {
            path::is_any(pattern) || plain.as_ref().is_some_and(|plain| ringfence_policy::glob(pattern, plain))
        };
        let mut found: Vec<&Prepared> = Vec::new();
        for secret in &self.secrets {
            let is_first = found.iter().all(|other| other.header != secret.header);
            if is_first && goes_to(secret, target) && secret.inject.paths.iter().any(fits) {
                found.push(secret);
            }
        }
        found
    }

    /// The guest's text as it may be told: without any secret, which a host may have given away; cut and escaped.
    pub(crate) fn shown(&self, text: &str) -> String {
        // WHY: before it is cut, or a part of a secret would stay.
        shown(&self.secrets.iter().fold(text.to_owned(), |text, secret| secret.mask(&text)))
    }
}

fn goes_to(secret: &Prepared, target: &Target) -> bool {
    match &target.host {
        Host::Name(name) => secret.inject.covers_host(name),
        Host::Address(address) => secret.inject.host == address.to_string(),
    }
}

fn rank(refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::Target { .. } => 0,
        Refusal::Method { .. } => 1,
        Refusal::Path { .. } => 2,
        _ => 3,
    }
}
