//! The kernel's own bounds on a worker, read from outside while its program runs.
//!
//! Answers to: the promise that a limit has a second keeper. Must not: take the worker's word.

use ringfence::call::Engine as Interpreter;
use ringfence::{Engine, HostError, Policy, Value};

mod support;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// The bound on the address space of each process below this one that has any.
fn bounds() -> Vec<u64> {
    let of = |pid: u32| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        line.split_whitespace().next()?.parse().ok()
    };
    support::below(std::process::id()).into_iter().filter_map(of).collect()
}

#[tokio::test]
async fn a_worker_can_not_have_more_memory_by_going_around_its_allocator() {
    let engine = Engine::builder().worker(env!("CARGO_BIN_EXE_ringfence")).warm(1).build().expect("an engine");
    for interpreter in [Interpreter::Monty, Interpreter::Rustpython] {
        let look = |_: Nothing| Ok::<_, HostError>(bounds());
        let policy = Policy::closed().allowing_declared_functions();
        let session = engine.session_with(policy).engine(interpreter).function("look", "", look).open();
        let outcome = session.expect("granted").run("look()").await.expect("recorded");
        let Some(Value::List(found)) = &outcome.value else { panic!("{interpreter:?}: {outcome:?}") };
        // 64 MiB by the closed policy, 192 MiB for stacks and allocators, and what the idle worker has.
        let is_bound = |bound: &Value| matches!(bound, Value::Int(bytes) if (256 << 20..1 << 30).contains(bytes));
        assert!(found.len() == 1 && found.iter().all(is_bound), "{interpreter:?}: {found:?}");
    }
}
