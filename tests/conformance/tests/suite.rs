//! The suite's own data and its judgement: every case is read, every key that occurs in one is known, and what a broken
//! tier would show is not taken for a refusal.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use ringfence_conformance::case::{self, Case, Evidence};
use ringfence_conformance::kinds::python::{ran_on, was_let_in};
use ringfence_conformance::policy::Terms;
use ringfence_conformance::seen::Seen;
use ringfence_conformance::{control, cpython, kinds, oracle, probes, wants};
use ringfence_types::{GuestException, Outcome, Status, TierName, Value};

#[test]
fn every_case_is_read() {
    let count = |name: &str, cases: usize, want: usize| assert_eq!(cases, want, "{name}");
    count("attack", case::attacks().expect("read").len(), 69);
    count("use", case::uses().expect("read").len(), 43);
    count("jail", case::jail().expect("read").len(), 52);
    count("probes", probes::table().expect("read").len(), 88);
    count("agent", case::agent_programs().expect("read").len(), 72);
    count("humaneval", case::humaneval().expect("read").len(), 164);
    count("cpython", cpython::assertions().expect("read").len(), 1557);
}

fn all() -> Vec<Case> {
    [case::attacks(), case::uses(), case::jail()].into_iter().flat_map(|cases| cases.expect("read")).collect()
}

#[test]
fn every_key_of_every_case_is_known() {
    for case in all() {
        let faults = [oracle::faults(&case, &Seen::default()), wants::faults(&case, &Seen::default())].concat();
        let unknown: Vec<&String> = faults.iter().filter(|fault| fault.contains("does not know")).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", case.id);
    }
}

#[test]
fn the_escape_half_is_there() {
    let escapes = |cases: Result<Vec<Case>, String>| cases.expect("read").iter().filter(|c| c.bare.is_some()).count();
    assert_eq!((escapes(case::attacks()), escapes(case::jail())), (21, 39));
    assert_eq!(probes::table().expect("read").iter().filter(|probe| probe.bare.is_some()).count(), 66);
}

#[test]
fn every_point_of_the_checklist_has_a_case() {
    let cases = case::jail().expect("read");
    for point in 1..=50 {
        let id = format!("J{point:02}");
        assert!(cases.iter().any(|case| case.id.starts_with(&id)), "{id}");
    }
}

/// Steps judge themselves; a program is judged by what it prints, so that it has to be known.
#[test]
fn every_refusal_names_its_evidence() {
    for case in all().iter().filter(|case| ["python", "python-template", "pair"].contains(&case.kind())) {
        let verdicts: Vec<&str> =
            [TierName::Embedded, TierName::Process].into_iter().flat_map(|tier| case.verdicts(tier)).collect();
        let refuses = verdicts.iter().any(|verdict| ["deny", "contain"].contains(verdict));
        assert!(!refuses || case.expected.evidence.is_named(), "{}", case.id);
    }
}

#[test]
fn a_broken_driver_refuses_nothing() {
    let names_itself = Evidence { lines: vec!["BLOCKED: ".into()], all: vec!["end".into()], raised: Vec::new() };
    let raises = Evidence { raised: vec!["SyntaxError".into()], ..Evidence::default() };
    #[track_caller]
    fn check(evidence: &Evidence, outcome: Outcome, refused: bool) {
        let seen = Seen { outcomes: vec![outcome], ..Seen::default() };
        assert_eq!((seen.is("deny", evidence), seen.is("contain", evidence)), (refused, refused));
    }
    check(&names_itself, outcome("BLOCKED: AttributeError\nend\n"), true);
    check(&names_itself, outcome("BLOCKED: AttributeError\n"), false);
    check(&names_itself, outcome("Error: the driver stopped\nend\n"), false);
    check(&names_itself, outcome("not BLOCKED: x\nend\n"), false);
    check(&names_itself, outcome(""), false);
    check(&names_itself, raised("RuntimeError"), false);
    check(&raises, raised("SyntaxError"), true);
    check(&raises, raised("ImportError"), false);
    check(&raises, outcome("SyntaxError\n"), false);
    check(&Evidence::default(), outcome("BLOCKED: everything\n"), false);
}

#[test]
fn a_control_that_does_not_do_all_is_a_fault() {
    let (code, wanted) = control::program(&["get_weather".to_owned(), "fail".to_owned()]);
    assert!(code.contains("get_weather('Rome')") && !code.contains("fail("), "{code}");
    assert_eq!(wanted, "CONTROL: ValueError 2 ['a', 'b'] 1x2\nRome\n");
    let good = Outcome { value: Some(Value::Int(42)), ..outcome(&wanted) };
    assert_eq!(control::judged(&good, &wanted), Ok(()));
    for bad in [outcome(&wanted), Outcome { stdout: String::new(), ..good.clone() }, raised("NameError")] {
        assert!(control::judged(&bad, &wanted).is_err(), "{bad:?}");
    }
}

#[test]
fn the_tier_is_in_the_policy_and_in_the_outcome() {
    for tier in TierName::ALL {
        let toml = Terms::default().toml(tier, std::path::Path::new("/data"));
        assert!(toml.contains(&format!("tiers = [\"{tier}\"]\n")), "{toml}");
    }
    let on = |tier| Outcome { tier, ..outcome("ran\n") };
    let refused = Outcome { status: Status::Unsupported, ..outcome("") };
    let over = Outcome { status: Status::Limited, ..outcome("") };
    #[track_caller]
    fn check(outcome: &Outcome, run: Result<(), &str>, first: Result<(), &str>) {
        assert_eq!(ran_on(TierName::Process, outcome).as_ref().copied().map_err(String::as_str), run);
        assert_eq!(was_let_in(TierName::Process, outcome).as_ref().copied().map_err(String::as_str), first);
    }
    check(&on(Some(TierName::Process)), Ok(()), Ok(()));
    check(
        &on(Some(TierName::Embedded)),
        Err("it ran on the embedded tier, not on process"),
        Err("the outcome `completed` is not of the process tier: Some(Embedded)"),
    );
    check(
        &on(None),
        Err("the outcome `completed` names no tier, not process"),
        Err("the outcome `completed` is not of the process tier: None"),
    );
    check(&refused, Ok(()), Ok(()));
    check(&raised("SyntaxError"), Ok(()), Ok(()));
    check(&over, Ok(()), Err("the outcome `limited` is not of the process tier: None"));
}

#[test]
fn every_condition_is_in_the_table_of_every_tier_of_this_build() {
    let case = case::attacks().expect("read").into_iter().find(|case| case.id == "A103").expect("there");
    for tier in [TierName::Embedded, TierName::Process] {
        for condition in case.names("conditions") {
            assert!(kinds::environment::wanted(tier, &condition).is_some(), "{tier}: {condition}");
        }
    }
}

#[test]
fn an_escape_is_a_fault() {
    let case = case::attacks().expect("read").into_iter().find(|case| case.id == "A002").expect("there");
    let mut seen = Seen::default();
    assert_eq!(oracle::faults(&case, &seen), Vec::<String>::new());
    seen.outcomes.push(outcome("ESCAPED:env+file\n"));
    assert_eq!(oracle::faults(&case, &seen), ["stdout_excludes: `ESCAPED` came out"]);
}

fn raised(kind: &str) -> Outcome {
    let exception = GuestException {
        kind: kind.to_owned(),
        message: String::new(),
        frames: Vec::new(),
        cause: None,
        notes: Vec::new(),
        exit_code: None,
    };
    Outcome { status: Status::Raised, exception: Some(exception), ..outcome("") }
}

fn outcome(stdout: &str) -> Outcome {
    Outcome {
        run_id: ringfence_types::RunId::from_random([1; 16]),
        session: ringfence_types::SessionId::from_random([1; 16]),
        tier: None,
        strength: None,
        engine: None,
        status: Status::Completed,
        value: None,
        shown: Vec::new(),
        stdout: stdout.to_owned(),
        stderr: String::new(),
        dropped: ringfence_types::Dropped::default(),
        exit_code: None,
        exception: None,
        limit: None,
        reason: None,
        usage: ringfence_types::Usage::default(),
        chosen: Vec::new(),
        audit: None,
        changes: None,
    }
}
