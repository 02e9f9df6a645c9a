//! `ringfence top` and the samples of running cells.

use std::io::{BufRead, BufReader};

use serde_json::{Value as Json, json};

use crate::home::Home;

fn policy(tier: &str, sample: &str) -> String {
    format!(
        "version = 1\n[isolation]\ntiers = [\"{tier}\"]\n[limits]\nwall = \"60s\"\ncpu = \"60s\"\n[audit]\nlog = \
         \"audit.jsonl\"\n{sample}"
    )
}

/// A program that says that it is there, then is busy until it is ended.
const BUSY: &str = "import sys\nprint('busy')\nsys.stdout.flush()\nwhile True:\n    pass";

#[test]
fn a_busy_session_is_seen_and_can_be_ended() {
    for tier in ["embedded", "process"] {
        let home = Home::new().with("policy.toml", policy(tier, ""));
        let mut child = home.command(&["run", "--policy", "policy.toml", "-c", BUSY]).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "busy\n", "{tier}");
        let rows: Json = serde_json::from_str(&home.say(&["top", "--json"], "").stdout).expect("JSON");
        let row = &rows[0];
        assert_eq!(
            (&row["tier"], &row["tenant"], &row["calls"]),
            (&json!(tier), &json!("local"), &json!([])),
            "{rows}"
        );
        assert!(row["cpu_percent"].as_u64().is_some_and(|percent| (1..=400).contains(&percent)), "{rows}");
        assert!(row["memory"].as_u64().is_some_and(|bytes| bytes > 100_000), "{rows}");
        assert!(row["processes"].as_u64().is_some_and(|count| count >= 1), "{rows}");
        let table = home.say(&["top", "--once"], "").stdout;
        let heads: Vec<&str> = table.lines().next().expect("a head").split_whitespace().collect();
        let want = ["PID", "TIER", "AGE", "CPU%", "MEMORY", "PROCS", "IO", "NOTE", "TENANT", "SESSION", "RUN", "CALLS"];
        assert_eq!(heads, want);
        let has_io = row["io"]["read"].as_u64().is_some() && row["io"]["written"].as_u64().is_some();
        assert_eq!(has_io, tier == "process", "{rows}");
        assert_eq!((&row["frozen"], &row["crossed"]), (&json!(false), &json!([])), "{rows}");
        home.check(&["freeze", "--all"], (0, "1 session frozen\n", ""));
        home.check(&["freeze", "--all"], (0, "0 sessions frozen\n", ""));
        let table = home.say(&["top", "--once"], "").stdout;
        assert!(table.lines().nth(1).is_some_and(|row| row.contains(" 0 ") && row.contains(" frozen ")), "{table}");
        home.check(&["thaw", "--all", "--reason", "seen"], (0, "1 session thawed\n", ""));
        home.check(&["freeze", "--all"], (0, "1 session frozen\n", ""));
        assert_eq!(table.lines().count(), 2, "{table}");
        home.check(&["kill", "--all"], (0, "1 session ended\n", ""));
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{tier}");
        home.check(&["top", "--json"], (0, "[]\n", ""));
    }
}

#[test]
fn without_a_terminal_the_table_has_to_be_asked_for() {
    let no = "ringfence: standard output is no terminal\nhint: `ringfence top --once` prints one table, `--json` the same \
              as JSON\n";
    Home::new().check(&["top"], (2, "", no));
}

/// Runs for as long as the policy's interval says, and tells its samples.
fn samples(tier: &str, sample: &str, code: &str) -> Vec<Json> {
    let home = Home::new().with("policy.toml", policy(tier, sample));
    home.check(&["run", "--quiet", "--policy", "policy.toml", "-c", code], (0, "", ""));
    let shown = home.say(&["audit", "show", "audit.jsonl", "--json", "--event", "sampled"], "").stdout;
    home.say(&["audit", "verify", "audit.jsonl"], "");
    shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_run_that_lasts_is_sampled() {
    let lasts = "import time\nend = time.time() + 0.5\nwhile time.time() < end:\n    pass";
    for tier in ["embedded", "process"] {
        let taken = samples(tier, "sample = \"100ms\"\n", lasts);
        assert!((1..=5).contains(&taken.len()), "{tier}: {}", taken.len());
        for record in &taken {
            let detail = &record["detail"];
            assert!(detail["memory"].as_u64().is_some_and(|bytes| bytes > 100_000), "{tier}: {record}");
            assert!(detail["processes"].as_u64().is_some_and(|count| count >= 1), "{tier}: {record}");
            assert!(detail["cpu_percent"].is_u64() && record["run"].is_string(), "{tier}: {record}");
        }
        assert_eq!(samples(tier, "sample = \"0s\"\n", lasts).len(), 0, "{tier}: never");
        assert_eq!(samples(tier, "sample = \"1min\"\n", lasts).len(), 0, "{tier}: over before its first look");
    }
}
