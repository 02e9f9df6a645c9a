//! The machine checks of the use cases: one function a key, and a failure for a key that nobody knows.
//!
//! Answers to: `run`. Must not: pass a check for want of evidence.

use ringfence_types::{GuestException, Outcome, Status};
use serde_json::{Value as Json, json};

use crate::Check;
use crate::case::Case;
use crate::oracle::{at_most, cut, excludes, includes, is, number, stdout, texts, value};
use crate::plain::{plain, repr};
use crate::seen::Seen;

/// Every check of the case that did not hold.
pub fn faults(case: &Case, seen: &Seen) -> Vec<String> {
    let check = |(key, wanted): (&String, &Json)| match one(key, wanted, seen) {
        Ok(()) => None,
        Err(why) => Some(format!("{key}: {why}")),
    };
    case.expected.want.iter().filter_map(check).collect()
}

fn one(key: &str, wanted: &Json, seen: &Seen) -> Check {
    let outcome = seen.outcome().ok_or_else(|| "there is no outcome".to_owned())?;
    match key {
        // Steps judge these themselves.
        "cancel_latency_s_max" | "session_survives_or_reported_lost" | "unseeded_differ" => Ok(()),
        // There is always an outcome: it was asked for above. The sum of what was hashed is for readers.
        "any_outcome" | "stdout_sha256_of" => Ok(()),
        "value" | "value_plain" => is(&value(seen), wanted),
        "value_any_of" => value_any_of(outcome, wanted),
        "value_repr" => is(&json!(outcome.value.as_ref().map(repr)), wanted),
        "values" => is(&values(seen), wanted),
        "stdout" => is(&json!(stdout(seen)), wanted),
        "stdout_includes" => texts(wanted).iter().try_for_each(|part| includes(&stdout(seen), part)),
        "stdout_excludes" => excludes(&stdout(seen), wanted),
        "stdout_any_of" => any_of(&stdout(seen), wanted),
        "stdout_head_includes" => starts(&stdout(seen), wanted),
        "stdout_tail_includes" => ends(&stdout(seen), wanted),
        "stdout_sha256" => is(&json!(ringfence_audit::sha256_hex(stdout(seen).as_bytes())), wanted),
        "truncated" => is(&json!(outcome.dropped.stdout > 0), wanted),
        "total_bytes" => is(&json!(outcome.usage.output_bytes), wanted),
        "stderr" => is(&json!(outcome.stderr), wanted),
        "stderr_includes" => includes(&errors_shown(outcome), wanted.as_str().unwrap_or_default()),
        "error_type" => is(&json!(exception(outcome)?.kind), wanted),
        "error_message" => is(&json!(exception(outcome)?.message), wanted),
        "cause_type" => is(&json!(exception(outcome)?.cause.as_ref().map(|cause| cause.kind.as_str())), wanted),
        "frames" => is(&frames(exception(outcome)?), wanted),
        "errors" => errors(seen, wanted),
        "exit_code" => is(&json!(exit_code(outcome)), wanted),
        "exit_code_of_2" => is(&json!(seen.outcomes.get(1).map(exit_code)), wanted),
        "outcome" => is(&json!(outcome.status == Status::Completed), &json!(wanted == "ok")),
        "artifacts_count" => is(&json!(outcome.shown.len()), wanted),
        "artifact_sha256_matches" => artifact(seen, wanted),
        "download_names_equal_upload_names" => names(seen),
        "ends_within_s" => at_most(seen.wall.as_secs_f64(), number(wanted), "s"),
        "cpu_s_max" => at_most(outcome.usage.cpu_ms / 1e3, number(wanted), "s"),
        "wall_s_min" => at_most(number(wanted), outcome.usage.wall_ms / 1e3, "s"),
        "first_event_latency_s_max" => first_event(seen, number(wanted)),
        "event_gap_s_max" => gaps(seen, number(wanted)),
        "zombies_after_session" => at_most(seen.residual as f64, number(wanted), "processes"),
        unknown => Err(format!("the suite does not know the key `{unknown}`")),
    }
}

fn exception(outcome: &Outcome) -> Result<&GuestException, String> {
    outcome.exception.as_ref().ok_or_else(|| format!("it did not raise; it {}", outcome.status.as_str()))
}

fn value_any_of(outcome: &Outcome, wanted: &Json) -> Check {
    let seen = outcome.value.as_ref().map_or(Json::Null, plain);
    let opaque = outcome.value.is_none() && outcome.reason.is_some();
    let matches = |one: &Json| *one == seen || (opaque && one.is_string());
    let found = wanted.as_array().into_iter().flatten().any(matches);
    if found { Ok(()) } else { Err(format!("got {}", cut(&seen.to_string()))) }
}

fn values(seen: &Seen) -> Json {
    seen.outcomes.iter().map(|outcome| outcome.value.as_ref().map_or(Json::Null, plain)).collect()
}

fn any_of(out: &str, wanted: &Json) -> Check {
    if texts(wanted).iter().any(|text| text == out) { Ok(()) } else { Err(format!("got {:?}", cut(out))) }
}

fn starts(out: &str, wanted: &Json) -> Check {
    let head: String = out.chars().take(1000).collect();
    includes(&head, wanted.as_str().unwrap_or_default())
}

fn ends(out: &str, wanted: &Json) -> Check {
    let from = out.char_indices().rev().nth(999).map_or(0, |(at, _)| at);
    includes(out.get(from..).unwrap_or_default(), wanted.as_str().unwrap_or_default())
}

/// What a user reads beside the output: standard error, and the exception that ended the program.
fn errors_shown(outcome: &Outcome) -> String {
    let message = outcome.exception.as_ref().map(|exception| exception.message.as_str()).unwrap_or_default();
    format!("{}\n{message}", outcome.stderr)
}

fn frames(exception: &GuestException) -> Json {
    exception.frames.iter().map(|frame| json!([frame.function, frame.line])).collect()
}

fn errors(seen: &Seen, wanted: &Json) -> Check {
    for (at, want) in wanted.as_array().into_iter().flatten().enumerate() {
        let outcome = seen.outcomes.get(at).ok_or_else(|| format!("snippet {at} has no outcome"))?;
        let line = |exception: &GuestException| {
            exception.frames.iter().find(|frame| frame.function == "<module>").map(|frame| frame.line)
        };
        let seen = outcome.exception.as_ref().map(|e| json!({"type": e.kind, "module_line": line(e)}));
        is(&json!(seen), want)?;
    }
    Ok(())
}

/// The exit code that the program asked for.
fn exit_code(outcome: &Outcome) -> i32 {
    match &outcome.exception {
        Some(exception) => exception.exit_code.unwrap_or(1),
        None => i32::from(outcome.status != Status::Completed),
    }
}

fn artifact(seen: &Seen, wanted: &Json) -> Check {
    let name = wanted.as_str().unwrap_or_default();
    let file = seen.files.iter().find(|(entry, _)| entry.path.as_str() == format!("/workspace/{name}"));
    let (_, content) = file.ok_or_else(|| format!("there is no `{name}`"))?;
    is(&json!(ringfence_audit::sha256_hex(content)), &value(seen))
}

fn names(seen: &Seen) -> Check {
    let under = |path: &str| path.strip_prefix("/workspace/").map(str::to_owned);
    let mut down: Vec<String> = seen.files.iter().filter_map(|(entry, _)| under(entry.path.as_str())).collect();
    let mut up = seen.uploads.clone();
    down.sort();
    up.sort();
    is(&json!(down), &json!(up))
}

fn first_event(seen: &Seen, most: f64) -> Check {
    let first = seen.events.first().ok_or_else(|| "no output came while the program ran".to_owned())?;
    at_most(first.as_secs_f64(), most, "s")
}

fn gaps(seen: &Seen, most: f64) -> Check {
    let pairs = seen.events.iter().zip(seen.events.iter().skip(1));
    pairs.map(|(one, next)| next.saturating_sub(*one).as_secs_f64()).try_for_each(|gap| at_most(gap, most, "s"))
}
