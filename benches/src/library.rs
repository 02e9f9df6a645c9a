//! Ringfence by its Rust library: a fresh session to its result, and the way of a host call.
//!
//! Answers to: `main`. Must not: turn a check off that a user would have on.

use std::path::Path;
use std::time::{Duration, Instant};

use ringfence::call::Engine as Interpreter;
use ringfence::{AuditTo, Engine, LimitOverrides, Outcome, Policy, Session, Value};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::runtime::Runtime;

use crate::contender::{Contender, Fault};

/// Calls in one sample of a round trip.
const CALLS: u32 = 500;

/// Fresh sessions of one pool in a row.
pub const IN_A_ROW: usize = 20;

/// Before each fresh session its process sleeps, so that all wake up alike. In a busy service a session follows the
/// last within a moment; in a quiet one the processors have gone to sleep and their caches belong to others.
pub const BUSY: Duration = Duration::from_millis(1);
/// See [`BUSY`].
pub const QUIET: Duration = Duration::from_millis(10);

/// Every measurement of the library.
pub fn contenders<'r>(runtime: &'r Runtime, folder: &Path) -> Result<Vec<Box<dyn Contender + 'r>>, Fault> {
    let in_memory = engine(runtime, AuditTo::Memory)?;
    let in_file = engine(runtime, AuditTo::File(folder.join("audit.jsonl")))?;
    let mut found: Vec<Box<dyn Contender + 'r>> = Vec::new();
    for (interpreter, pauses) in [(Interpreter::Monty, &[BUSY, QUIET][..]), (Interpreter::Rustpython, &[QUIET])] {
        for (engine, audit) in [(&in_memory, "memory"), (&in_file, "file")] {
            for pause in pauses {
                let name = interpreter.as_str();
                let name = format!("{name}: fresh session to result of 1+1, audit in {audit}, every {pause:?}");
                let (engine, policy, interpreter) = (engine.clone(), Policy::closed(), Some(interpreter));
                found.push(Box::new(Fresh { runtime, engine, policy, interpreter, name, pause: *pause }));
            }
        }
    }
    for interpreter in [Interpreter::Monty, Interpreter::Rustpython] {
        found.push(Box::new(RoundTrip { runtime, engine: in_file.clone(), interpreter }));
    }
    Ok(found)
}

/// An engine with both kinds of worker ready.
pub fn engine(runtime: &Runtime, audit: AuditTo) -> Result<Engine, Fault> {
    let _inside = runtime.enter();
    let builder = Engine::builder().audit(audit).warm_up(Interpreter::Monty).warm_up(Interpreter::Rustpython);
    Ok(builder.build()?)
}

/// Fails where the outcome's value is another.
pub fn expect(outcome: &Outcome, want: &Value) -> Result<(), Fault> {
    if outcome.value.as_ref() == Some(want) {
        return Ok(());
    }
    let said = format!("{:?} {:?} {:?}", outcome.status, outcome.value, outcome.reason);
    Err(Fault::Answer("ringfence".to_owned(), said))
}

/// A session that was ready, from its opening to the result of `1+1`.
pub struct Fresh<'r> {
    /// Where it runs.
    pub runtime: &'r Runtime,
    /// What opens it.
    pub engine: Engine,
    /// What it is granted.
    pub policy: Policy,
    /// The engine of the tier, where it has several.
    pub interpreter: Option<Interpreter>,
    /// Its name in the table.
    pub name: String,
    /// What it sleeps before.
    pub pause: Duration,
}

impl Contender for Fresh<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn in_a_row(&self) -> usize {
        IN_A_ROW
    }

    fn sample(&mut self) -> Result<Duration, Fault> {
        let policy = self.policy.clone();
        std::thread::sleep(self.pause);
        let started = Instant::now();
        let builder = self.engine.session_with(policy);
        let mut session = match self.interpreter {
            Some(interpreter) => builder.engine(interpreter),
            None => builder,
        }
        .open()?;
        let outcome = self.runtime.block_on(session.run("1+1"))?;
        let time = started.elapsed();
        expect(&outcome, &Value::Int(2)).map(|()| time)
    }
}

struct RoundTrip<'r> {
    runtime: &'r Runtime,
    engine: Engine,
    interpreter: Interpreter,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

impl RoundTrip<'_> {
    fn session(&self) -> Result<Session, Fault> {
        let limits = LimitOverrides { host_calls: Some(CALLS + 1), ..LimitOverrides::default() };
        let policy = Policy::closed().allowing_declared_functions().with_limits(limits)?;
        let session = self.engine.session_with(policy).engine(self.interpreter);
        Ok(session.function("add", "The sum of two numbers.", |add: Add| Ok(add.a + add.b)).open()?)
    }

    fn timed(&self, session: &mut Session, code: &str) -> Result<Duration, Fault> {
        let started = Instant::now();
        let outcome = self.runtime.block_on(session.run(code))?;
        let time = started.elapsed();
        expect(&outcome, &Value::Int(i64::from(CALLS) * 3)).map(|()| time)
    }
}

impl Contender for RoundTrip<'_> {
    fn name(&self) -> String {
        format!("{}: host call and back, two ints, checks and audit file on", self.interpreter.as_str())
    }

    fn every(&self) -> usize {
        5
    }

    /// A run with calls less the same run with a function of the guest's own, for each call.
    fn sample(&mut self) -> Result<Duration, Fault> {
        let mut session = self.session()?;
        let body = format!("total = 0\nfor number in range({CALLS}):\n    total = total + f(1, 2)\ntotal");
        self.runtime.block_on(session.run("def own(a, b):\n    return a + b\nadd(1, 2)"))?;
        let own = self.timed(&mut session, &body.replace("f(", "own("))?;
        let host = self.timed(&mut session, &body.replace("f(", "add("))?;
        Ok(host.saturating_sub(own) / CALLS)
    }
}
