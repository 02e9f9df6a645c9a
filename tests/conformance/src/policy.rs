//! The policy of a case: what it says of limits, tools and files, as a Ringfence policy.
//!
//! Answers to: `kinds`. Must not: allow more than the case says.

use std::fmt::Write as _;
use std::path::Path;

use ringfence_policy::Policy;
use ringfence_types::TierName;
use serde_json::Value as Json;

use crate::case::{Case, Object};

/// Processes and threads of a case; U060 leaves fifty children.
const PROCESSES: u32 = 64;
/// Descriptors of each process of a case.
const OPEN_FILES: u32 = 256;
/// Names the environment that has the packages of the cases, where the interpreter of the machine has not.
const VENV: &str = "RINGFENCE_CONFORMANCE_VENV";

/// What a case says beside its tools.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Real time and processor time, in milliseconds.
    pub wall_ms: u64,
    /// How long an unfed session stays, in milliseconds.
    pub idle_ms: u64,
    /// Host calls in one run.
    pub host_calls: u64,
    /// Tools that may be called.
    pub tools: Vec<String>,
    /// Calls of each tool, where bounded.
    pub max_calls: Vec<(String, u64)>,
    /// CPython packages that must be there.
    pub packages: Vec<String>,
    /// More of the policy, as TOML.
    pub more: String,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            memory_mb: 256,
            wall_ms: 10_000,
            idle_ms: 300_000,
            host_calls: 1_000_000,
            tools: Vec::new(),
            max_calls: Vec::new(),
            packages: Vec::new(),
            more: String::new(),
        }
    }
}

impl Terms {
    /// The terms of a case.
    pub fn of(case: &Case) -> Self {
        let limit = |key: &str| case.input.get("limits").and_then(|limits| limits.get(key)).and_then(Json::as_f64);
        let mut terms = Self { tools: case.names("tools"), packages: case.packages(), ..Self::default() };
        if let Some(memory) = limit("memory_mb") {
            terms.memory_mb = memory as u64;
        }
        if let Some(wall) = limit("wall_s") {
            terms.wall_ms = (wall * 1000.0) as u64;
        }
        let bounded = case.input.get("policy").and_then(|policy| policy.get("tools")).and_then(Json::as_object);
        terms.max_calls = bounded.map(max_calls).unwrap_or_default();
        for (name, _) in &terms.max_calls {
            if !terms.tools.contains(name) {
                terms.tools.push(name.clone());
            }
        }
        terms
    }

    /// The policy, for one tier alone, with `/data` mounted from `data`.
    pub fn policy(&self, tier: TierName, data: &Path) -> Result<Policy, String> {
        let text = self.toml(tier, data);
        Policy::parse(&text, "case.toml")
            .map_err(|errors| format!("the policy of the case is refused: {errors}\n{text}"))
    }

    /// The same as text.
    pub fn toml(&self, tier: TierName, data: &Path) -> String {
        let mut text = format!(
            "version = 1\nname = \"case\"\n[isolation]\nfloor = \"process\"\ntiers = [\"{tier}\"]\n\
             [limits]\nwall = \"{wall}ms\"\ncpu = \"{wall}ms\"\nmemory = \"{}MiB\"\noutput = \"1MiB\"\nhost_calls = {}\n\
             idle = \"{}ms\"\nprocesses = {PROCESSES}\nopen_files = {OPEN_FILES}\n\
             [filesystem]\nworkspace = \"64MiB\"\nmounts = [{{ host = {:?}, at = \"/data\", mode = \"ro\" }}]\n",
            self.memory_mb,
            self.host_calls,
            self.idle_ms,
            data.display().to_string(),
            wall = self.wall_ms,
        );
        if !self.packages.is_empty() {
            let _ = writeln!(text, "[python]\npackages = {:?}", self.packages);
            if let Ok(venv) = std::env::var(VENV) {
                let _ = writeln!(text, "venv = {venv:?}");
            }
        }
        for tool in &self.tools {
            let _ = writeln!(text, "[functions.{tool}]");
            if let Some((_, calls)) = self.max_calls.iter().find(|(name, _)| name == tool) {
                let _ = writeln!(text, "max_calls = {calls}");
            }
        }
        text.push_str(&self.more);
        text
    }
}

fn max_calls(tools: &Object) -> Vec<(String, u64)> {
    let one = |(name, rule): (&String, &Json)| Some((name.clone(), rule.get("max_calls")?.as_u64()?));
    tools.iter().filter_map(one).collect()
}
