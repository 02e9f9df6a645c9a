//! The entries of an uploaded archive, put into a session one by one.
//!
//! Answers to: `kinds`. Must not: unpack to the host: an entry becomes a file of the session, or is refused by name.

use ringfence::Session;
use ringfence_session::SessionError;
use ringfence_types::{FileFault, GuestPath};
use serde_json::Value as Json;

use super::python::open;
use crate::case::Case;
use crate::policy::Terms;
use crate::seen::Seen;
use crate::stage::Stage;

/// Every entry of the case, each with its own verdict.
pub async fn play(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let terms = Terms { memory_mb: 512, ..Terms::of(case) };
    let mut session = open(stage, &terms)?;
    let mut seen = Seen::default();
    let mut refused: Vec<String> = Vec::new();
    let mut entered = 0;
    for entry in case.list("entries") {
        let text = |key: &str| entry.get(key).and_then(Json::as_str).unwrap_or_default();
        let got = put(&mut session, entry, &refused).await;
        if got.is_err() {
            refused.push(format!("{}/", text("name")));
        } else {
            entered += 1;
        }
        let right = match text("want") {
            "allow" => got == Ok(()),
            "deny" => got.as_ref().is_err_and(|why| why.contains("not a path") || why.contains("neither")),
            "deny-or-last" => got.is_err() || last_stands(&mut session, text("name"), text("data")).await,
            "limit:size" => got.as_ref().is_err_and(|why| why.contains("no space")),
            unknown => return Err(format!("the suite does not know the verdict `{unknown}`")),
        };
        if !right {
            seen.faults.push(format!("entry `{}`: wants {}, got {got:?}", text("name"), text("want")));
        }
    }
    if !stage.canaries.is_untouched() || std::path::Path::new("/host-canary").exists() {
        seen.faults.push("an entry was written outside the session".to_owned());
    }
    // Harmless entries go in and the others do not; where all are refused, nothing was tried.
    let verdict = match (entered, refused.len()) {
        (0, _) => "nothing entered",
        (_, 0) => "ok",
        _ => "deny",
    };
    seen.verdicts.push(verdict.to_owned());
    Ok(seen)
}

async fn put(session: &mut Session, entry: &Json, refused: &[String]) -> Result<(), String> {
    let text = |key: &str| entry.get(key).and_then(Json::as_str);
    let name = text("name").unwrap_or_default();
    if text("symlink").is_some() || text("type").is_some() {
        return Err(format!("`{name}` is neither a file nor a folder"));
    }
    // What lies below a link that was refused was meant for the link's target.
    if refused.iter().any(|above| above.len() > 1 && name.starts_with(above.as_str())) {
        return Err(format!("`{name}` is below an entry that is neither a file nor a folder"));
    }
    let path = GuestPath::of_upload(name).map_err(|fault| fault.to_string())?;
    // A bomb is unpacked up to the first byte that can't have room; no quota is larger than the case's 64 MiB.
    let zeros = entry.get("zeros_mb").and_then(Json::as_u64).unwrap_or_default().min(65) << 20;
    let mut content = text("data").unwrap_or_default().as_bytes().to_vec();
    content.resize(content.len() + usize::try_from(zeros).unwrap_or_default(), 0);
    session.put_file(path.as_str(), content).await.map_err(|error| match error {
        SessionError::File(fault @ FileFault::NoSpace(_)) => fault.to_string(),
        other => format!("upload failed: {other}"),
    })
}

async fn last_stands(session: &mut Session, name: &str, data: &str) -> bool {
    session.get_file(name).await.is_ok_and(|content| content == data.as_bytes())
}
