//! Kill switches that stay set: checked before each grant and each permit.
//!
//! Answers to: session and bridge, which ask; the front doors, which set them. Must not: release one by itself.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use ringfence_types::Tenant;
use serde::{Deserialize, Serialize};

/// What is held.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HoldTarget {
    /// Everything.
    All,
    /// Every session of a tenant.
    Tenant(Tenant),
    /// Every call of a host function.
    Function(String),
}

impl fmt::Display for HoldTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Tenant(tenant) => write!(f, "tenant:{tenant}"),
            Self::Function(function) => write!(f, "function:{function}"),
        }
    }
}

/// Text that names nothing that can be held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a hold is on `all`, `tenant:NAME` or `function:NAME`")]
pub struct NotATarget;

impl FromStr for HoldTarget {
    type Err = NotATarget;
    fn from_str(text: &str) -> Result<Self, NotATarget> {
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            Some(("tenant", name)) => name.parse().map(Self::Tenant).map_err(|_| NotATarget),
            Some(("function", name)) if !name.is_empty() => Ok(Self::Function(name.to_owned())),
            _ => Err(NotATarget),
        }
    }
}
impl TryFrom<String> for HoldTarget {
    type Error = NotATarget;
    fn try_from(text: String) -> Result<Self, NotATarget> {
        text.parse()
    }
}
impl From<HoldTarget> for String {
    fn from(target: HoldTarget) -> Self {
        target.to_string()
    }
}

/// One hold that is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// What is held.
    pub target: HoldTarget,
    /// Who set it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// The holds that are set now. Cheap to share.
#[derive(Debug, Clone, Default)]
pub struct Holds(Arc<RwLock<BTreeSet<HoldTarget>>>);

impl Holds {
    /// Replaces every hold.
    pub fn replace(&self, targets: impl IntoIterator<Item = HoldTarget>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = targets.into_iter().collect();
    }

    /// Sets one.
    pub fn set(&self, target: HoldTarget) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(target);
    }

    /// Releases one.
    pub fn release(&self, target: &HoldTarget) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(target);
    }

    /// The hold that stops a tenant's sessions, where there is one.
    pub fn on_tenant(&self, tenant: &Tenant) -> Option<HoldTarget> {
        self.first([HoldTarget::All, HoldTarget::Tenant(tenant.clone())])
    }

    /// The hold that stops a call, where there is one.
    pub fn on_call(&self, tenant: &Tenant, function: &str) -> Option<HoldTarget> {
        self.on_tenant(tenant).or_else(|| self.first([HoldTarget::Function(function.to_owned())]))
    }

    fn first<const N: usize>(&self, targets: [HoldTarget; N]) -> Option<HoldTarget> {
        let set = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if set.is_empty() {
            return None;
        }
        targets.into_iter().find(|target| set.contains(target))
    }
}
