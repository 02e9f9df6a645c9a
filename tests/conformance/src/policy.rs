//! The policy of a case: what it says of limits, tools and files, as a Ringfence policy.
//!
//! Answers to: `kinds`. Must not: allow more than the case says.

use std::fmt::Write as _;
use std::path::Path;

use ringfence_policy::Policy;
use serde_json::Value as Json;

use crate::case::{Case, Object};

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
            more: String::new(),
        }
    }
}

impl Terms {
    /// The terms of a case.
    pub fn of(case: &Case) -> Self {
        let limit = |key: &str| case.input.get("limits").and_then(|limits| limits.get(key)).and_then(Json::as_f64);
        let mut terms = Self { tools: case.names("tools"), ..Self::default() };
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

    /// The policy, with `/data` mounted from `data`.
    pub fn policy(&self, data: &Path) -> Result<Policy, String> {
        let text = self.toml(data);
        Policy::parse(&text, "case.toml")
            .map_err(|errors| format!("the policy of the case is refused: {errors}\n{text}"))
    }

    fn toml(&self, data: &Path) -> String {
        let mut text = format!(
            "version = 1\nname = \"case\"\n[isolation]\nfloor = \"process\"\ntiers = [\"embedded\"]\n\
             [limits]\nwall = \"{wall}ms\"\ncpu = \"{wall}ms\"\nmemory = \"{}MiB\"\noutput = \"1MiB\"\nhost_calls = {}\n\
             idle = \"{}ms\"\n[filesystem]\nworkspace = \"64MiB\"\nmounts = [{{ host = {:?}, at = \"/data\" }}]\n",
            self.memory_mb,
            self.host_calls,
            self.idle_ms,
            data.display().to_string(),
            wall = self.wall_ms,
        );
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
