//! How each kind of case is played.
//!
//! Answers to: `run`. Must not: judge; a kind says what was seen.

pub mod archive;
pub mod audit;
pub mod bridge;
pub mod condition;
pub mod environment;
pub mod python;
pub mod repeated;
pub mod sequence;
pub mod several;

use crate::case::Case;
use crate::seen::Seen;
use crate::stage::Stage;

/// Plays a case on the product.
pub async fn play(stage: &Stage, case: &Case) -> Result<Seen, String> {
    match case.kind() {
        "python" | "python-template" => python::play(stage, case).await,
        "feeds" => python::feeds(stage, case).await,
        "pair" => several::pair(stage, case).await,
        "siblings" => several::siblings(stage, case).await,
        "bridge" | "bridge-sequence" => bridge::play(stage, case).await,
        "sequence" if case.input.contains_key("repeat") => repeated::play(stage, case).await,
        "sequence" | "snapshot-sequence" => sequence::play(stage, case).await,
        "audit-sequence" => audit::play(stage, case).await,
        "archive-upload" => archive::play(stage, case).await,
        kind => Err(format!("the suite does not know the kind `{kind}`")),
    }
}
