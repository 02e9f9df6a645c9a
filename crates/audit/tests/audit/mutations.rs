//! Every change of a closed log is found, and the right record is named.

use crate::support::*;
use ringfence_audit::{Against, Head, Report, Verdict, verify, verify_against};

fn closed_log() -> (Vec<Vec<u8>>, Option<Head>) {
    let mut options = options();
    options.checkpoint_every = 3;
    let sink = log_of(options, |log| {
        for city in ["Oslo", "Rome", "Bern", "Kyiv"] {
            log.record(call(city)).expect("recorded");
        }
        log.close().expect("closed");
    });
    let lines = sink.bytes().split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    (lines, sink.head())
}

fn report(log: &[u8], head: Option<Head>) -> Report {
    verify_against(log, Against { key: Some(key().public()), head }).expect("memory is read")
}

/// What a change of the closed log is found to be, with its head.
fn check(change: impl FnOnce(&mut Vec<Vec<u8>>), want: &[&str]) {
    let (mut lines, head) = closed_log();
    change(&mut lines);
    let report = report(&lines.concat(), head);
    assert_eq!(findings(&report), want);
    assert_eq!(report.verdict(), Verdict::Broken);
}

/// Replaces text in a line and gives the line the hash that fits, as one without the key would.
fn rewrite(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(line.to_vec()).expect("utf-8").replace(from, to);
    let (body, tail) = text.rsplit_once(",\"hash\":\"").expect("hash");
    let hash = ringfence_audit::sha256_hex(format!("{body}}}").as_bytes());
    format!("{body},\"hash\":\"{hash}{}", &tail[64..]).into_bytes()
}

fn field(line: &[u8], name: &str) -> String {
    serde_json::from_slice::<serde_json::Value>(line).expect("json")[name].as_str().expect("text").to_owned()
}

#[test]
fn an_untouched_log_is_intact() {
    let (lines, head) = closed_log();
    assert_eq!(lines.len(), 7);
    let report = report(&lines.concat(), head);
    assert_eq!((findings(&report), report.verdict()), (vec![], Verdict::Intact));
    assert_eq!((report.records, report.last.seq, report.signed_to, report.closed), (7, 7, 7, true));
}

#[test]
fn each_record_edited_dropped_or_doubled_is_named() {
    for at in 0..7 {
        let seq = at + 1;
        check(|lines| lines[at] = replace(&lines[at], "00.001Z", "00.002Z"), &[&format!("edited {seq}")]);
        check(|lines| lines[at] = replace(&lines[at], ":", ": "), &[&format!("edited {seq}")]);
        check(|lines| lines.insert(at, lines[at].clone()), &[&format!("duplicated {seq}")]);
        let kind = if seq == 7 { "truncated" } else { "missing" };
        check(|lines| drop(lines.remove(at)), &[&format!("{kind} {seq}")]);
    }
}

fn replace(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(line.to_vec()).expect("utf-8").replacen(from, to, 1).into_bytes()
}

#[test]
fn two_records_swapped_are_named() {
    for first in 0..7 {
        for second in first + 1..7 {
            let (mut lines, head) = closed_log();
            lines.swap(first, second);
            let report = report(&lines.concat(), head);
            let found = findings(&report);
            assert!(found.contains(&format!("reordered {}", first + 1)), "{first} {second}: {found:?}");
            assert!(found.iter().all(|finding| finding.starts_with("reordered")), "{first} {second}: {found:?}");
        }
    }
}

#[test]
fn each_cut_between_records_is_named() {
    for kept in 0..7 {
        check(|lines| lines.truncate(kept), &[&format!("truncated {}", kept + 1)]);
    }
}

#[test]
fn each_cut_inside_a_record_is_named() {
    let (lines, head) = closed_log();
    for at in 0..7 {
        let before = lines[..at].concat();
        for cut in 1..lines[at].len() - 1 {
            let log = [&before, &lines[at][..cut]].concat();
            let report = report(&log, head.clone());
            assert_eq!(findings(&report), [format!("incomplete {}", at + 1), format!("truncated {}", at + 1)]);
            assert_eq!(report.verdict(), Verdict::Broken);
        }
    }
}

#[test]
fn each_flipped_byte_is_found_and_named() {
    let (lines, head) = closed_log();
    for at in 0..lines.len() {
        for place in 0..lines[at].len() {
            for bit in [0, 5, 7] {
                let mut lines = lines.clone();
                lines[at][place] ^= 1 << bit;
                let report = report(&lines.concat(), head.clone());
                let context = || format!("line {}, byte {place}, bit {bit}: {:?}", at + 1, report.findings);
                let newline_of_the_end = at == 6 && place == lines[6].len() - 1;
                assert_eq!(report.verdict(), Verdict::Broken, "{}", context());
                let first = report.findings.first().expect("found");
                assert!(first.seq == Some(at as u64 + 1) || newline_of_the_end, "{}", context());
            }
        }
    }
}

#[test]
fn a_rewritten_record_is_named_by_the_next_one() {
    for at in [1, 2, 3] {
        let seq = at + 1;
        check(|lines| lines[at] = rewrite(&lines[at], "get_weather", "get_whether"), &[&format!("edited {seq}")]);
    }
}

#[test]
fn a_rewritten_chain_fails_at_the_next_signature() {
    let rewritten = |lines: &mut Vec<Vec<u8>>| {
        lines[1] = rewrite(&lines[1], "Oslo", "Wien");
        for at in 2..7 {
            let prev = field(&lines[at], "prev");
            let hash = field(&lines[at - 1], "hash");
            lines[at] = rewrite(&lines[at], &prev, &hash);
        }
    };
    check(rewritten, &["bad signature 5", "bad signature 7", "edited 7"]);
}

#[test]
fn what_is_added_without_the_key_is_named() {
    let added = |event: &'static str| {
        move |lines: &mut Vec<Vec<u8>>| {
            let line = replace(&lines[1], "\"seq\":2", "\"seq\":8");
            let line = rewrite(&line, &field(&line, "prev"), &field(&lines[6], "hash"));
            lines.push(rewrite(&line, "call_permitted", event));
        }
    };
    check(added("call_permitted"), &["appended 8"]);
    check(added("log_opened"), &["appended 8", "bad signature 8"]);
}

#[test]
fn a_signature_taken_away_is_named() {
    check(
        |lines| {
            let text = String::from_utf8(lines[4].clone()).expect("utf-8");
            let (rest, _) = text.rsplit_once(",\"signature\"").expect("signed");
            lines[4] = format!("{rest}}}\n").into_bytes();
        },
        &["bad signature 5"],
    );
}

#[test]
fn another_shorter_log_in_its_place_is_named() {
    let shorter = log_of(options(), |log| drop(log.close())).bytes();
    check(|lines| *lines = vec![shorter], &["truncated 3"]);
}

#[test]
fn a_log_that_was_closed_earlier_lacks_the_rest() {
    // Without the head a cut log, and the whole one too, is never more than what it holds: nothing tells its end.
    let (lines, _) = closed_log();
    for kept in 0..=7 {
        let report = verify(lines[..kept].concat().as_slice(), Some(key().public())).expect("read");
        assert_eq!((report.verdict(), report.last.seq), (Verdict::Unanchored, kept as u64));
    }
}

#[test]
fn signed_by_another_key_is_not_signed() {
    let (lines, head) = closed_log();
    let other = ringfence_audit::Keypair::from_secret([8; 32]).public();
    let report = verify_against(lines.concat().as_slice(), Against { key: Some(other), head }).expect("read");
    assert_eq!(findings(&report), ["bad head -", "bad signature 1", "bad signature 5", "bad signature 7"]);
}

#[test]
fn a_line_without_end_takes_no_memory_and_is_named() {
    let (lines, head) = closed_log();
    let huge = vec![b'{'; 5 << 20];
    let log = [lines[..2].concat(), huge, b"\n".to_vec(), lines[3..].concat()].concat();
    assert_eq!(findings(&report(&log, head)), ["too long 3"]);
}

#[test]
fn a_million_faults_are_counted_but_not_listed() {
    let (lines, _) = closed_log();
    let log = [lines[0].clone(), b"x\n".repeat(100_000)].concat();
    let report = report(&log, None);
    assert_eq!(report.findings.len() + usize::try_from(report.unlisted).expect("small"), 1000);
}
