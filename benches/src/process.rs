//! The process tier by the Rust library and by the Python package: a session that was ready, one that is forked when it is
//! asked for, how many in a second, what a waiting one holds, and what ten thousand leave behind.
//!
//! Answers to: `main`. Must not: import in a sample what the policy lets the zygote import.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::iter;
use ringfence::{AuditTo, Engine, Policy, Value};
use tokio::runtime::Runtime;

use crate::contender::{Contender, Fault};
use crate::left;
use crate::library::{BUSY, Fresh, QUIET, expect};
use crate::options::Options;
use crate::peers::Answering;
use crate::report::Row;

/// Sessions in the measurement of throughput, and how many of them are open at once.
const SESSIONS: usize = 300;
/// See [`SESSIONS`].
const AT_ONCE: usize = 4;

/// The same for the measurement of what is left.
const MANY: usize = 10_000;
/// See [`MANY`].
const MANY_AT_ONCE: usize = 50;

/// Sessions that wait at once while their memory is read.
const WAITING: usize = 16;

/// How long sessions wait before their memory is read.
const IDLE: Duration = Duration::from_secs(1);

/// What is imported ahead, in the environment that has it: the machine's own interpreter may import at its start what
/// somebody has put there.
fn settings(venv: Option<&Path>) -> Vec<(&'static str, String)> {
    let Some(venv) = venv else { return vec![("standard library", String::new())] };
    let python = |packages: &str| format!("[python]\nvenv = \"{}\"\npackages = [{packages}]\n", venv.display());
    vec![("standard library", python("")), ("numpy and pandas", python("\"numpy\", \"pandas\""))]
}

fn policy(python: &str) -> Result<Policy, Fault> {
    let text = format!("version = 1\n[isolation]\ntiers = [\"process\"]\n[limits]\nmemory = \"256MiB\"\n{python}");
    Ok(Policy::parse(&text, "bench")?)
}

/// From the request for a session to its result.
pub fn contenders<'r>(runtime: &'r Runtime, options: &Options) -> Result<Vec<Box<dyn Contender + 'r>>, Fault> {
    let mut found: Vec<Box<dyn Contender + 'r>> = Vec::new();
    for (name, python) in settings(options.venv.as_deref()) {
        let (ready, none) = (engine(runtime, None)?, engine(runtime, Some(0))?);
        let cases = [(&ready, "a session that was ready", BUSY), (&ready, "a session that was ready", QUIET)];
        for (engine, what, pause) in cases.into_iter().chain([(&none, "a session forked when asked for", QUIET)]) {
            let name = format!("process, {name} imported: {what}, to result of 1+1, every {pause:?}");
            let (engine, policy) = (engine.clone(), policy(&python)?);
            found.push(Box::new(Fresh { runtime, engine, policy, interpreter: None, name, pause }));
        }
    }
    for pause in [BUSY, QUIET] {
        found.extend(through_package(options, pause)?);
    }
    Ok(found)
}

/// A new session to its first result, through the Python package.
fn through_package(options: &Options, pause: Duration) -> Result<Option<Box<dyn Contender>>, Fault> {
    let (Some(python), Some(package), Some(program)) = (&options.python, &options.package, &options.program) else {
        return Ok(None);
    };
    let mut command = Command::new(python);
    let mut policy = serde_json::json!({"version": 1, "limits": {"memory": "256MiB"}});
    if let (Some(venv), Some(policy)) = (&options.venv, policy.as_object_mut()) {
        policy.insert("python".to_owned(), serde_json::json!({"venv": venv}));
    }
    command.arg("benches/python_package.py").arg(policy.to_string());
    command.env("PYTHONPATH", package).env("RINGFENCE_BIN", program);
    let name = "process, standard library imported: a session that was ready, through the Python package";
    Ok(Some(Box::new(Answering::start(name, command, pause)?)))
}

fn engine(runtime: &Runtime, warm: Option<usize>) -> Result<Engine, Fault> {
    let _inside = runtime.enter();
    let builder = Engine::builder().audit(AuditTo::Memory);
    Ok(match warm {
        Some(warm) => builder.warm(warm),
        None => builder,
    }
    .build()?)
}

/// What is not a time of one session.
pub fn measure(runtime: &Runtime, venv: Option<&Path>) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for (name, python) in settings(venv) {
        let (held_by, policy) = (engine(runtime, Some(WAITING))?, policy(&python)?);
        runtime.block_on(one(&held_by, &policy))?;
        std::thread::sleep(IDLE);
        let held = left::waiting_sessions();
        let note =
            format!("{} KiB of memory each, as its share (PSS)", held.iter().sum::<u64>() / held.len().max(1) as u64);
        rows.push(
            Row::new(format!("process, {name} imported: {} waiting sessions", held.len()), Vec::new()).noted(note),
        );
        drop(held_by);
        let engine = engine(runtime, None)?;
        runtime.block_on(one(&engine, &policy))?;
        let (each, rate) = runtime.block_on(many(&engine, &policy, SESSIONS, AT_ONCE))?;
        let what = format!("process, {name} imported: one of {SESSIONS} sessions, {AT_ONCE} at once");
        rows.push(Row::new(what, vec![each]).noted(format!("{rate:.0} sessions a second")));
    }
    rows.push(soak(runtime)?);
    Ok(rows)
}

async fn one(engine: &Engine, policy: &Policy) -> Result<(), Fault> {
    let mut session = engine.session_with(policy.clone()).open()?;
    let outcome = session.run("import json\njson.loads('2')").await?;
    expect(&outcome, &Value::Int(2))
}

/// The time of each of so many sessions, and how many there are in a second.
async fn many(engine: &Engine, policy: &Policy, count: usize, at_once: usize) -> Result<(Duration, f64), Fault> {
    let started = Instant::now();
    let mut running = iter(0..count).map(|_| one(engine, policy)).buffer_unordered(at_once);
    while let Some(result) = running.next().await {
        result?;
    }
    let time = started.elapsed();
    #[expect(clippy::cast_precision_loss, reason = "a few thousand sessions")]
    let rate = count as f64 / time.as_secs_f64();
    Ok((time / u32::try_from(count).unwrap_or(u32::MAX), rate))
}

/// Many sessions, and what is left of them: while the engine lives, and when it is gone.
fn soak(runtime: &Runtime) -> Result<Row, Fault> {
    let (engine, policy) = (engine(runtime, None)?, policy("")?);
    runtime.block_on(many(&engine, &policy, SESSIONS, MANY_AT_ONCE))?;
    let before = (left::resident(), left::descriptors());
    let (each, rate) = runtime.block_on(many(&engine, &policy, MANY, MANY_AT_ONCE))?;
    std::thread::sleep(IDLE);
    let after = (left::resident(), left::descriptors());
    drop(engine);
    std::thread::sleep(IDLE);
    let note = format!(
        "{rate:.0} a second; host memory {} -> {} KiB, descriptors {} -> {}; left: {} processes, {} control groups",
        before.0,
        after.0,
        before.1,
        after.1,
        left::children(),
        left::groups(),
    );
    Ok(Row::new(format!("process: one of {MANY} sessions, {MANY_AT_ONCE} at once"), vec![each]).noted(note))
}
