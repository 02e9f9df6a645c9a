//! `--changes`: what a program changed in copy-on-write mounts, kept in a folder; and thresholds on standard error.

use serde_json::{Value as Json, json};

use crate::home::Home;

fn home() -> Home {
    let home = Home::new().with(
        "policy.toml",
        "version = 1\n[isolation]\ntiers = [\"process\"]\n[filesystem]\nmounts = [{ host = \"data\", at = \"/data\", mode = \
         \"cow\" }]\n[audit]\nlog = \"audit.jsonl\"\n",
    );
    std::fs::create_dir(home.work("data")).expect("a new folder");
    home.with("data/a", "a")
}

const CODE: &str = "open('/data/a', 'w').write('new'); open('/data/b', 'w').write('b')";

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "-q", "--policy", "policy.toml", "-c", CODE], more].concat()
}

#[test]
fn what_a_program_changed_is_kept_and_told() {
    let home = home();
    let note = "note: changed in copy-on-write mounts: 1 added, 1 changed, 0 removed; kept in `out`\n";
    home.check(&arguments(&["--changes", "out"]), (0, "", note));
    let read = |name: &str| std::fs::read_to_string(home.work(name)).expect("it is there");
    assert_eq!(
        (read("out/files/data/a"), read("out/files/data/b"), read("data/a")),
        ("new".into(), "b".into(), "a".into())
    );
    let taken = "ringfence: `out` is not empty; name a new or an empty folder for the changes\n";
    home.check(&arguments(&["--changes", "out"]), (2, "", taken));
    let note =
        "note: changed in copy-on-write mounts: 1 added, 1 changed, 0 removed; not kept; `--changes DIR` keeps it\n";
    home.check(&arguments(&[]), (0, "", note));
    let outcome: Json = serde_json::from_str(&home.say(&arguments(&["--json"]), "").stdout).expect("JSON");
    let row = |change: &Json| json!([change["kind"], change["path"], change["size"], change["folder"]]);
    let rows: Vec<Json> = outcome["changes"]["changes"].as_array().expect("a list").iter().map(row).collect();
    assert_eq!(rows, [json!(["changed", "/data/a", 3, false]), json!(["added", "/data/b", 1, false])]);
    let log = home.say(&["audit", "show", "audit.jsonl", "--json", "--event", "changes_collected"], "").stdout;
    let first: Json = serde_json::from_str(log.lines().next().expect("a record")).expect("JSON");
    let detail = &first["detail"];
    assert_eq!((&detail["added"], &detail["changed"], &detail["bytes"]), (&json!(1), &json!(1), &json!(4)), "{log}");
}

#[test]
fn a_command_changes_files_too() {
    let home = home();
    let exec = ["exec", "--policy", "policy.toml", "--changes", "out", "--", "rm", "/data/a"];
    let note = "note: changed in copy-on-write mounts: 0 added, 0 changed, 1 removed; kept in `out`\n";
    home.check(&exec, (0, "", note));
    assert!(home.work("data/a").exists());
}

#[test]
fn without_such_a_mount_there_is_nothing_to_keep() {
    let why =
        "ringfence: the policy mounts no folder copy-on-write; write `mode = \"cow\"` at one of `filesystem.mounts`\n";
    let home = Home::new();
    home.check(&["run", "--changes", "out", "-c", "1"], (5, "", why));
    assert!(!home.work("out").exists());
}
