//! One snippet, or several fed to one session.
//!
//! Answers to: `kinds`. Must not: let one case's counts reach another.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringfence::Session;
use ringfence_types::{GuestPath, Outcome, Source, Status, TierName, Value};
use serde_json::Value as Json;

use crate::Check;
use crate::case::Case;
use crate::measure;
use crate::policy::Terms;
use crate::seen::Seen;
use crate::stage::Stage;

/// What the cases make beside regular files: how they call it, and where it is.
const SPECIAL: [(&str, &str); 8] = [
    ("file", "report.txt"),
    ("dir", "charts/secret.txt"),
    ("relative", "rel.txt"),
    ("loop", "self"),
    ("fifo", "pipe.csv"),
    ("sock", "s.sock"),
    ("hard", "hard.txt"),
    ("proc", "env.txt"),
];

/// One snippet.
pub async fn play(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let code = stage.canaries.placed(&case.code());
    watched(stage, case, &[code]).await
}

/// Several snippets in one session.
pub async fn feeds(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let feeds: Vec<String> = case.names("feeds").iter().map(|code| stage.canaries.placed(code)).collect();
    watched(stage, case, &feeds).await
}

async fn watched(stage: &Stage, case: &Case, snippets: &[String]) -> Result<Seen, String> {
    let mut seen = Seen { log: stage.log(), ..Seen::default() };
    stage.tools.take_calls();
    stage.canaries.forget();
    if let Some(secret) = secret_of(case) {
        stage.engine.inner().log().keep_out([secret]).map_err(|error| error.to_string())?;
    }
    if stage.tier == TierName::Process {
        // Its pool is of the policy, and starts at first need: what it keeps ready is no remainder of the case.
        let mut first = open(stage, &Terms::of(case))?;
        run(stage, &mut first, Source::new("pass")).await?;
        drop(first);
        measure::steady(measure::descendants).await;
    }
    let mut session = open(stage, &Terms::of(case))?;
    let session_id = session.inner().id().clone();
    upload(&mut session, case, &mut seen).await?;
    let processes = measure::descendants();
    let disk = measure::bytes_below(stage.folder());
    measure::forget_peak();
    let memory = measure::memory();
    for (at, snippet) in snippets.iter().enumerate() {
        let source = Source { stdin: case.text("stdin").to_owned(), ..Source::new(snippet.clone()) };
        let (outcome, wall, events) = run(stage, &mut session, source).await?;
        if at == 0 {
            (seen.wall, seen.events) = (wall, events);
        }
        seen.outcomes.push(outcome);
    }
    seen.host_growth = measure::peak().saturating_sub(memory);
    seen.disk_growth = measure::bytes_below(stage.folder()).saturating_sub(disk);
    seen.calls = stage.tools.take_calls();
    seen.dns_queries = stage.canaries.queries();
    collect(&mut session, &mut seen).await;
    if case.expected.oracle.contains_key("artifact_skipped_reported") {
        for (kind, name) in SPECIAL {
            let content = session.get_file(&format!("/workspace/{name}")).await;
            let told = content.map(|content| content.len()).map_err(|error| error.to_string());
            seen.fetched.push((kind, told));
        }
    }
    reusable(stage, &mut session, &mut seen).await?;
    drop(session);
    // The pool makes a worker for each that was used, so more than before are too many.
    seen.residual = measure::settle(processes, measure::descendants).await.saturating_sub(processes);
    (seen.records, seen.lines) = stage.records(&session_id);
    if stage.canaries.connections() > 0 {
        seen.faults.push("a canary's listener was reached".to_owned());
    }
    Ok(seen)
}

/// The declared secret of a case whose log must not hold it.
fn secret_of(case: &Case) -> Option<&'static str> {
    case.expected.oracle.contains_key("audit_excludes").then_some(crate::tools::SECRET)
}

/// A session under the terms of a case.
pub fn open(stage: &Stage, terms: &Terms) -> Result<Session, String> {
    let policy = terms.policy(stage.tier, &stage.data())?;
    let tools = stage.tools.registry(terms.tools.iter().map(String::as_str))?;
    stage.engine.session_with(policy).functions(tools).open().map_err(|error| format!("there is no session: {error}"))
}

/// Runs one snippet on the tier of the stage and on no other, and tells how long it took and when output came.
pub async fn run(
    stage: &Stage,
    session: &mut Session,
    source: Source,
) -> Result<(Outcome, Duration, Vec<Duration>), String> {
    let started = Instant::now();
    let mut events = Vec::new();
    let outcome = session.run_watched(source, |_| events.push(started.elapsed())).await;
    let outcome = outcome.map_err(|error| format!("there is no outcome: {error}"))?;
    ran_on(stage.tier, &outcome)?;
    Ok((outcome, started.elapsed(), events))
}

/// A run belongs to the tier that was asked for; only where nothing ran is none named.
pub fn ran_on(asked: TierName, outcome: &Outcome) -> Check {
    let ran = outcome.usage.wall_ms > 0.0 || outcome.value.is_some() || !outcome.stdout.is_empty();
    match outcome.tier {
        Some(tier) if tier == asked => Ok(()),
        Some(other) => Err(format!("it ran on the {other} tier, not on {asked}")),
        // A session that has ended answers so, and a program that can't be parsed.
        None if !ran => Ok(()),
        None => Err(format!("the outcome `{}` names no tier, not {asked}", outcome.status.as_str())),
    }
}

/// The first run of a case is let in, or refused before there is a tier: it can't have met a session's end.
pub fn was_let_in(asked: TierName, outcome: &Outcome) -> Check {
    let is_unparsed = outcome.exception.as_ref().is_some_and(|exception| exception.kind == "SyntaxError");
    match outcome.status {
        Status::Unsupported | Status::Denied => ran_on(asked, outcome),
        Status::Raised if is_unparsed => ran_on(asked, outcome),
        _ if outcome.tier == Some(asked) => Ok(()),
        status => Err(format!("the outcome `{}` is not of the {asked} tier: {:?}", status.as_str(), outcome.tier)),
    }
}

async fn upload(session: &mut Session, case: &Case, seen: &mut Seen) -> Result<(), String> {
    for file in case.list("files") {
        let text = |key: &str| file.get(key).and_then(Json::as_str);
        let name = text("name").unwrap_or_default();
        let content = match text("b64") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|error| format!("the case's file `{name}`: {error}"))?,
            None => text("text").unwrap_or_default().as_bytes().to_vec(),
        };
        let path = GuestPath::of_upload(name).map_err(|fault| fault.to_string())?;
        session.put_file(path.as_str(), content).await.map_err(|error| format!("upload of `{name}`: {error}"))?;
        seen.uploads.push(name.to_owned());
    }
    Ok(())
}

/// Fetches every file of the workspace, as a caller would.
async fn collect(session: &mut Session, seen: &mut Seen) {
    let mut folders = vec!["/workspace".to_owned()];
    while let Some(folder) = folders.pop() {
        // A session that has ended has no files; the verdict tells how it ended.
        let Ok(entries) = session.list_files(&folder).await else { return };
        for entry in entries {
            if entry.folder {
                folders.push(entry.path.as_str().to_owned());
            } else if let Ok(content) = session.get_file(entry.path.as_str()).await {
                seen.files.push((entry, content));
            }
        }
    }
}

/// The session goes on, or says that it has ended.
async fn reusable(stage: &Stage, session: &mut Session, seen: &mut Seen) -> Result<(), String> {
    let (outcome, ..) = run(stage, session, Source::new("1 + 1")).await?;
    let right = match outcome.status {
        Status::Completed => outcome.value == Some(Value::Int(2)),
        Status::Limited | Status::Killed | Status::Crashed | Status::Unsupported => true,
        Status::Raised | Status::Denied | Status::Cancelled => false,
    };
    if !right {
        let told = format!("{} {:?} {:?}", outcome.status.as_str(), outcome.value, outcome.exception);
        seen.faults.push(format!("the session is neither usable nor reported dead afterwards: {told}"));
    }
    Ok(())
}
