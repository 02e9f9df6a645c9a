//! The machine checks of the attack cases: one function a key, and a failure for a key that nobody knows.
//!
//! Answers to: `run`. Must not: pass a check for want of evidence.

use ringfence_audit::{Against, Record, render, verify_against};
use ringfence_types::{Outcome, Status, TierName};
use serde_json::Value as Json;

use crate::Check;
use crate::case::Case;
use crate::plain::{plain, same};
use crate::seen::Seen;

const MIB: u64 = 1 << 20;
/// The cases' `output_limit`: what [`crate::policy::Terms`] sets.
const OUTPUT_LIMIT: u64 = MIB;
/// Variables that a guest may see.
const ENVIRONMENT: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "MPLCONFIGDIR",
    "PYTHONHASHSEED",
    "PYTHONUTF8",
    "PYTHONPATH",
    "USER",
];

/// Every check of the case that did not hold.
pub fn faults(case: &Case, seen: &Seen) -> Vec<String> {
    let check = |(key, wanted): (&String, &Json)| match one(key, wanted, case, seen) {
        Ok(()) => None,
        Err(why) => Some(format!("{key}: {why}")),
    };
    case.expected.oracle.iter().filter_map(check).collect()
}

fn one(key: &str, wanted: &Json, case: &Case, seen: &Seen) -> Check {
    match key {
        // What the harness checks of every case, whatever the case says.
        "host_survives" | "session_reusable_or_reported_dead" => Ok(()),
        // Notes for readers, and keys of steps that judge themselves.
        "note" | "microvm_may_open" | "never_runs_unsandboxed" | "verify_original" | "verify_mutations" => Ok(()),
        "counters_return_to_baseline" | "report_value" => Ok(()),
        // Widens `stdout_any_of`, and with it the verdict.
        "or_syntax_error" => Ok(()),
        "stdout_excludes" => excludes(&printed(seen), wanted),
        "stdout_includes" => texts(wanted).iter().try_for_each(|part| includes(&stdout(seen), part)),
        "stdout_excludes_on" => excludes(&printed(seen), of_interpreter(seen, wanted)),
        "stdout_any_of" => any_of(case, seen, wanted),
        "max_wall_s" => at_most(seen.wall.as_secs_f64(), seconds(case, wanted), "s"),
        "host_rss_growth_mb_max" => at_most(seen.host_growth as f64 / MIB as f64, number(wanted), "MiB"),
        "host_disk_growth_mb_max" => at_most(seen.disk_growth as f64 / MIB as f64, number(wanted), "MiB"),
        "captured_bytes_max" => at_most(captured(seen) as f64, (OUTPUT_LIMIT + (64 << 10)) as f64, "bytes"),
        "residual_processes" => at_most(seen.residual as f64, number(wanted), "processes"),
        "error_type" => error_type(seen, wanted),
        "value" => is(&value(seen), wanted),
        "value_if_any" => {
            if value(seen).is_null() {
                Ok(())
            } else {
                is(&value(seen), wanted)
            }
        }
        "value_not" => is_not(&value(seen), wanted),
        "value_equals_42_on_host" => is_not(&value(seen), &Json::from(42)),
        "leaks_allowed" => no_leaks(&stdout(seen)),
        "env_allow_list_only" => environment(&stdout(seen)),
        "dns_sink_queries" => is(&Json::from(seen.dns_queries), wanted),
        "table_must_refuse" => refused_table(&stdout(seen), wanted),
        "artifacts_exclude" => artifacts(seen, wanted),
        "artifact_skipped_reported" => only_regular_files(seen),
        "tool_calls_with_invalid_args" => is(&Json::from(invalid_searches(seen)), wanted),
        "tool_calls_reaching_host" => is(&Json::from(seen.calls.len()), wanted),
        "audit_tool_calls" => is(&Json::from(records_of(seen, &["call_permitted"])), wanted),
        "audit_records_for_call" => is(&Json::from(records_of(seen, &["call_permitted", "call_denied"])), wanted),
        "audit_chain_valid" => chain(seen),
        "audit_valid_utf8_json" => lines_are_records(&seen.lines, seen.records.len()),
        "audit_excludes" => excludes(&seen.lines, wanted),
        "operator_view_excludes" => excludes(&view(seen), wanted),
        "human_view_control_bytes" => is(&Json::from(controls(&view(seen))), wanted),
        "emoji_roundtrip" => includes(&stdout(seen), "0x1f469 0x200d 0x1f4bb str True"),
        unknown => Err(format!("the suite does not know the oracle `{unknown}`")),
    }
}

fn last(seen: &Seen) -> Option<&Outcome> {
    seen.outcome()
}

/// Standard output of the case's own snippets.
pub fn stdout(seen: &Seen) -> String {
    seen.outcomes.iter().map(|outcome| outcome.stdout.as_str()).collect()
}

/// Everything that came out of the guest: both streams, values and exceptions.
pub fn printed(seen: &Seen) -> String {
    let one = |outcome: &Outcome| {
        let value = outcome.value.as_ref().map(|value| plain(value).to_string()).unwrap_or_default();
        let exception = outcome.exception.as_ref().map(|exception| format!("{exception:?}")).unwrap_or_default();
        format!("{}\n{}\n{value}\n{exception}\n", outcome.stdout, outcome.stderr)
    };
    seen.outcomes.iter().map(one).collect()
}

/// The value of the case's snippet.
pub fn value(seen: &Seen) -> Json {
    last(seen).and_then(|outcome| outcome.value.as_ref()).map_or(Json::Null, plain)
}

fn captured(seen: &Seen) -> usize {
    last(seen).map_or(0, |outcome| {
        let exception = outcome.exception.as_ref().map_or(0, |exception| exception.message.len());
        outcome.stdout.len() + outcome.stderr.len() + exception
    })
}

/// Fails where `text` holds one of the texts of the list.
pub fn excludes(text: &str, list: &Json) -> Check {
    let found = texts(list).into_iter().find(|hidden| text.contains(hidden.as_str()));
    found.map_or(Ok(()), |found| Err(format!("`{found}` came out")))
}

/// Fails where `text` does not hold `part`.
pub fn includes(text: &str, part: &str) -> Check {
    if text.contains(part) { Ok(()) } else { Err(format!("wants {part:?}, got {:?}", cut(text))) }
}

fn any_of(case: &Case, seen: &Seen, wanted: &Json) -> Check {
    let out = stdout(seen);
    let refused = case.expected.oracle.contains_key("or_syntax_error")
        && (seen.is("unsupported", &case.expected.evidence)
            || last(seen).and_then(|outcome| outcome.exception.as_ref()).is_some_and(|e| e.kind == "SyntaxError"));
    if refused || texts(wanted).iter().any(|text| text.trim() == out.trim()) {
        return Ok(());
    }
    Err(format!("got {:?}", cut(&out)))
}

/// Fails where the number is over the bound.
pub fn at_most(seen: f64, most: f64, unit: &str) -> Check {
    if seen <= most { Ok(()) } else { Err(format!("at most {most:.1} {unit}, got {seen:.1}")) }
}

/// Fails where it is something else.
pub fn is(seen: &Json, wanted: &Json) -> Check {
    if same(seen, wanted) {
        Ok(())
    } else {
        Err(format!("wants {}, got {}", cut(&wanted.to_string()), cut(&seen.to_string())))
    }
}

fn is_not(seen: &Json, unwanted: &Json) -> Check {
    if same(seen, unwanted) { Err(format!("got {unwanted}")) } else { Ok(()) }
}

/// A number of a case.
pub fn number(wanted: &Json) -> f64 {
    wanted.as_f64().unwrap_or_default()
}

/// The texts of a list.
pub fn texts(list: &Json) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
}

/// The beginning of a text, for messages.
pub fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Seconds, or `limit+N`: the limit of the case and so many more.
fn seconds(case: &Case, wanted: &Json) -> f64 {
    let limit = case.input.get("limits").and_then(|limits| limits.get("wall_s")).and_then(Json::as_f64);
    match wanted.as_str().and_then(|text| text.strip_prefix("limit+")) {
        Some(more) => limit.unwrap_or(10.0) + more.parse::<f64>().unwrap_or_default(),
        None => number(wanted),
    }
}

fn error_type(seen: &Seen, wanted: &Json) -> Check {
    let Some(outcome) = last(seen) else { return Err("no outcome".to_owned()) };
    if outcome.status == Status::Limited {
        // The verdict says whether a limit was right; then there is no exception to name.
        return Ok(());
    }
    let kind = outcome.exception.as_ref().map(|exception| exception.kind.clone());
    is(&Json::from(kind), wanted)
}

/// What holds for an interpreter written anew alone: a CPython has all its modules.
fn of_interpreter<'w>(seen: &Seen, wanted: &'w Json) -> &'w Json {
    let is_one = last(seen).and_then(|outcome| outcome.tier).is_none_or(|tier| tier == TierName::Embedded);
    wanted.get("interp").filter(|_| is_one).unwrap_or(&Json::Null)
}

/// A native driver speaks to the host by one socket, which its program can see: nothing that is said there is believed
/// of more than the session itself. It is the only one.
fn no_leaks(stdout: &str) -> Check {
    let Some(line) = stdout.lines().find_map(|line| line.strip_prefix("leaks ")) else { return Ok(()) };
    let inode = line.strip_prefix("[(3, 'socket:[").and_then(|rest| rest.strip_suffix("]')]"));
    let is_control = inode.is_some_and(|inode| inode.chars().all(|c| c.is_ascii_digit()));
    if line == "[]" || is_control { Ok(()) } else { Err(format!("the guest has leaks {line}")) }
}

/// No variable of this process that is not on the list is named.
fn environment(stdout: &str) -> Check {
    let named = |name: &String| stdout.contains(&format!("'{name}'")) && !ENVIRONMENT.contains(&name.as_str());
    match std::env::vars().map(|(name, _)| name).find(named) {
        Some(name) => Err(format!("the guest sees the variable {name} of the host")),
        None => Ok(()),
    }
}

fn refused_table(stdout: &str, wanted: &Json) -> Check {
    let open =
        |name: &String| ["CREATED", "FD", "OK"].iter().any(|word| stdout.contains(&format!("'{name}': '{word}'")));
    match texts(wanted).into_iter().find(open) {
        Some(name) => Err(format!("`{name}` is not refused")),
        None => Ok(()),
    }
}

fn artifacts(seen: &Seen, wanted: &Json) -> Check {
    seen.files.iter().try_for_each(|(_, content)| excludes(&String::from_utf8_lossy(content), wanted))
}

/// Whatever the program made beside regular files is refused by name when it is fetched.
fn only_regular_files(seen: &Seen) -> Check {
    let out = stdout(seen);
    let made = out.lines().find(|line| line.starts_with("made ")).unwrap_or_default();
    for (kind, fetched) in &seen.fetched {
        if made.contains(&format!("'{kind}'")) && fetched.as_ref().map_or_else(String::is_empty, |_| true) {
            return Err(format!("the guest made `{kind}`, and to fetch it gives {fetched:?}"));
        }
    }
    Ok(())
}

/// Searches that reached the tool with arguments outside its declaration.
fn invalid_searches(seen: &Seen) -> usize {
    use ringfence_types::Value;
    let right = |call: &&crate::tools::Called| {
        let query = matches!(call.get("q"), Some(Value::Str(q)) if (1..=1000).contains(&q.chars().count()));
        let limit = matches!(call.get("limit"), None | Some(Value::Int(1..=50)));
        query && limit
    };
    seen.calls.iter().filter(|call| !right(call)).count()
}

fn records_of(seen: &Seen, events: &[&str]) -> usize {
    seen.records.iter().filter(|record| events.contains(&record.event.as_str())).count()
}

fn chain(seen: &Seen) -> Check {
    let log = std::fs::read(&seen.log).map_err(|error| error.to_string())?;
    let report = verify_against(log.as_slice(), Against::default()).map_err(|error| error.to_string())?;
    match report.findings.iter().find(|finding| finding.kind.is_fault()) {
        Some(finding) => Err(format!("the log does not verify: {}", finding.message)),
        None => lines_are_records(&seen.lines, seen.records.len()),
    }
}

/// Whatever a reader takes for the end of a line, there are as many lines as records.
fn lines_are_records(lines: &str, records: usize) -> Check {
    const ENDS: [char; 8] = ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{85}', '\u{2028}', '\u{2029}'];
    let split: Vec<&str> = lines.split(ENDS).filter(|line| !line.is_empty()).collect();
    if split.len() != records || records == 0 {
        return Err(format!("{records} records, {} lines", split.len()));
    }
    let bad = split.into_iter().find(|line| serde_json::from_str::<Json>(line).is_err());
    bad.map_or(Ok(()), |line| Err(format!("not JSON: {}", cut(line))))
}

/// What an operator sees of the session's records.
fn view(seen: &Seen) -> String {
    seen.records.iter().map(|record: &Record| render(record) + "\n").collect()
}

fn controls(text: &str) -> usize {
    text.chars().filter(|c| c.is_control() && *c != '\n' && *c != '\t').count()
}
