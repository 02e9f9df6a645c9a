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
