//! Calls made straight at the bridge, without a guest.
//!
//! Answers to: `kinds`. Must not: let a tool of the suite do the bridge's work: each refusal is read from the log.

use std::path::Path;
use std::sync::Arc;

use ringfence_audit::{Log, LogOptions, MemorySink, Record, Scope};
use ringfence_bridge::{Bridge, Holds, Host, Rates};
use ringfence_policy::Ask;
use ringfence_types::json::from_json;
use ringfence_types::{Call, CallId, SessionId, Tenant, Value};
use serde_json::Value as Json;

use crate::case::{Case, Object};
use crate::policy::Terms;
use crate::seen::Seen;
use crate::stage::Stage;

/// What the policy says of a path: normalised, below the workspace.
const PATHS: &str = "[functions.read_file.arguments.path]\nformat = \"path\"\nunder = [\"/workspace\"]\n";
/// What the policy says of a command: each allowed one with the grammar of its arguments.
const COMMANDS: &str = r#"[[functions.run_command.arguments.argv.anyOf]]
const = ["git", "status"]
[[functions.run_command.arguments.argv.anyOf]]
prefixItems = [{ const = "git" }, { const = "log" }]
items = { pattern = "^-(p|[0-9]+)$" }
minItems = 2
[[functions.run_command.arguments.argv.anyOf]]
prefixItems = [{ const = "ls" }]
items = { pattern = "^[^-]" }
minItems = 1
"#;

/// Every call of the case, each with its own verdict.
pub async fn play(stage: &Stage, case: &Case) -> Result<Seen, String> {
    set_up(stage, case)?;
    let denied = case.input.get("policy").and_then(|policy| policy.get("deny"));
    let denied = denied.map(crate::oracle::texts).unwrap_or_default();
    let mut terms = Terms::of(case);
    let tool = case.text("tool");
    match tool {
        "read_file" => terms.more = format!("[functions.read_file]\n{PATHS}"),
        "run_command" => terms.more = format!("[functions.run_command]\n{COMMANDS}"),
        "" => {}
        other => terms.tools.push(other.to_owned()),
    }
    let mut offered: Vec<&str> = terms.tools.iter().map(String::as_str).collect();
    offered.extend(denied.iter().map(String::as_str));
    offered.extend((!tool.is_empty() && !terms.tools.iter().any(|name| name == tool)).then_some(tool));
    let registry = stage.tools.registry(offered.iter().copied())?;
    let session = SessionId::from_random([7; 16]);
    let ask = Ask { tenant: Tenant::local(), session: session.clone(), functions: registry.specs() };
    let grant = terms.policy(stage.tier, &stage.data())?.decide(&ask).map_err(|denial| denial.to_string())?;
    let sink = MemorySink::new();
    let log = Log::open(Box::new(sink.clone()), LogOptions::default()).map_err(|error| error.to_string())?;
    let host = Host { log: Arc::new(log), rates: Rates::default(), holds: Holds::default() };
    let bridge = Bridge::new(grant, registry, host, None).map_err(|error| error.to_string())?;
    let scope = Scope::session(Tenant::local(), session);
    let mut seen = Seen::default();
    let (mut answered, mut refused) = (0, 0);
    for (at, step) in case.list("calls").iter().enumerate() {
        let call = call_of(at, step, tool)?;
        let name = call.function.clone();
        let (_, result) = bridge.call(&scope, call).await.map_err(|fault| fault.to_string())?;
        let got = judged(&sink, result.is_ok(), &name, &offered);
        match got {
            "ok" => answered += 1,
            "unrecorded" => {}
            _ => refused += 1,
        }
        let want = step.get("want").and_then(Json::as_str).unwrap_or_default();
        if !wanted(want, got) {
            let given = crate::oracle::cut(&step.to_string());
            seen.faults.push(format!("call {at} {given}: wants {want}, got {got} ({result:?})"));
        }
        if let Ok(Value::Str(text)) = &result
            && text.contains("CANARY-")
        {
            seen.faults.push(format!("call {at}: a canary came out"));
        }
    }
    (seen.lines, seen.calls) = (sink.text(), stage.tools.take_calls());
    seen.verdicts.push(verdict(answered, refused).to_owned());
    Ok(seen)
}

/// What the log says of all calls together.
fn verdict(answered: usize, refused: usize) -> &'static str {
    match (answered, refused) {
        (0, 0) => "nothing recorded",
        (_, 0) => "ok",
        _ => "deny",
    }
}

fn call_of(at: usize, step: &Json, tool: &str) -> Result<Call, String> {
    let args = step.get("args").and_then(Json::as_array).cloned().unwrap_or_default();
    let args = args.iter().map(|argument| from_json(argument, "args").map_err(|error| error.to_string()));
    let name = step.get("tool").and_then(Json::as_str).unwrap_or(tool);
    let args: Vec<Value> = args.collect::<Result<_, _>>()?;
    Ok(Call { id: CallId(at as u64), function: name.to_owned(), args, kwargs: Vec::new(), deferred: false })
}

/// What became of a call, by the last record of the log.
fn judged(sink: &MemorySink, ok: bool, name: &str, offered: &[&str]) -> &'static str {
    let text = sink.text();
    let last =
        text.lines().rev().find_map(|line| Record::parse(line.as_bytes()).filter(|r| r.event.starts_with("call_")));
    let Some(record) = last else { return "unrecorded" };
    let rule = record.detail.get("rule").and_then(Json::as_str).unwrap_or_default();
    match record.event.as_str() {
        "call_answered" if ok => "ok",
        "call_answered" => "deny",
        "call_denied" if rule.ends_with(".max_calls") => "limit:calls",
        "call_denied" if rule == "functions" && !offered.contains(&name) => "unknown-tool",
        "call_denied" => "deny",
        _ => "unrecorded",
    }
}

fn wanted(want: &str, got: &str) -> bool {
    let same = |word: &str| matches!((word, got), ("ok" | "allow" | "allow-literal", "ok")) || word == got;
    match want.split_once("-or-") {
        // `literal`, `normalise` and `allow` all mean that the call may go ahead with exactly what was given.
        Some((first, _)) => same(first) || got == "ok",
        None => same(want),
    }
}

/// The files of the case, below the host's side of `/workspace`.
fn set_up(stage: &Stage, case: &Case) -> Result<(), String> {
    let work = stage.work();
    std::fs::write(work.join("ok.txt"), "fine").map_err(|error| error.to_string())?;
    for step in case.list("setup").iter().filter_map(Json::as_object) {
        place(stage, &work, step).map_err(|error| format!("the case can't be set up at {step:?}: {error}"))?;
    }
    Ok(())
}

fn place(stage: &Stage, work: &Path, step: &Object) -> std::io::Result<()> {
    let text = |key: &str| step.get(key).and_then(Json::as_str).unwrap_or_default();
    let at = |key: &str| work.join(text(key).strip_prefix("/workspace/").unwrap_or_else(|| text(key)));
    if step.contains_key("mkdir") {
        std::fs::create_dir_all(at("mkdir"))
    } else if step.contains_key("write") {
        std::fs::write(at("write"), text("text"))
    } else if step.contains_key("symlink") {
        std::os::unix::fs::symlink(stage.canaries.placed(text("to")), at("symlink"))
    } else {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        Ok(rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, mode, 0)?)
    }
}
