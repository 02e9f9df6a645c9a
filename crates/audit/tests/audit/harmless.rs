//! Text of the guest's can't steer a terminal, forge a line, or carry a secret out.

use crate::support::*;
use proptest::prelude::*;
use ringfence_audit::text::{self, STRING_MAX, is_unsafe};
use ringfence_audit::{Entry, Log, LogOptions, Record, SecretScrubber, escape, render, sha256_hex, to_ocsf};

/// All of the text that the cases of forged lines, terminal sequences and hidden characters use.
const NASTY: &[&str] = &[
    "Paris\n{\"seq\": 99, \"event\": \"tool_call\"}\r\n2026 INFO disarmed\u{b}\u{c}\u{1c}\u{85}\u{2028}\u{2029}end",
    "\u{1b}[2J\u{1b}[H\u{1b}]0;owned\u{7}\u{1b}]8;;http://evil.test\u{1b}\\click\u{9b}31m\u{8}\u{8}ok\u{7f}\r[allowed]",
    "user\u{202e}gnp.exe a\u{200b}b\u{2060}c\u{feff} \u{e0068}\u{e0069} \u{2066}x\u{2069} e\u{301} \u{1f469}\u{200d}\u{1f4bb} x\0y",
    "\u{61c}\u{200e}\u{200f}\u{202a}\u{2067}\u{ad}\u{fe0f}\u{e0100}\u{3164}\\n\\u{202e}",
];

/// Reads back what `escape` wrote.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, if c == '\\' { rest.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('r')) => out.push('\r'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some('u')) => {
                let hex: String = rest.by_ref().skip(1).take_while(|c| *c != '}').collect();
                out.push(u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32).expect("escape"));
            }
            ('\\', Some(other)) => out.push(other),
            (other, _) => out.push(other),
        }
    }
    out
}

fn write(log: &Log, entry: Entry) {
    log.record(entry).expect("recorded");
}

fn check_text(text: &str) {
    let shown = escape(text, usize::MAX);
    assert!(!shown.chars().any(is_unsafe), "{shown:?}");
    assert_eq!(unescape(&shown), text);
    let json = String::from_utf8(text::json(text).expect("json")).expect("utf-8");
    assert!(!json.chars().any(is_unsafe), "{json:?}");
    assert_eq!(serde_json::from_str::<String>(&json).expect("json"), text);
}

fn check_log(text: &str) {
    let log = log_of(options(), |log| write(log, call(text))).text();
    let body = log.strip_suffix('\n').expect("ends in a newline");
    let lines: Vec<&str> = body.split('\n').collect();
    assert_eq!(lines.len(), 3);
    assert!(!lines.iter().any(|line| line.chars().any(is_unsafe)));
    let record = Record::parse(lines[1].as_bytes()).expect("record");
    assert_eq!(record.detail["arguments"]["city"], *text);
    let view = render(&record);
    assert!(!view.chars().any(is_unsafe), "{view:?}");
    let exported = String::from_utf8(text::json(&to_ocsf(&record, "h")).expect("json")).expect("utf-8");
    assert!(!exported.chars().any(is_unsafe), "{exported:?}");
}

#[test]
fn nasty_text_is_kept_whole_and_harmless() {
    for text in NASTY {
        check_text(text);
        check_log(text);
    }
}

proptest! {
    #[test]
    fn any_text_is_kept_whole_and_harmless(text in any::<String>(), nasty in 0..NASTY.len(), at in any::<prop::sample::Index>()) {
        let chars: Vec<char> = text.chars().collect();
        let (before, behind) = chars.split_at(if chars.is_empty() { 0 } else { at.index(chars.len()) });
        let mixed: String = before.iter().copied().chain(NASTY[nasty].chars()).chain(behind.iter().copied()).collect();
        check_text(&mixed);
        check_log(&mixed);
    }

    #[test]
    fn any_cut_is_bounded_and_harmless(text in any::<String>(), max in 0_usize..40) {
        let shown = escape(&text, max);
        prop_assert!(shown.len() <= max + 40);
        prop_assert!(!shown.chars().any(is_unsafe));
    }

    #[test]
    fn no_line_breaks_the_verifier(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let report = ringfence_audit::verify(bytes.as_slice(), Some(key().public())).expect("read");
        prop_assert_eq!(report.records, 0);
    }
}

#[test]
fn long_text_is_cut_and_large_details_are_replaced() {
    let long = "é".repeat(STRING_MAX);
    let log = log_of(options(), |log| write(log, call(&long))).text();
    let record = Record::parse(log.lines().nth(1).expect("second").as_bytes()).expect("record");
    let head = "é".repeat(STRING_MAX / 2);
    let want = format!("{head}…[cut: {} bytes in all, sha256 {}]", long.len(), sha256_hex(long.as_bytes()));
    assert_eq!(record.detail["arguments"]["city"], want);

    let many: Vec<String> = (0..100).map(|_| "x".repeat(STRING_MAX)).collect();
    let mut entry = call("");
    if let ringfence_audit::Event::CallPermitted(permitted) = &mut entry.event {
        permitted.arguments = serde_json::json!(many);
    }
    let log = log_of(options(), |log| write(log, entry)).text();
    let record = Record::parse(log.lines().nth(1).expect("second").as_bytes()).expect("record");
    assert_eq!(record.detail["$cut"]["bytes"], 1_638_749);
}

#[test]
fn nesting_is_bounded() {
    let mut deep = serde_json::json!("bottom");
    for _ in 0..100 {
        deep = serde_json::json!([deep]);
    }
    let mut entry = call("");
    if let ringfence_audit::Event::CallPermitted(permitted) = &mut entry.event {
        permitted.arguments = deep;
    }
    let log = log_of(options(), |log| write(log, entry)).text();
    let line = log.lines().nth(1).expect("second");
    assert!(Record::parse(line.as_bytes()).is_some());
    assert_eq!(line.matches("[too deep]").count(), 1);
}

#[test]
fn secrets_stay_out_in_every_usual_disguise() {
    let secret = "CANARY-SECRET/77aa \"é";
    let secrets = SecretScrubber::new([secret, "123456789"]).expect("prepared");
    assert_eq!(format!("{secrets:?}"), "SecretScrubber(2 secrets)");
    let options = LogOptions { secrets, ..options() };
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let check = |text: &str, want: &str| {
        let log = log_of(options.clone(), |log| write(log, call(text))).text();
        let record = Record::parse(log.lines().nth(1).expect("second").as_bytes()).expect("record");
        assert_eq!(record.detail["arguments"]["city"], want, "{text}");
        assert!(!render(&record).contains("CANARY"));
    };
    check(&format!("my key: {secret}!"), "my key: [secret]!");
    check(&format!("{secret}{secret}"), "[secret][secret]");
    check(&hex, "[secret]");
    check(&hex.to_uppercase(), "[secret]");
    check(&secret.chars().rev().collect::<String>(), "[secret]");
    check("CANARY-SECRET%2F77aa%20%22%C3%A9", "[secret]");
    check(&serde_json::to_string(secret).expect("json"), "\"[secret]\"");
    // In base64 the first and last characters may also carry bits of the neighbours.
    check("Q0FOQVJZLVNFQ1JFVC83N2FhICLDqQ==", "[secret]Q==");
    check("eENBTkFSWS1TRUNSRVQvNzdhYSAiw6l5", "eE[secret]l5");
    check("eHhDQU5BUlktU0VDUkVULzc3YWEgIsOp", "eHh[secret]");
    check(&"x".repeat(STRING_MAX - 5), &"x".repeat(STRING_MAX - 5));
}

#[test]
fn secrets_stay_out_of_names_numbers_and_cuts() {
    let log = log_of(options(), |log| {
        log.keep_out(["hunter2!", "123456789"]).expect("prepared");
        let mut entry = call("");
        if let ringfence_audit::Event::CallPermitted(permitted) = &mut entry.event {
            permitted.function = "hunter2!".to_owned();
            let straddling = format!("{}hunter2!{}", "x".repeat(STRING_MAX - 4), "y".repeat(50));
            permitted.arguments =
                serde_json::json!({"hunter2!": 1, "[secret]": 2, "n": 123_456_789, "cut": straddling});
        }
        log.record(entry).expect("recorded");
    });
    let text = log.text();
    assert!(!text.contains("hunter2") && !text.contains("hunt") && !text.contains("123456789"));
    let record = Record::parse(text.lines().nth(1).expect("second").as_bytes()).expect("record");
    assert_eq!(record.detail["arguments"]["[secret]"], 1);
    assert_eq!(record.detail["arguments"]["[secret]~"], 2);
    assert_eq!(record.detail["arguments"]["n"], "[secret]");
}

#[test]
fn short_secrets_are_told_apart() {
    assert!(SecretScrubber::is_too_short("abc") && !SecretScrubber::is_too_short("abcd"));
    assert_eq!(SecretScrubber::new(["abc", "", "  "]).expect("prepared").scrub("abcabc"), "abcabc");
}
