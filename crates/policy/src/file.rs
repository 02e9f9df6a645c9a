//! The policy file as it is written: every section with its keys, each optional, each with its place.
//!
//! Answers to: `shape` (through the schema made from it), `resolve` and `Policy::schema`.
//! Must not: hold defaults or check values; that is `resolve`'s.
//! INVARIANT: the doc comments here are the descriptions in the shipped JSON Schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use ringfence_types::{Strength, TierName};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value as Json;
use toml::Spanned;

/// A value and the bytes of the file that it was read from.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct At<T>(Spanned<T>);

impl<T> At<T> {
    pub fn get(&self) -> &T {
        self.0.get_ref()
    }
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// What code may do in Ringfence. Whatever is not named here is refused.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Policy")]
pub(crate) struct PolicyFile {
    /// The version of this format: 1.
    #[schemars(extend("examples" = [1]))]
    pub version: At<i64>,
    /// A name for logs and messages.
    #[schemars(extend("examples" = ["csv-analyst"]))]
    pub name: Option<At<String>>,
    /// Where the code may run.
    pub isolation: Option<At<IsolationFile>>,
    /// What one session may use.
    pub limits: Option<At<LimitsFile>>,
    /// For the tiers that run CPython.
    pub python: Option<At<PythonFile>>,
    /// The files that the code sees; absent: none.
    pub filesystem: Option<At<FilesystemFile>>,
    /// The hosts that the code may talk to; absent: no network at all.
    pub network: Option<At<NetworkFile>>,
    /// Secrets by name. They never enter a cell: the egress proxy puts them into requests.
    pub secrets: Option<BTreeMap<String, At<SecretFile>>>,
    /// Host functions by name. Only what is listed here can be called.
    pub functions: Option<BTreeMap<String, At<FunctionFile>>>,
    /// What is done about types.
    pub types: Option<At<TypesFile>>,
    /// The audit log.
    pub audit: Option<At<AuditFile>>,
    /// What is watched for while a cell runs.
    pub monitor: Option<At<MonitorFile>>,
    /// Rules that watch the audit log.
    pub anomaly: Option<At<AnomalyFile>>,
}

impl Default for At<i64> {
    fn default() -> Self {
        Self(Spanned::new(0..0, 1))
    }
}

/// Where the code may run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Isolation")]
pub(crate) struct IsolationFile {
    /// The least that must stand between the code and the host. Default: `process`.
    #[serde(default)]
    #[schemars(schema_with = "strength_schema")]
    pub floor: Option<At<String>>,
    /// The allowed tiers; the lightest that fits is taken. Default: every tier on this machine.
    #[serde(default)]
    #[schemars(schema_with = "tiers_schema")]
    pub tiers: Option<At<Vec<At<String>>>>,
    /// Whether the code may start other programs. Where not, processes that run the code itself can still be forked.
    /// Default: true.
    #[schemars(extend("examples" = [false]))]
    pub exec: Option<At<bool>>,
}

fn names_schema(names: &[&str]) -> Schema {
    json_schema!({"type": "string", "enum": names, "examples": names.get(..1).unwrap_or_default()})
}
fn strength_schema(_: &mut SchemaGenerator) -> Schema {
    names_schema(&Strength::ALL.map(Strength::as_str))
}
fn tiers_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": names_schema(&TierName::ALL.map(TierName::as_str)), "examples": [["embedded"]]})
}
fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    names_schema(&["ro", "rw", "cow"])
}
fn check_schema(_: &mut SchemaGenerator) -> Schema {
    names_schema(&["off", "warn", "error"])
}
fn action_schema(_: &mut SchemaGenerator) -> Schema {
    names_schema(&["alert", "kill", "suspend-function"])
}
fn approve_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "examples": ["always"],
        "anyOf": [
            names_schema(&["never", "first", "always"]),
            {
                "type": "object",
                "properties": {"when": {"type": "string", "description": "a CEL condition over `args`"}},
                "required": ["when"],
                "additionalProperties": false
            }
        ]
    })
}

/// What one session may use. Each limit names itself when it strikes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub(crate) struct LimitsFile {
    /// Real time of one run, sleeping included. Default: `5s`.
    #[schemars(extend("examples" = ["5s"]))]
    pub wall: Option<At<String>>,
    /// Whether time spent in host functions counts towards `wall`. Default: false.
    #[schemars(extend("examples" = [true]))]
    pub wall_includes_calls: Option<At<bool>>,
    /// Processor time of one run. Default: `5s`.
    #[schemars(extend("examples" = ["5s"]))]
    pub cpu: Option<At<String>>,
    /// Memory of the code. Default: `64MiB`.
    #[schemars(extend("examples" = ["64MiB"]))]
    pub memory: Option<At<String>>,
    /// Standard output, standard error and the value together. Default: `64KiB`.
    #[schemars(extend("examples" = ["64KiB"]))]
    pub output: Option<At<String>>,
    /// Processes and threads at once. Default: 16.
    #[schemars(extend("examples" = [16]))]
    pub processes: Option<At<i64>>,
    /// Open file descriptors at once. Default: 64.
    #[schemars(extend("examples" = [64]))]
    pub open_files: Option<At<i64>>,
    /// Bytes written to disk. Default: the size of the workspace.
    #[schemars(extend("examples" = ["64MiB"]))]
    pub disk: Option<At<String>>,
    /// Host-function calls in one run. Default: 200.
    #[schemars(extend("examples" = [200]))]
    pub host_calls: Option<At<i64>>,
    /// One call of a host function; then it is given up, and the code sees a `TimeoutError`. Default: `60s`.
    #[schemars(extend("examples" = ["60s"]))]
    pub call: Option<At<String>>,
    /// How long a session that nobody feeds stays. Default: `5min`.
    #[schemars(extend("examples" = ["5min"]))]
    pub idle: Option<At<String>>,
    /// How long a session stays in all. Default: `1h`.
    #[schemars(extend("examples" = ["1h"]))]
    pub lifetime: Option<At<String>>,
}

/// For the tiers that run CPython.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Python")]
pub(crate) struct PythonFile {
    /// Packages that must be present; they are imported ahead of need.
    #[schemars(extend("examples" = [["numpy"]]))]
    pub packages: Option<Vec<At<String>>>,
    /// A locked environment that `ringfence env create` made; its digest is in the audit log of each session.
    #[schemars(extend("examples" = ["data"]))]
    pub env: Option<At<String>>,
    /// A virtual environment, relative to this file.
    #[schemars(extend("examples" = [".venv"]))]
    pub venv: Option<At<String>>,
}

/// The files that the code sees.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Filesystem")]
pub(crate) struct FilesystemFile {
    /// The size of a private writable `/workspace`; absent: none.
    #[schemars(extend("examples" = ["64MiB"]))]
    pub workspace: Option<At<String>>,
    /// Folders of the host.
    pub mounts: Option<Vec<At<MountFile>>>,
}

/// One folder of the host.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Mount")]
pub(crate) struct MountFile {
    /// The host's folder, relative to this file.
    #[schemars(extend("examples" = ["data"]))]
    pub host: At<String>,
    /// Where the code sees it: an absolute path.
    #[schemars(extend("examples" = ["/data"]))]
    pub at: At<String>,
    /// `ro` (default), `rw`, or `cow`: copy-on-write, where what the code writes is kept apart, and the host's folder
    /// stays as it is.
    #[serde(default)]
    #[schemars(schema_with = "mode_schema")]
    pub mode: Option<At<String>>,
}

/// The hosts that the code may talk to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Network")]
pub(crate) struct NetworkFile {
    /// One entry a host.
    pub allow: Option<Vec<At<NetworkRuleFile>>>,
}

/// One host, and what may be asked of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NetworkRule")]
pub(crate) struct NetworkRuleFile {
    /// A host name; `*.example.com` for every name under it.
    #[schemars(extend("examples" = ["api.example.com"]))]
    pub host: At<String>,
    /// TCP ports. Default: 443.
    #[schemars(extend("examples" = [[443]]))]
    pub ports: Option<Vec<At<i64>>>,
    /// HTTP methods; `*` for every method. Default: `GET` and `HEAD`.
    #[schemars(extend("examples" = [["GET"]]))]
    pub methods: Option<Vec<At<String>>>,
    /// Paths, with `*` for any text. Default: `/*`.
    #[schemars(extend("examples" = [["/v1/*"]]))]
    pub paths: Option<Vec<At<String>>>,
}

/// One secret.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Secret")]
pub(crate) struct SecretFile {
    /// Where the host reads it.
    pub from: At<SecretSourceFile>,
    /// Where the egress proxy puts it.
    pub inject: At<InjectFile>,
}

/// Where the host reads a secret: `env` or `file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SecretSource")]
pub(crate) struct SecretSourceFile {
    /// An environment variable of the host's.
    #[schemars(extend("examples" = ["EXAMPLE_KEY"]))]
    pub env: Option<At<String>>,
    /// A file of the host's.
    #[schemars(extend("examples" = ["/run/secrets/key"]))]
    pub file: Option<At<String>>,
}

/// Where the egress proxy puts a secret.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Inject")]
pub(crate) struct InjectFile {
    /// A host that `network.allow` lists.
    #[schemars(extend("examples" = ["api.example.com"]))]
    pub host: At<String>,
    /// Paths, with `*` for any text. Default: `/*`.
    #[schemars(extend("examples" = [["/v1/*"]]))]
    pub paths: Option<Vec<At<String>>>,
    /// The header.
    #[schemars(extend("examples" = ["authorization"]))]
    pub header: At<String>,
    /// The header's value, with `{}` for the secret. Default: `{}`.
    #[schemars(extend("examples" = ["Bearer {}"]))]
    pub format: Option<At<String>>,
}

/// One host function.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Function")]
pub(crate) struct FunctionFile {
    /// How often it may be called.
    #[schemars(extend("examples" = ["10/min"]))]
    pub rate: Option<At<String>>,
    /// How often one session may call it.
    #[schemars(extend("examples" = [50]))]
    pub max_calls: Option<At<i64>>,
    /// How long one call of it may take. Default: `limits.call`.
    #[schemars(extend("examples" = ["5s"]))]
    pub timeout: Option<At<String>>,
    /// When the caller's approval hook is asked: `never` (default), `first`, `always`, or `{ when = "…" }`.
    #[serde(default)]
    #[schemars(schema_with = "approve_schema")]
    pub approve: Option<At<Json>>,
    /// A CEL condition over `args`; the call is refused where it is not true.
    #[schemars(extend("examples" = ["args.amount < 100"]))]
    pub when: Option<At<String>>,
    /// Guards by argument: keywords of JSON Schema, `in`, and the formats `email` (`domains`),
    /// `path` (`under`) and `uri` (`hosts`, `schemes`).
    #[schemars(with = "Option<BTreeMap<String, BTreeMap<String, Json>>>")]
    pub arguments: Option<BTreeMap<String, At<Json>>>,
}

/// What is done about types.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Types")]
pub(crate) struct TypesFile {
    /// The static check before anything runs: `off` (default), `warn` or `error`.
    #[serde(default)]
    #[schemars(schema_with = "check_schema")]
    pub check: Option<At<String>>,
    /// Runtime assertions at annotated boundaries. Default: false.
    #[schemars(extend("examples" = [true]))]
    pub inject: Option<At<bool>>,
}

/// The audit log.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Audit")]
pub(crate) struct AuditFile {
    /// The log's file, relative to this file.
    #[schemars(extend("examples" = ["audit.jsonl"]))]
    pub log: Option<At<String>>,
    /// How often what a running cell uses is put into the log; `0s`: never. Default: `1s`.
    #[schemars(extend("examples" = ["1s"]))]
    pub sample: Option<At<String>>,
    /// Arguments that must not stand in the log: `functions.F.arguments.A`, with `*` for any text.
    #[schemars(extend("examples" = [["functions.*.arguments.password"]]))]
    pub redact: Option<Vec<At<String>>>,
}

/// What is watched for while a cell runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Monitor")]
pub(crate) struct MonitorFile {
    /// How often a running cell is looked at. Default: `1s`.
    #[schemars(extend("examples" = ["1s"]))]
    pub every: Option<At<String>>,
    /// What is told, in the audit log, on standard error and to whoever watches, once in a run.
    pub warn: Option<At<ThresholdsFile>>,
    /// What ends the session, with an outcome that names the threshold.
    pub kill: Option<At<ThresholdsFile>>,
}

/// Thresholds on what a cell uses; what is absent is not watched for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Thresholds")]
pub(crate) struct ThresholdsFile {
    /// Memory.
    #[schemars(extend("examples" = ["48MiB"]))]
    pub memory: Option<At<String>>,
    /// Processor time between two looks, in percent of one processor.
    #[schemars(extend("examples" = [90]))]
    pub cpu: Option<At<i64>>,
    /// Processes.
    #[schemars(extend("examples" = [12]))]
    pub processes: Option<At<i64>>,
    /// Bytes read from and written to disks since the cell was opened.
    #[schemars(extend("examples" = ["1GiB"]))]
    pub io: Option<At<String>>,
}

/// Rules that watch the audit log.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Anomaly")]
pub(crate) struct AnomalyFile {
    /// `default`, or globs of Sigma rule files.
    #[schemars(extend("examples" = [["default"]]))]
    pub rules: Option<Vec<At<String>>>,
    /// What a rule does that does not say it itself: `alert` (default), `kill` or `suspend-function`.
    #[serde(default)]
    #[schemars(schema_with = "action_schema")]
    pub action: Option<At<String>>,
}
