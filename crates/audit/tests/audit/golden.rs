//! The exact bytes of a log, of its terminal view, and of its export.

use crate::support::*;
use ringfence_audit::{Against, Entry, Log, MemorySink, Scope};
use ringfence_audit::{Event, PublicKey, Record, Verdict, render, sha256_hex, to_ocsf, verify_against};

fn small_log() -> MemorySink {
    log_of(options(), |log| {
        log.record(call("Oslo\n\u{202e}\u{1f469}\u{200d}\u{1f4bb}\u{e0041}")).expect("recorded");
        log.close().expect("closed");
    })
}

#[test]
fn a_log_has_exactly_these_bytes() {
    let key = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";
    assert_eq!(key_text(), key);
    let text = small_log().text();
    let lines: Vec<&str> = text.lines().collect();
    let want = include_str!("golden.jsonl");
    assert_eq!(lines, want.lines().collect::<Vec<_>>());
}

fn key_text() -> String {
    key().public().to_string()
}

#[test]
fn a_third_party_needs_only_sha256_and_a_json_reader() {
    let text = small_log().text();
    let mut prev = "0".repeat(64);
    for line in text.lines() {
        let json: serde_json::Value = serde_json::from_str(line).expect("json");
        let (body, _) = line.rsplit_once(",\"hash\":").expect("hash");
        assert_eq!(json["hash"], sha256_hex(format!("{body}}}").as_bytes()));
        assert_eq!(json["prev"], prev);
        prev = json["hash"].as_str().expect("text").to_owned();
    }
}

#[test]
fn every_event_is_read_back_shown_and_exported() {
    let sink = log_of(options(), |log| {
        for event in events() {
            log.record(Entry::new(&scope(), event)).expect("recorded");
        }
        log.close().expect("closed");
    });
    let text = sink.text();
    let records: Vec<Record> = text.lines().map(|line| Record::parse(line.as_bytes()).expect("record")).collect();
    let read: Vec<Event> = records.iter().map(|record| record.typed().expect("known")).collect();
    assert_eq!(read[1..read.len() - 1], events());
    let key: PublicKey = key_text().parse().expect("key");
    let report = verify_against(text.as_bytes(), Against { key: Some(key), head: sink.head() }).expect("read");
    assert_eq!((report.verdict(), report.to_string().as_str()), (Verdict::Intact, "intact: 33 records, closed"));
    for record in &records {
        check_ocsf(&to_ocsf(record, "host-1"), record);
    }
    let ended = records.iter().find(|record| record.event == "connection_ended").expect("it is there");
    let ended = to_ocsf(ended, "host-1");
    assert_eq!(ended["traffic"], serde_json::json!({"bytes_in": 7, "bytes_out": 5}));
    assert_eq!(ended["dst_endpoint"], serde_json::json!({"hostname": "api.example.com", "port": 443}));
    let view: Vec<String> = records.iter().map(render).collect();
    let denied = concat!(
        "    10 2026-01-01T00:00:00.001Z local    DENIED  call_denied [run_02020202020202020202020202020202] call=2 ",
        r#"function="send\u{202e}_mail\n" arguments={"city":"Oslo","days":3} reason="not in the policy" rule=functions"#
    );
    assert_eq!(view[9], denied);
}

/// The attributes that every class requires, and those of the class.
fn check_ocsf(event: &serde_json::Value, record: &Record) {
    let uid = event["class_uid"].as_u64().expect("class");
    assert_ne!(uid, 0, "{} has no class", record.event);
    assert_eq!(event["category_uid"], uid / 1000);
    assert_eq!(event["type_uid"], uid * 100 + event["activity_id"].as_u64().expect("activity"));
    assert_eq!(event["time"], 1_767_225_600_001_u64);
    assert_eq!(event["metadata"]["sequence"], record.seq);
    let required: &[&str] = match uid {
        1001 => &["file", "actor", "device"],
        1007 => &["process", "actor", "device"],
        1008 => &["log_name", "device"],
        2004 => &["finding_info"],
        3003 => &["user", "privileges"],
        3004 => &["entity"],
        4001 => &["src_endpoint", "dst_endpoint", "connection_info"],
        6002 => &["app"],
        6003 => &["api", "actor", "src_endpoint"],
        other => panic!("class {other}"),
    };
    for name in required.iter().chain(&["severity_id", "status_id", "message", "metadata"]) {
        assert!(!event[name].is_null(), "{}: {name}", record.event);
    }
    assert!(!event.to_string().contains('\n'));
}

#[test]
fn an_event_of_a_newer_writer_is_exported_as_the_base_event() {
    let text = small_log().text().replace("call_permitted", "call_teleported");
    let record = Record::parse(text.lines().nth(1).expect("second").as_bytes()).expect("record");
    let event = to_ocsf(&record, "host-1");
    assert_eq!((&event["class_uid"], &event["type_uid"]), (&0.into(), &0.into()));
    assert_eq!(event["unmapped"]["event"], "call_teleported");
}

#[test]
fn the_logs_own_events_are_refused_from_outside() {
    log_of(options(), |log: &Log| {
        let mark =
            ringfence_audit::event::Checkpoint { reason: ringfence_audit::event::CheckpointReason::Closed, key: None };
        let refused = log.record(Entry::new(&Scope::host(), Event::Checkpoint(mark))).expect_err("reserved");
        assert_eq!(refused.to_string(), "`checkpoint` is written by the audit log itself; record another event");
        assert_eq!(log.record(call("Oslo")).expect("still open"), 2);
    });
}
