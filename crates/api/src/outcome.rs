//! An outcome as JSON: the shape of every front door.
//!
//! Answers to: every front door. Must not: leave a field out where the outcome has it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringfence_types::json::to_json;
use ringfence_types::{
    AuditSpan, Changes, Considered, Dropped, GuestException, LimitHit, MimeBundle, Outcome, RunId, SessionId, Status,
    Strength, TierName, Usage,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

/// An outcome as every front door writes it. Values are tagged where JSON lacks the type.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OutcomeView<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// Its session.
    pub session: &'a SessionId,
    /// The tier it ran in.
    pub tier: Option<TierName>,
    /// The strength that the tier really reached.
    pub strength: Option<Strength>,
    /// The engine inside the tier.
    pub engine: Option<&'a str>,
    /// How it ended.
    pub status: Status,
    /// The last expression's value.
    pub value: Json,
    /// Rich results: MIME type to base64.
    pub shown: Vec<BTreeMap<&'a str, String>>,
    /// Standard output.
    pub stdout: &'a str,
    /// Standard error.
    pub stderr: &'a str,
    /// Bytes of each that were not kept.
    pub dropped: Dropped,
    /// How a command ended: its exit code, or 128 and the signal's number. Absent for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The exception, for `raised`.
    pub exception: Option<&'a GuestException>,
    /// The limit, for `limited`.
    pub limit: Option<LimitHit>,
    /// One line on how it ended.
    pub reason: Option<&'a str>,
    /// What it used.
    pub usage: Usage,
    /// Every tier that was looked at.
    pub chosen: &'a [Considered],
    /// Where it stands in the audit log.
    pub audit: Option<AuditSpan>,
    /// What the session changed in copy-on-write mounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<&'a Changes>,
}

impl<'a> OutcomeView<'a> {
    /// The view of an outcome.
    pub fn of(outcome: &'a Outcome) -> Self {
        Self {
            run_id: &outcome.run_id,
            session: &outcome.session,
            tier: outcome.tier,
            strength: outcome.strength,
            engine: outcome.engine.as_deref(),
            status: outcome.status,
            value: outcome.value.as_ref().map_or(Json::Null, to_json),
            shown: outcome.shown.iter().map(bundle).collect(),
            stdout: &outcome.stdout,
            stderr: &outcome.stderr,
            dropped: outcome.dropped,
            exit_code: outcome.exit_code,
            exception: outcome.exception.as_ref(),
            limit: outcome.limit,
            reason: outcome.reason.as_deref(),
            usage: outcome.usage,
            chosen: &outcome.chosen,
            audit: outcome.audit,
            changes: outcome.changes.as_ref(),
        }
    }
}

/// A rich result as JSON: MIME type to base64.
pub fn bundle(bundle: &MimeBundle) -> BTreeMap<&str, String> {
    bundle.0.iter().map(|(mime, bytes)| (mime.as_str(), STANDARD.encode(bytes))).collect()
}

/// An outcome as JSON.
pub fn outcome_to_json(outcome: &Outcome) -> Json {
    // Every field serializes: numbers, texts, and maps with text keys.
    serde_json::to_value(OutcomeView::of(outcome)).unwrap_or(Json::Null)
}
