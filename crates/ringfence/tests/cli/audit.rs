//! `ringfence audit`.

use crate::home::Home;

/// The log of one run, by its default place.
fn after_a_run() -> (Home, std::path::PathBuf) {
    let home = Home::new();
    home.check(&["run", "-c", "1"], (0, "1\n", ""));
    let log = home.path().join("state/ringfence/audit.jsonl");
    (home, log)
}

#[test]
fn a_log_is_whole_until_someone_changes_it() {
    let (home, log) = after_a_run();
    let said = home.say(&["audit", "verify"], "");
    assert_eq!((said.exit, said.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        said.stdout.split_once(": ").map(|(path, rest)| (path, rest.starts_with("intact: "))),
        Some(("HOME/state/ringfence/audit.jsonl", true))
    );
    let text = std::fs::read_to_string(&log).expect("the log").replace("\"tenant\":\"local\"", "\"tenant\":\"loca1\"");
    std::fs::write(&log, text).expect("the log");
    assert_eq!(home.say(&["audit", "verify"], "").exit, Some(7));
}

/// Without its head, a log that was cut back to an earlier end looks like a log that ends there.
#[test]
fn a_cut_log_without_its_anchor_does_not_look_whole() {
    let (home, log) = after_a_run();
    let beside = |suffix: &str| log.with_extension(format!("jsonl{suffix}"));
    std::fs::copy(beside(".pub"), home.work("kept.pub")).expect("the key");
    home.check(&["run", "-c", "2"], (0, "2\n", ""));
    let text = std::fs::read_to_string(&log).expect("the log");
    let second = text.lines().skip(1).position(|line| line.contains("\"log_opened\"")).expect("two runs") + 1;
    let first_run: Vec<&str> = text.split_inclusive('\n').take(second).collect();
    std::fs::write(&log, first_run.concat()).expect("the log");
    let path = "HOME/state/ringfence/audit.jsonl";
    let verify = |options: &[&str]| home.say(&[&["audit", "verify"], options].concat(), "");
    assert_eq!(verify(&[]).exit, Some(7), "the head tells");
    for suffix in [".pub", ".head"] {
        std::fs::remove_file(beside(suffix)).expect("beside the log");
    }
    let held = format!("not anchored: nothing proves that this is the whole log; {second} records hold together");
    let note = "note: put the log's `.pub` and `.head` back beside it, or take what is there by `--unanchored`\n";
    home.check(
        &["audit", "verify"],
        (9, &format!("{path}: {held}; signatures not checked, no public key given\n"), note),
    );
    home.check(
        &["audit", "verify", "--unanchored"],
        (0, &format!("{path}: {held}; signatures not checked, no public key given\n"), ""),
    );
    home.check(&["audit", "verify", "--unanchored", "--key", "kept.pub"], (0, &format!("{path}: {held}\n"), ""));
    let gone = "line 0: bad head: the file of the head is missing or unreadable, so records may be cut from the end";
    home.check(
        &["audit", "verify", "--key", "kept.pub"],
        (7, &format!("{gone}\n{path}: broken: 1 faults in {second} records\n"), ""),
    );
    let json: serde_json::Value = serde_json::from_str(&verify(&["--json"]).stdout).expect("JSON");
    assert_eq!((&json["verdict"], &json["head_checked"]), (&"unanchored".into(), &false.into()));
}

#[test]
fn another_file_is_told_in_one_line() {
    let home = Home::new().with("README.md", "# Title\n\ntext\n").with("noise", [0xff; 3000]);
    for file in ["README.md", "noise"] {
        for command in ["verify", "show", "export"] {
            let want = format!("ringfence: `{file}` is not an audit log: none of its lines is a record\n");
            home.check(&["audit", command, file], (2, "", &want));
        }
    }
    let (home, log) = after_a_run();
    std::fs::write(&log, "gone\n".repeat(500)).expect("the log");
    let want = "ringfence: `HOME/state/ringfence/audit.jsonl` is not an audit log: none of its lines is a record\n";
    home.check(&["audit", "verify"], (7, "", want));
}

#[test]
fn lines_that_are_no_records_are_told_once() {
    let (home, log) = after_a_run();
    let text = std::fs::read_to_string(&log).expect("the log");
    std::fs::write(&log, format!("{}\n{}", "x\n".repeat(100), text)).expect("the log");
    let said = home.say(&["audit", "show"], "");
    let first = "lines 1 to 101 are not records; `ringfence audit verify` tells more";
    assert_eq!((said.exit, said.stdout.lines().next()), (Some(0), Some(first)));
    assert_eq!(said.stdout.lines().count(), text.lines().count() + 1);
}

#[test]
fn an_event_that_there_is_not_is_refused() {
    let (home, _) = after_a_run();
    let check = |event: &str, why: &str| {
        let hint = "hint: `ringfence --help` lists commands and options\n";
        let want = format!(
            "ringfence: invalid value '{event}' for '--event <EVENT>': there is no event `{event}`; {why}\n{hint}"
        );
        home.check(&["audit", "show", "--event", event], (2, "", &want));
    };
    check("run-closed", "did you mean `run_closed`?");
    check("call_denyed", "did you mean `call_denied`?");
    home.check(&["audit", "show", "--event", "call_denied"], (0, "", "note: no record of this log is of that kind\n"));
    home.check(&["audit", "show", "--run", "run_1"], (0, "", "note: no record of this log is of that kind\n"));
}

#[test]
fn a_log_is_a_file() {
    let home = Home::new().with("policy.toml", "version = 1\n[audit]\nlog = \"-\"\n");
    let why = "an audit log is read back and signed, so it can't be `-`";
    home.check(
        &["run", "--audit", "-", "-c", "1"],
        (2, "", &format!("ringfence: {why}\nhint: name a file; `ringfence audit show --json FILE` prints it\n")),
    );
    let want = format!("ringfence: policy.toml:3: {why}; name a file, as in `audit.jsonl`\n");
    home.check(&["run", "--policy", "policy.toml", "-c", "1"], (2, "", &want));
    assert!(!home.work("-").exists());
}

#[test]
fn records_are_shown_one_a_line() {
    let (home, log) = after_a_run();
    let lines = std::fs::read_to_string(&log).expect("the log").lines().count();
    let count = |arguments: &[&str]| home.say(arguments, "").stdout.lines().count();
    assert_eq!(count(&["audit", "show"]), lines);
    assert_eq!(count(&["audit", "show", "--tail", "2"]), 2);
    assert_eq!(count(&["audit", "show", "--event", "run_closed"]), 1);
    assert_eq!(count(&["audit", "export", "--format", "ocsf"]), lines);
}

#[test]
fn what_is_no_log_is_said() {
    let home = Home::new();
    for command in ["show", "verify", "export"] {
        home.check(
            &["audit", command, "none.jsonl"],
            (2, "", "ringfence: `none.jsonl` can't be read: no such file or directory\n"),
        );
    }
}
