//! Moving a program: when it may be run again, and where; what is told of it.
//!
//! Answers to: `drive.rs`. Each row: tiers and policy, the snippets, and the whole story.

use std::time::Duration;

use ringfence_testkit::{FakeTier, Reply, Trace};
use ringfence_tier::{Event, TierFault};
use ringfence_types::{Engine as Interpreter, LimitKind, Source, TierName, Value};

use crate::stage::{Stage, call, considered, cpython, done, embedded, raised, run, told, unsupported, until};

const MONTY: Option<Interpreter> = Some(Interpreter::Monty);
const RUSTPYTHON: Option<Interpreter> = Some(Interpreter::Rustpython);

/// The tiers, the policy's lines, the snippets.
struct Row {
    tiers: fn(&Trace) -> Vec<FakeTier>,
    policy: &'static str,
    code: &'static [&'static str],
}

/// Considered, moves, log, what was done, and the outcome of every snippet.
async fn check(name: &str, row: Row, want: &str) {
    let trace = Trace::new();
    let stage = Stage::new(&trace, (row.tiers)(&trace));
    let mut session = stage.session(row.policy);
    let mut story = String::new();
    for (at, code) in row.code.iter().enumerate() {
        let outcome = session.run(Source::new(*code), &mut ()).await.unwrap();
        if at == 0 {
            story.push_str(&considered(&outcome));
        }
        trace.add(told(&outcome));
    }
    for moved in stage.details("tier_moved") {
        let text = |key: &str| moved[key].as_str().unwrap_or("-").to_owned();
        let (from, to) = (text("from"), text("to"));
        let line = format!("{from}/{} -> {to}/{}: {}\n", text("from_engine"), text("to_engine"), text("why"));
        story.push_str(&line);
    }
    story.push_str(&format!("log {}\n", stage.log()));
    story.push_str(&stage.done().replace("; ", "\n"));
    assert_eq!(story.trim_end(), want.trim(), "{name}");
}

#[tokio::test]
async fn a_raised_program_is_asked_again_in_the_same_tier() {
    let tiers = |trace: &Trace| {
        let embedded = embedded(trace).playing(MONTY, vec![raised("TypeError")]).playing(RUSTPYTHON, vec![done(2)]);
        vec![embedded, cpython(TierName::Process, trace).playing(None, vec![done(3)])]
    };
    let want = "\
embedded fits: engine `rustpython`, to which the program moved: the program raised, and engine `rustpython` is asked whether it should; first: engine `monty`
process no: runs CPython itself; not tried, since the cheaper `embedded` fits
container no: not in this build
embedded/monty -> embedded/rustpython: the program raised, and engine `rustpython` is asked whether it should
log tier_chosen cell_opened run_started tier_moved cell_opened run_closed
probe embedded
open embedded monty
turn feed
drop
open embedded rustpython
turn feed
completed embedded/rustpython Int(2)";
    check("the next engine", Row { tiers, policy: "", code: &["1 + 1"] }, want).await;
}

#[tokio::test]
async fn a_raised_program_is_never_run_again_in_another_tier() {
    let tiers = |trace: &Trace| {
        let embedded = embedded(trace).playing(RUSTPYTHON, vec![raised("TypeError"), done(2)]);
        vec![embedded, cpython(TierName::Process, trace).playing(None, vec![done(3)])]
    };
    let want = "\
embedded fits: engine `rustpython`; not monty: open() at line 1
process no: runs CPython itself; not tried, since the cheaper `embedded` fits
container no: not in this build
log tier_chosen cell_opened run_started run_closed
probe embedded
open embedded rustpython
turn feed
raised embedded/rustpython TypeError";
    check("the last engine of its tier", Row { tiers, policy: "", code: &["open('x')"] }, want).await;
}

#[tokio::test]
async fn an_unsupported_program_moves_up_where_all_it_did_went_through_the_bridge() {
    let tiers = |trace: &Trace| {
        let first = vec![call(1), Reply::AfterAnswer(Event::Unsupported("a thing".to_owned(), Some(1)))];
        let embedded = embedded(trace).playing(RUSTPYTHON, first);
        vec![
            embedded,
            cpython(TierName::Process, trace)
                .playing(None, vec![call(1), Reply::AfterAnswer(Event::Done(Value::Int(3)))]),
        ]
    };
    let want = "\
embedded no: the program moved on to `process`; first: engine `rustpython`; not monty: open() at line 1
process fits: the program moved here: line 1 needs a thing, which the engine does not have; runs CPython itself
container no: not in this build
embedded/rustpython -> process/-: line 1 needs a thing, which the engine does not have
log tier_chosen cell_opened run_started call_permitted call_answered tier_moved cell_opened run_closed
probe embedded
open embedded rustpython
turn feed
ran f
turn answer 1
probe process
drop
open process
turn feed
turn answer 1
completed process Int(3)";
    check("the recorded answer is given again", Row { tiers, policy: "", code: &["open('x')"] }, want).await;
}

#[tokio::test]
async fn what_may_have_acted_outside_the_bridge_is_not_run_again() {
    let tiers = |trace: &Trace| {
        vec![
            cpython(TierName::Process, trace).playing(None, vec![unsupported("a thing")]),
            cpython(TierName::Container, trace).playing(None, vec![done(3)]),
        ]
    };
    let network = "[network]\nallow = [{ host = \"example.com\", ports = [443] }]\n";
    let want = "\
process fits: runs CPython itself
container no: runs CPython itself; not tried, since the cheaper `process` fits
embedded no: not in this build
log tier_chosen cell_opened run_started run_closed
probe process
open process
turn feed
unsupported process: line 1 needs a thing, which the engine does not have";
    check("with network granted", Row { tiers, policy: network, code: &["1"] }, want).await;
    let want = "\
process no: the program moved on to `container`; first: runs CPython itself
container fits: the program moved here: line 1 needs a thing, which the engine does not have; runs CPython itself
embedded no: not in this build
process/- -> container/-: line 1 needs a thing, which the engine does not have
log tier_chosen cell_opened run_started tier_moved cell_opened run_closed
probe process
open process
turn feed
probe container
drop
open container
turn feed
completed container Int(3)";
    check("without", Row { tiers, policy: "", code: &["1"] }, want).await;
}

#[tokio::test]
async fn a_later_snippet_moves_on_to_the_first_that_fits_it() {
    let tiers = |trace: &Trace| {
        vec![
            embedded(trace).playing(MONTY, vec![done(1)]),
            cpython(TierName::Process, trace).lacking("numpy").playing(None, vec![done(9)]),
            cpython(TierName::Container, trace).playing(None, vec![done(1), done(3)]),
        ]
    };
    let want = "\
embedded fits: engine `monty`
process no: runs CPython itself; not tried, since the cheaper `embedded` fits
container no: runs CPython itself; not tried, since the cheaper `embedded` fits
embedded/monty -> container/-: line 1 needs module numpy
log tier_chosen cell_opened run_started run_closed run_started tier_moved cell_opened run_closed
probe embedded
open embedded monty
turn feed
completed embedded/monty Int(1)
probe process
probe container
drop
open container
turn feed
turn feed
completed container Int(3)";
    check("two are passed over", Row { tiers, policy: "", code: &["1", "import numpy"] }, want).await;
}

#[tokio::test]
async fn after_a_failed_move_the_outcome_tells_where_the_program_ran() {
    let again = |second: Vec<Reply>| async move {
        let trace = Trace::new();
        let first = vec![Reply::Busy(Duration::from_millis(30), Event::Unsupported("a thing".to_owned(), None))];
        let embedded = embedded(&trace).playing(MONTY, first).playing(RUSTPYTHON, second);
        let stage = Stage::new(&trace, vec![embedded]);
        let outcome = stage.session("").run(Source::new("1"), &mut ()).await.unwrap();
        format!("{} {} ms {:?}", told(&outcome), outcome.usage.cpu_ms, outcome.strength.map(|s| s.as_str()))
    };
    let busy = |millis, event| Reply::Busy(Duration::from_millis(millis), event);
    let died = Reply::Fault(TierFault::Died { tier: TierName::Embedded });
    let first = "unsupported embedded/monty: the program needs a thing, which the engine does not have";
    let lost = vec![busy(12, Event::Print(ringfence_types::Stream::Stdout, b"x".to_vec())), died];
    let want = "crashed embedded/rustpython: the embedded worker died in mid-run; the session is lost, open a new one";
    assert_eq!(again(lost).await, format!("{want} 42 ms Some(\"process\")"), "in the second engine");
    let other = vec![busy(12, Event::Done(Value::Int(5)))];
    assert_eq!(again(other).await, "completed embedded/rustpython Int(5) 42 ms Some(\"process\")", "both are counted");
    let trace = Trace::new();
    let first_run = vec![call(1), Reply::AfterAnswer(Event::Unsupported("a thing".to_owned(), None))];
    let embedded = embedded(&trace).playing(MONTY, first_run).playing(RUSTPYTHON, vec![done(5)]);
    let stage = Stage::new(&trace, vec![embedded]);
    let mut session = stage.session("");
    assert_eq!(run(&mut session, "1").await, first, "it went another way");
    let lost = "crashed: the session has ended: this needs the engine `rustpython`, and what the session did so far \
                can't be repeated there; open the session with that engine; open a new one";
    assert_eq!(run(&mut session, "1").await, lost);
}

#[tokio::test]
async fn the_limit_on_processor_time_counts_over_all_cells_of_a_run() {
    let trace = Trace::new();
    let busy = |event| Reply::Busy(Duration::from_millis(600), event);
    let first = vec![busy(Event::Unsupported("a thing".to_owned(), None))];
    let second = vec![busy(Event::Print(ringfence_types::Stream::Stdout, Vec::new())), Reply::Hang];
    let embedded = embedded(&trace).playing(MONTY, first).playing(RUSTPYTHON, second);
    let stage = Stage::new(&trace, vec![embedded]);
    let outcome =
        stage.session("[limits]\ncpu = \"1s\"\nwall = \"60s\"\n").run(Source::new("1"), &mut ()).await.unwrap();
    assert_eq!(told(&outcome), "limited embedded/rustpython cpu: the limit on cpu struck: 1000 ms allowed");
    assert_eq!(outcome.limit.map(|hit| hit.reached), Some(1200));
}

/// A session whose second snippet needs the next engine, where the first one's repetition goes so.
async fn repeating(repetition: Vec<Reply>, kill: bool) -> (String, String) {
    let trace = Trace::new();
    let embedded =
        embedded(&trace).playing(MONTY, vec![done(1)]).playing(RUSTPYTHON, [repetition, vec![done(2)]].concat());
    let stage = Stage::new(&trace, vec![embedded]);
    let mut session = stage.session("[limits]\nwall = \"60s\"\ncpu = \"1s\"\n");
    let handle = session.handle();
    assert_eq!(run(&mut session, "1").await, "completed embedded/monty Int(1)");
    let killer = async {
        if kill {
            until(&trace, "turn feed", 2).await;
            handle.kill("a test");
        }
    };
    let (outcome, ()) = tokio::join!(run(&mut session, "open('x')"), killer);
    (outcome, stage.log().split(" run_closed ").nth(1).unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_kill_or_limit_while_the_past_is_repeated_is_told_as_such() {
    let (outcome, log) = repeating(vec![Reply::Hang], true).await;
    assert_eq!(outcome, "killed embedded/monty: ended by a test");
    assert_eq!(log, "run_started tier_moved cell_opened killed run_closed");
    let busy = Reply::Busy(Duration::from_secs(2), Event::Print(ringfence_types::Stream::Stdout, Vec::new()));
    let (outcome, log) = repeating(vec![busy, Reply::Hang], false).await;
    assert_eq!(outcome, "limited embedded/monty cpu: the limit on cpu struck: 1000 ms allowed");
    assert_eq!(log, "run_started tier_moved cell_opened limit_struck run_closed");
    let (outcome, _) = repeating(vec![done(1)], false).await;
    assert_eq!(outcome, "completed embedded/rustpython Int(2)");
    let (outcome, _) = repeating(vec![call(1)], false).await;
    let lost = "unsupported embedded/monty: this needs the engine `rustpython`, and what the session did so far can't \
                be repeated there; open the session with that engine";
    assert_eq!(outcome, lost, "it went another way");
}

#[tokio::test]
async fn a_limit_that_the_second_engine_names_while_it_repeats_is_told() {
    let trace = Trace::new();
    let over = Reply::Event(Event::Limit(LimitKind::Memory, 1));
    let second = FakeTier::new(&trace, vec![over]);
    let stage = Stage::new(&trace, vec![second]);
    let mut session = stage.session("");
    assert_eq!(
        run(&mut session, "1").await,
        "limited embedded/monty memory: the limit on memory struck: 67108864 bytes allowed"
    );
}

#[tokio::test]
async fn a_past_that_is_too_large_is_not_kept() {
    let large = Value::Str("x".repeat(9 << 20));
    let trace = Trace::new();
    let embedded = embedded(&trace).playing(MONTY, vec![unsupported("a thing")]).playing(RUSTPYTHON, vec![done(2)]);
    let stage = Stage::new(&trace, vec![embedded]);
    let source = Source { inputs: vec![("x".to_owned(), large)], ..Source::new("x") };
    let outcome = stage.session("").run(source, &mut ()).await.unwrap();
    assert_eq!(told(&outcome), "unsupported embedded/monty: line 1 needs a thing, which the engine does not have");
}
