//! The suite's own data: every case is read, and every key that occurs in one is known.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use ringfence_conformance::case;
use ringfence_conformance::seen::Seen;
use ringfence_conformance::{oracle, wants};

#[test]
fn every_case_is_read() {
    let count = |name: &str, cases: usize, want: usize| assert_eq!(cases, want, "{name}");
    count("attack", case::attacks().expect("read").len(), 69);
    count("use", case::uses().expect("read").len(), 43);
    count("agent", case::agent_programs().expect("read").len(), 72);
    count("humaneval", case::humaneval().expect("read").len(), 164);
}

#[test]
fn every_key_of_every_case_is_known() {
    let cases = case::attacks().expect("read").into_iter().chain(case::uses().expect("read"));
    for case in cases {
        let faults = [oracle::faults(&case, &Seen::default()), wants::faults(&case, &Seen::default())].concat();
        let unknown: Vec<&String> = faults.iter().filter(|fault| fault.contains("does not know")).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", case.id);
    }
}

#[test]
fn the_escape_half_is_there() {
    let escapes = case::attacks().expect("read").iter().filter(|case| case.bare.is_some()).count();
    assert_eq!(escapes, 21);
}

#[test]
fn an_escape_is_a_fault() {
    let case = case::attacks().expect("read").into_iter().find(|case| case.id == "A002").expect("there");
    let mut seen = Seen::default();
    assert_eq!(oracle::faults(&case, &seen), Vec::<String>::new());
    seen.outcomes.push(outcome("ESCAPED:env+file\n"));
    assert_eq!(oracle::faults(&case, &seen), ["stdout_excludes: `ESCAPED` came out"]);
}

fn outcome(stdout: &str) -> ringfence_types::Outcome {
    ringfence_types::Outcome {
        run_id: ringfence_types::RunId::from_random([1; 16]),
        session: ringfence_types::SessionId::from_random([1; 16]),
        tier: None,
        strength: None,
        engine: None,
        status: ringfence_types::Status::Completed,
        value: None,
        shown: Vec::new(),
        stdout: stdout.to_owned(),
        stderr: String::new(),
        dropped: ringfence_types::Dropped::default(),
        exception: None,
        limit: None,
        reason: None,
        usage: ringfence_types::Usage::default(),
        chosen: Vec::new(),
        audit: None,
    }
}
