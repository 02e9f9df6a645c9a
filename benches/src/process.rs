//! The process tier by the Rust library: a session that was ready, a fresh one each time, and how many in a second.
//!
//! Answers to: `main`. Must not: import in a sample what the policy lets the zygote import.

use std::path::Path;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::iter;
use ringfence::{AuditTo, Engine, Policy, Value};
use tokio::runtime::Runtime;

use crate::contender::{Contender, Fault};
use crate::library::{BUSY, Fresh, QUIET, expect};
use crate::report::Row;

/// Sessions in the measurement of throughput.
const SESSIONS: usize = 300;
/// How many of them are open at once.
const AT_ONCE: usize = 4;

/// What is imported ahead, and the environment that has it.
fn settings(venv: Option<&Path>) -> Vec<(&'static str, String)> {
    let python = |venv: &Path| format!("[python]\nvenv = \"{}\"\npackages = [\"numpy\", \"pandas\"]\n", venv.display());
    let mut all = vec![("standard library", String::new())];
    all.extend(venv.map(|venv| ("numpy and pandas", python(venv))));
    all
}

fn policy(python: &str) -> Result<Policy, Fault> {
    let text = format!("version = 1\n[isolation]\ntiers = [\"process\"]\n[limits]\nmemory = \"256MiB\"\n{python}");
    Ok(Policy::parse(&text, "bench")?)
}

/// A session that was forked ahead: its first code to the result.
pub fn contenders<'r>(runtime: &'r Runtime, venv: Option<&Path>) -> Result<Vec<Box<dyn Contender + 'r>>, Fault> {
    let mut found: Vec<Box<dyn Contender + 'r>> = Vec::new();
    for (name, python) in settings(venv) {
        let engine = engine(runtime)?;
        for pause in [BUSY, QUIET] {
            let name = format!("process, {name} imported: fresh session to result of 1+1, every {pause:?}");
            let (engine, policy) = (engine.clone(), policy(&python)?);
            found.push(Box::new(Fresh { runtime, engine, policy, interpreter: None, name, pause }));
        }
    }
    Ok(found)
}

fn engine(runtime: &Runtime) -> Result<Engine, Fault> {
    let _inside = runtime.enter();
    Ok(Engine::builder().audit(AuditTo::Memory).build()?)
}

/// Sessions in a second, a fresh one for each run: the time of one run is given, and the number in the note.
pub fn throughput(runtime: &Runtime, venv: Option<&Path>) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for (name, python) in settings(venv) {
        let (engine, policy) = (engine(runtime)?, policy(&python)?);
        let one = |_| async {
            let mut session = engine.session_with(policy.clone()).open()?;
            let outcome = session.run("import json\njson.loads('2')").await?;
            expect(&outcome, &Value::Int(2))
        };
        runtime.block_on(one(0))?;
        let started = Instant::now();
        runtime.block_on(async {
            let mut running = iter(0..SESSIONS).map(one).buffer_unordered(AT_ONCE);
            while let Some(result) = running.next().await {
                result?;
            }
            Ok::<_, Fault>(())
        })?;
        let time = started.elapsed();
        #[expect(clippy::cast_precision_loss, reason = "a few hundred sessions")]
        let rate = SESSIONS as f64 / time.as_secs_f64();
        let each = time / u32::try_from(SESSIONS).unwrap_or(1);
        let row =
            Row::new(format!("process, {name} imported: one of {SESSIONS} sessions, {AT_ONCE} at once"), vec![each]);
        rows.push(row.noted(format!("{rate:.0} sessions a second")));
    }
    Ok(rows)
}
