//! Output that can't be written is never lost in silence, whatever command writes it.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::home::Home;

const FULL: &str = "ringfence: standard output can't be written: no space left on device; what follows is lost\n";

/// Runs a command whose standard output is a full disk.
#[track_caller]
fn check(home: &Home, arguments: &[&str], want: (i32, &str)) {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("every Linux has it");
    let output = home.command(arguments).stdin(Stdio::null()).stdout(full).output().expect("it starts");
    let found = (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!(found, (Some(want.0), want.1.to_owned()), "ringfence {}", arguments.join(" "));
}

#[test]
fn a_full_disk_is_told() {
    let home = Home::new().with("six.py", "6*7\n");
    home.check(&["run", "--audit", "log.jsonl", "-c", "1"], (0, "1\n", ""));
    let all: [&[&str]; 17] = [
        &["run", "-c", "print(1)"],
        &["run", "-c", "print('x' * 200_000)", "--output", "1MiB"],
        &["run", "-c", "1"],
        &["run", "--json", "-c", "1"],
        &["explain", "six.py"],
        &["explain", "--json", "six.py"],
        &["policy", "show"],
        &["policy", "schema"],
        &["audit", "show", "log.jsonl"],
        &["audit", "verify", "log.jsonl"],
        &["audit", "export", "log.jsonl"],
        &["holds"],
        &["doctor"],
        &["completions", "bash"],
        &["man"],
        &["--version"],
        &["run", "--help"],
    ];
    all.iter().for_each(|arguments| check(&home, arguments, (8, FULL)));
}

#[test]
fn what_needs_no_output_is_no_fault() {
    let home = Home::new();
    check(&home, &["run", "-c", "x = 1"], (0, ""));
    check(&home, &["run", "missing.py"], (2, "ringfence: `missing.py` can't be read: no such file or directory\n"));
}
