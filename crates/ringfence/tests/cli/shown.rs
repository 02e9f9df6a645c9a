//! What is shown of tiers, policies, and the command line itself.

use crate::home::Home;

#[test]
fn explain_says_why() {
    let home = Home::new();
    let said = home.say(&["explain", "-c", "import numpy"], "");
    assert_eq!((said.exit, said.stdout.lines().next()), (Some(5), Some("TIER       FIT  WHY")));
    let said = home.say(&["explain", "--json", "-c", "1+1"], "");
    let answer: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!((said.exit, &answer["tier"]), (Some(0), &"embedded".into()));
}

#[test]
fn doctor_tries_everything() {
    let home = Home::new();
    let said = home.say(&["doctor", "--json"], "");
    let findings: Vec<serde_json::Value> = serde_json::from_str(&said.stdout).expect("JSON");
    let found: Vec<&str> = findings.iter().filter_map(|finding| finding["what"].as_str()).collect();
    assert_eq!(said.exit, Some(0));
    let want =
        ["tier embedded", "tier process", "audit log", "control socket", "kill switches", "python for --exports"];
    assert_eq!(found, want);
    let tiers = findings.iter().filter(|finding| finding["what"].as_str().is_some_and(|what| what.starts_with("tier")));
    assert!(tiers.clone().all(|finding| finding["state"] == "ready" || finding["state"] == "degraded"), "{findings:?}");
}

#[test]
fn a_shown_policy_reads_back() {
    let home = Home::new();
    let shown = home.say(&["policy", "show"], "");
    assert_eq!(shown.exit, Some(0));
    let home = home.with("shown.toml", shown.stdout.clone());
    home.check(&["policy", "check", "shown.toml"], (0, "shown.toml: policy `closed` is good\n", ""));
    assert_eq!(home.say(&["policy", "show", "shown.toml"], "").stdout, shown.stdout);
}

#[test]
fn every_command_has_help_a_completion_and_a_page() {
    let home = Home::new();
    let man = home.say(&["man"], "").stdout;
    let script = home.say(&["completions", "bash"], "").stdout;
    for command in ["run", "repl", "explain", "doctor", "ps", "kill", "resume", "holds", "policy", "audit"] {
        assert_eq!(home.say(&[command, "--help"], "").exit, Some(0), "{command}");
        assert!(man.contains(&format!(".SH RINGFENCE {}\n", command.to_uppercase())), "{command} has no page");
        assert!(script.contains(&format!("ringfence__subcmd__{command}")), "{command} has no completion");
    }
    home.check(&["--version"], (0, concat!("ringfence ", env!("CARGO_PKG_VERSION"), "\n"), ""));
}
