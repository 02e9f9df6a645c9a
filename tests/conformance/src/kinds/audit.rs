//! A log of real runs, changed in every way the case names.
//!
//! Answers to: `kinds`. Must not: check with anything but the product's own verifier.

use std::path::Path;

use ringfence::{AuditTo, Engine};
use ringfence_audit::{Beside, Keypair, Log, LogOptions, PublicKey, Report, Verdict, sha256_hex, verify_file};
use ringfence_types::{Source, Status};
use serde_json::Value as Json;

use super::python::run;
use crate::case::Case;
use crate::policy::Terms;
use crate::seen::Seen;
use crate::stage::Stage;

type Lines = Vec<Vec<u8>>;

/// The log of the case's runs, and each of its mutations.
pub async fn play(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let folder = tempfile::tempdir_in(stage.folder()).map_err(|error| error.to_string())?;
    let path = folder.path().join("audit.jsonl");
    let key = written(stage, case, &path).await?;
    let mut seen = Seen::default();
    let report = verify_file(&path, Some(key.public())).map_err(|error| error.to_string())?;
    let is_intact = report.verdict() == Verdict::Intact;
    if !is_intact {
        seen.faults.push(format!("the original does not verify: {:?}", report.findings));
    }
    let text = std::fs::read(&path).map_err(|error| error.to_string())?;
    let lines: Lines = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let (mut changes, mut found) = (0, 0);
    for mutation in case.names("mutations") {
        changes += 1;
        let changed = changed(&mutation, lines.clone(), &key, folder.path())?;
        let report = verified(&path, &changed, key.public())?;
        let named = report.findings.iter().any(|finding| finding.kind.is_fault() && !finding.message.is_empty());
        if report.verdict() == Verdict::Intact || !named {
            seen.faults.push(format!("`{mutation}` is not found: {:?} {:?}", report.verdict(), report.findings));
        } else {
            found += 1;
        }
    }
    let verdict = match is_intact {
        false => "a true log is refused".to_owned(),
        true if changes > 0 && found == changes => "ok".to_owned(),
        true => format!("found {found} of {changes}"),
    };
    seen.verdicts.push(verdict);
    Ok(seen)
}

/// Runs what the case says with a log at `path`, and closes it.
async fn written(stage: &Stage, case: &Case, path: &Path) -> Result<Keypair, String> {
    let builder = Engine::builder().worker(&stage.worker).audit(AuditTo::File(path.to_owned()));
    let engine = builder.build().map_err(|error| error.to_string())?;
    for at in 0..case.input.get("runs").and_then(Json::as_u64).unwrap_or(1) {
        let mut session =
            engine.session(Terms::of(case).policy(stage.tier, &stage.data())?).map_err(|error| error.to_string())?;
        let (outcome, ..) = run(stage, &mut session, Source::new(format!("{at}"))).await?;
        if outcome.status != Status::Completed {
            return Err(format!("run {at} did not complete: {} {:?}", outcome.status.as_str(), outcome.reason));
        }
    }
    engine.inner().log().close().map_err(|error| error.to_string())?;
    Keypair::load_or_create(&path.with_extension("key")).map_err(|error| error.to_string())
}

/// Verifies these lines in the place of the log, with the head and key that stand beside it.
fn verified(path: &Path, lines: &[u8], key: PublicKey) -> Result<Report, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let copy = folder.path().join("audit.jsonl");
    let (from, to) = (Beside::of(path), Beside::of(&copy));
    let copied = std::fs::write(&copy, lines)
        .and_then(|()| std::fs::copy(&from.public_key, &to.public_key))
        .and_then(|_| std::fs::copy(&from.head, &to.head));
    copied.map_err(|error| error.to_string())?;
    verify_file(&copy, Some(key)).map_err(|error| error.to_string())
}

fn changed(mutation: &str, mut lines: Lines, key: &Keypair, folder: &Path) -> Result<Vec<u8>, String> {
    if lines.len() < 6 {
        return Err(format!("the log has {} records, too few for the case", lines.len()));
    }
    match mutation {
        "flip one byte in record 3" => {
            let byte = lines.get_mut(2).and_then(|line| line.get_mut(60)).ok_or("a short record")?;
            *byte ^= 1;
        }
        "delete record 2" => drop(lines.remove(1)),
        "swap records 2 and 3" => lines.swap(1, 2),
        "duplicate record 4" => {
            let again = lines.get(3).cloned().ok_or("a short log")?;
            lines.insert(4, again);
        }
        "truncate mid-record" => {
            let last = lines.last_mut().ok_or("an empty log")?;
            last.truncate(last.len() / 2);
        }
        "drop last record" => drop(lines.pop()),
        "replace whole file by a shorter valid chain" => return shorter(key, &folder.join("shorter.jsonl")),
        "append a record with recomputed plain hashes but no key" => {
            let forged = forged(&lines)?;
            lines.push(forged);
        }
        "change only whitespace/key order in a record" => {
            let line = lines.get_mut(2).ok_or("a short log")?;
            *line = String::from_utf8_lossy(line).replacen("\":", "\": ", 1).into_bytes();
        }
        unknown => return Err(format!("the suite does not know the mutation `{unknown}`")),
    }
    Ok(lines.concat())
}

/// Another log under the same key, closed at once.
fn shorter(key: &Keypair, path: &Path) -> Result<Vec<u8>, String> {
    let options = LogOptions { key: Some(key.clone()), ..LogOptions::default() };
    let log = Log::open_file(path, options).map_err(|error| error.to_string())?;
    log.close().map_err(|error| error.to_string())?;
    std::fs::read(path).map_err(|error| error.to_string())
}

/// A record behind the last, chained as one without the key would.
fn forged(lines: &Lines) -> Result<Vec<u8>, String> {
    let text =
        |line: Option<&Vec<u8>>| line.map(|line| String::from_utf8_lossy(line).into_owned()).ok_or("a short log");
    let field = |line: &str, name: &str| {
        let parsed: Json = serde_json::from_str(line).map_err(|error| error.to_string())?;
        parsed.get(name).cloned().ok_or_else(|| format!("a record has no `{name}`"))
    };
    let (model, last) = (text(lines.get(1))?, text(lines.last())?);
    let quoted = |value: Json| value.to_string();
    let model_seq = format!("\"seq\":{},", field(&model, "seq")?);
    let next = field(&last, "seq")?.as_u64().unwrap_or_default() + 1;
    let model = model.replacen(&model_seq, &format!("\"seq\":{next},"), 1);
    let model = model.replacen(&quoted(field(&model, "prev")?), &quoted(field(&last, "hash")?), 1);
    let (body, _) = model.split_once(",\"hash\":\"").ok_or("a record has no hash")?;
    let hash = sha256_hex(format!("{body}}}").as_bytes());
    Ok(format!("{body},\"hash\":\"{hash}\"}}\n").into_bytes())
}
