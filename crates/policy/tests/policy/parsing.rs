//! What policy files are read as, and every fault with its exact text.

use ringfence_policy::{LimitOverrides, Monitor, MountMode, Policy, Thresholds};
use ringfence_types::{ByteSize, Environment, Span, Strength, TierName};

use super::{ask, declared};

/// The example of the documents.
const EXAMPLE: &str = include_str!("example.toml");

/// Cases of `faults.txt`: `<<<` and the file, `>>>` and every line of its faults.
#[test]
fn every_fault_is_told_with_its_line_and_the_nearest_right_thing() {
    let cases: Vec<&str> = include_str!("faults.txt").split("<<<").skip(1).collect();
    assert_eq!(cases.len(), 31);
    for case in cases {
        let (text, want) = case.split_once("\n>>>\n").unwrap();
        check(text, want.trim_end());
    }
}

#[test]
fn too_long_and_too_deep_texts_are_refused_before_they_are_parsed() {
    check(&"#".repeat((1 << 20) + 1), "p.toml:1: a policy is at most 1 MiB long");
    check(&format!("x = {}", "[".repeat(65)), "p.toml:1: brackets are nested more than 64 levels");
    check(&format!("version = 1\nname = '{}' # {}", "[".repeat(60), "{".repeat(99)), "");
    check(&format!("x.{}y = 1", "a.".repeat(70)), "p.toml:1: keys are nested more than 64 levels");
    let inner = format!("{{ {}k = ", "a.".repeat(75)).repeat(60);
    check(&format!("x = {inner}1{}", " }".repeat(60)), "p.toml:1: keys are nested more than 64 levels");
}

fn check(text: &str, want: &str) {
    let found = Policy::parse(text, "p.toml").map(|_| ()).map_err(|errors| errors.to_string());
    assert_eq!(found.err().unwrap_or_default(), want, "\n--- {text}");
}

#[test]
fn the_example_is_read_whole() {
    let policy = Policy::parse(EXAMPLE, "example.toml").unwrap();
    assert_eq!(policy.name(), "csv-analyst");
    assert_eq!(policy.limits().memory, ByteSize::from_mib(256));
    assert_eq!(policy.audit_log(), Some("audit.jsonl"));
    let grant = policy.decide(&ask(vec![declared("get_weather(city)"), declared("drop_table(name)")])).unwrap();
    assert_eq!(grant.functions().iter().map(|spec| &*spec.name).collect::<Vec<_>>(), ["get_weather"]);
    assert_eq!(grant.withheld(), ["drop_table"]);
    assert_eq!(grant.rate("get_weather").map(|rate| rate.to_string()).as_deref(), Some("10/min"));
    assert_eq!(grant.max_calls("get_weather"), Some(50));
    assert_eq!(grant.call_limit("get_weather"), Span::from_secs(5));
    assert_eq!(grant.call_limit("send_email"), Span::from_secs(30));
    assert_eq!(grant.mounts()[0].mode, MountMode::Ro);
    assert!(grant.redact("login", "password") && !grant.redact("login", "user"));
    let needs = grant.needs();
    assert!(needs.network && needs.secrets && needs.mounts_ro && !needs.mounts_rw && needs.packages && needs.workspace);
}

#[test]
fn what_is_shown_reads_back_as_the_same_policy() {
    let any_method = "version = 1\n[network]\nallow = [{ host = \"a.test\", methods = [\"*\"] }]";
    let condition = "version = 1\n[functions.f]\napprove = { when = \"args.x > 1\" }";
    let watched = "version = 1\n[filesystem]\nmounts = [{ host = 'd', at = '/d', mode = 'cow' }]\n[monitor]\nevery = '100ms'\n\
                   [monitor.warn]\nmemory = '48MiB'\ncpu = 90\n[monitor.kill]\nprocesses = 12\nio = '1GiB'";
    for text in [EXAMPLE, "version = 1", condition, any_method, watched] {
        let policy = Policy::parse(text, "p").unwrap();
        let again = Policy::parse(&policy.show(), "shown").unwrap();
        assert_eq!(again, policy);
        assert_eq!(again.hash(), policy.hash());
        assert_eq!(again.show(), policy.show());
    }
    assert_eq!(Policy::parse(&Policy::closed().show(), "shown").unwrap(), Policy::closed());
}

#[test]
fn what_is_watched_for_is_read() {
    let text =
        "version = 1\n[filesystem]\nmounts = [{ host = 'd', at = '/d', mode = 'cow' }]\n[monitor.kill]\nio = '1GiB'";
    let grant = Policy::parse(text, "p").unwrap().decide(&ask(Vec::new())).unwrap();
    let kill = Thresholds { io: Some(ByteSize::from_mib(1024)), ..Thresholds::default() };
    assert_eq!(*grant.monitor(), Monitor { kill, ..Monitor::default() });
    let needs = grant.needs();
    assert!(needs.mounts_cow && needs.monitor_io && !needs.mounts_ro && !needs.mounts_rw);
    let grant = Policy::parse("version = 1", "p").unwrap().decide(&ask(Vec::new())).unwrap();
    assert_eq!(*grant.monitor(), Monitor::default());
    assert!(!grant.needs().mounts_cow && !grant.needs().monitor_io);
}

#[test]
fn the_hash_follows_what_the_policy_says() {
    let hash = |text: &str| Policy::parse(text, "p").unwrap().hash();
    assert_eq!(hash("version = 1"), hash("version=1 # the same\n[limits]\nwall = '5000ms'"));
    assert_ne!(hash("version = 1"), hash("version = 1\n[limits]\nwall = '6s'"));
    assert_ne!(Policy::closed().hash(), Policy::closed().allowing_declared_functions().hash());
}

#[test]
fn a_locked_environment_is_part_of_what_the_policy_says_once_it_is_found() {
    let policy = Policy::parse("version = 1\n[python]\nenv = 'data'", "p").unwrap();
    let name = policy.environment().unwrap().clone();
    let found =
        |digest: &str| Environment { name: name.clone(), digest: digest.to_owned(), venv: "/e/venv".to_owned() };
    let grant = policy.decide(&ask(Vec::new())).unwrap();
    assert!(grant.needs().venv && grant.environment().is_none() && grant.venv().is_none());
    let (one, other) = (policy.clone().with_environment(found("1")), policy.clone().with_environment(found("2")));
    assert_eq!(one.decide(&ask(Vec::new())).unwrap().venv(), Some("/e/venv"));
    assert_ne!(one.hash(), policy.hash());
    assert_ne!(one.hash(), other.hash());
    let stranger = Environment { name: "other".parse().unwrap(), ..found("1") };
    assert_eq!(policy.clone().with_environment(stranger).hash(), policy.hash(), "it is not the one that is named");
}

#[test]
fn closed_is_closed() {
    let grant = Policy::closed().decide(&ask(vec![declared("f()")])).unwrap();
    assert_eq!(grant.needs(), ringfence_policy::Needs::default());
    assert_eq!(grant.withheld(), ["f"]);
    assert_eq!(grant.floor(), Strength::Process);
    assert_eq!(grant.limits().memory, ByteSize::from_mib(64));
    let open = Policy::closed().allowing_declared_functions().decide(&ask(vec![declared("f()")])).unwrap();
    assert_eq!(open.functions().len(), 1);
    assert_eq!(open.call_limit("f"), Span::from_secs(60));
}

#[test]
fn overrides_replace_and_are_checked() {
    let given = LimitOverrides { wall: Some(Span::from_secs(1)), ..LimitOverrides::default() };
    let policy = Policy::closed().with_limits(given).unwrap();
    assert_eq!((policy.limits().wall, policy.limits().cpu), (Span::from_secs(1), Span::from_secs(5)));
    assert_ne!(policy.hash(), Policy::closed().hash());
    let zero = LimitOverrides { cpu: Some(Span::from_millis(0)), ..LimitOverrides::default() };
    let fault = |result: Result<Policy, ringfence_policy::PolicyErrors>| result.err().unwrap().to_string();
    assert_eq!(
        fault(Policy::closed().with_limits(zero)),
        "closed: `limits.cpu` is zero, so nothing could run; the usual is `5s`"
    );
    assert_eq!(
        fault(Policy::closed().with_tier(TierName::Remote)),
        "closed: the policy does not allow tier `remote`; add it to `isolation.tiers`"
    );
    let embedded = Policy::closed().with_tier(TierName::Embedded).unwrap();
    assert_eq!(
        fault(embedded.with_floor(Strength::Hardware)),
        "closed: no allowed tier reaches the floor `hardware`: the best of them reaches `process`; lower `isolation.floor` or allow one of `microvm`, `remote`, `cluster`"
    );
}

#[test]
fn the_schema_describes_the_file() {
    let schema = Policy::schema();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["version"]));
    assert!(schema["properties"].get("anomaly").is_some());
    assert!(!schema.to_string().contains("bare"));
}
