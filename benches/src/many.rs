//! Many sessions: a thousand of them, a hundred at once, and the end of a hundred that run.
//!
//! Answers to: `main`. Must not: count a session that gave another answer, or leave a process behind unseen.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::{FuturesUnordered, iter};
use ringfence::call::Engine as Interpreter;
use ringfence::{AuditTo, Engine, Policy, Status, Target, Value};
use tokio::runtime::Runtime;

use crate::contender::Fault;
use crate::left::{children, resident};
use crate::library::{engine, expect};
use crate::report::Row;

const SESSIONS: usize = 1_000;
const AT_ONCE: usize = 100;
const KILLS: usize = 5;

/// Both measurements, each for both interpreters.
pub fn measure(runtime: &Runtime, folder: &Path) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for interpreter in [Interpreter::Monty, Interpreter::Rustpython] {
        let name = interpreter.as_str();
        let many = engine(runtime, AuditTo::File(folder.join(format!("many-{name}.jsonl"))))?;
        let before = resident();
        let started = Instant::now();
        runtime.block_on(thousand(&many, interpreter))?;
        let note = format!("host memory {} -> {} KiB", before, resident());
        let name_of_row = format!("{name}: {SESSIONS} sessions, {AT_ONCE} at once");
        rows.push(Row::new(name_of_row, vec![started.elapsed()]).noted(note));
        let mut times = Vec::new();
        for _ in 0..KILLS {
            times.push(runtime.block_on(kill_all(&many, interpreter))?);
        }
        drop(many);
        let note = format!("{} processes left", children());
        rows.push(
            Row::new(format!("{name}: kill of {AT_ONCE} running sessions to the last outcome"), times).noted(note),
        );
    }
    Ok(rows)
}

async fn thousand(engine: &Engine, interpreter: Interpreter) -> Result<(), Fault> {
    let one = |number: usize| async move {
        let mut session = engine.session_with(Policy::closed()).engine(interpreter).open()?;
        let outcome = session.run(format!("sum(range({number}))")).await?;
        let number = i64::try_from(number).unwrap_or_default();
        expect(&outcome, &Value::Int(number * (number - 1) / 2))
    };
    let mut running = iter(1..=SESSIONS).map(one).buffer_unordered(AT_ONCE);
    while let Some(result) = running.next().await {
        result?;
    }
    Ok(())
}

/// From the kill to the last of the outcomes, every one of which must say `killed`.
async fn kill_all(engine: &Engine, interpreter: Interpreter) -> Result<Duration, Fault> {
    let mut sessions = Vec::new();
    for _ in 0..AT_ONCE {
        sessions.push(engine.session_with(Policy::closed()).engine(interpreter).open()?);
    }
    // Each has its cell, and runs when the kill comes.
    try_join_all(sessions.iter_mut().map(|session| session.run("1+1"))).await?;
    let mut runs: FuturesUnordered<_> = sessions
        .into_iter()
        .map(|mut session| tokio::spawn(async move { session.run("while True: pass").await }))
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let started = Instant::now();
    engine.kill(&Target::All, "the benchmark");
    while let Some(joined) = runs.next().await {
        let ended = joined.map_err(|error| Fault::Answer("kill".to_owned(), error.to_string()))??;
        if ended.status != Status::Killed {
            return Err(Fault::Answer("kill".to_owned(), format!("{:?}", ended.status)));
        }
    }
    Ok(started.elapsed())
}
