//! The layers: every manifest is read, and an edge that points upward, or a crate that no layer knows, fails.
//!
//! Answers to: ARCHITECTURE.md, whose table this is. Must not: know a crate in two places; a new crate gets a row here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a crate stands.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// It may see lower layers only, and what [`SIDEWAYS`] lists.
    Layer(u8),
    /// One isolation each, of layer 3: it sees `tier`, `worker`, `types`, `wire`, and `policy` for the grant.
    Tier,
    /// What runs inside the boundary: `types` and `wire` only.
    Guest,
    /// For tests and measurements: it may see all; nothing that is shipped may see it.
    Trial,
    /// Drives programs, and sees no crate of Ringfence.
    Outside,
}

const PLACES: [(&str, Place); 30] = [
    ("ringfence-types", Place::Layer(0)),
    ("ringfence-policy", Place::Layer(1)),
    ("ringfence-audit", Place::Layer(1)),
    ("ringfence-wire", Place::Layer(1)),
    ("ringfence-analysis", Place::Layer(1)),
    ("ringfence-typecheck", Place::Layer(1)),
    ("ringfence-bridge", Place::Layer(2)),
    ("ringfence-tier", Place::Layer(2)),
    ("ringfence-worker", Place::Layer(2)),
    ("ringfence-egress", Place::Layer(2)),
    ("ringfence-session", Place::Layer(3)),
    ("ringfence-architect", Place::Layer(3)),
    ("ringfence-tier-embedded", Place::Tier),
    ("ringfence-tier-wasm", Place::Tier),
    ("ringfence-tier-process", Place::Tier),
    ("ringfence-tier-container", Place::Tier),
    ("ringfence-tier-microvm", Place::Tier),
    ("ringfence-tier-remote", Place::Tier),
    ("ringfence-tier-cluster", Place::Tier),
    ("ringfence-api", Place::Layer(4)),
    ("ringfence-cli", Place::Layer(4)),
    ("ringfence-http", Place::Layer(4)),
    ("ringfence-mcp", Place::Layer(4)),
    ("ringfence", Place::Layer(5)),
    ("ringfence-guest", Place::Guest),
    ("ringfence-testkit", Place::Trial),
    ("ringfence-conformance", Place::Trial),
    ("ringfence-fuzz", Place::Trial),
    ("ringfence-bench", Place::Trial),
    ("xtask", Place::Outside),
];

/// Edges within one layer: the front doors share the request and response types; frames are told as the seam's events.
const SIDEWAYS: [(&str, &str); 4] = [
    ("ringfence-cli", "ringfence-api"),
    ("ringfence-http", "ringfence-api"),
    ("ringfence-mcp", "ringfence-api"),
    ("ringfence-worker", "ringfence-tier"),
];

const FOR_TIERS: [&str; 5] =
    ["ringfence-tier", "ringfence-worker", "ringfence-types", "ringfence-wire", "ringfence-policy"];
const FOR_GUEST: [&str; 2] = ["ringfence-types", "ringfence-wire"];

/// One manifest: the crate, and the crates of Ringfence that it and its tests depend on.
struct Manifest {
    name: String,
    shipped: Vec<String>,
    tested: Vec<String>,
}

fn place(name: &str) -> Option<Place> {
    PLACES.into_iter().find(|(known, _)| *known == name).map(|(_, place)| place)
}

/// What is wrong with one edge.
fn fault(from: &str, to: &str) -> Option<String> {
    let (Some(above), Some(below)) = (place(from), place(to)) else {
        return Some(format!("{from} -> {to}: a crate that no layer knows"));
    };
    let is_allowed = match (above, below) {
        (Place::Trial, below) => below != Place::Outside,
        (_, Place::Trial | Place::Outside) | (Place::Outside, _) => false,
        (Place::Guest, _) => FOR_GUEST.contains(&to),
        (Place::Tier, _) => FOR_TIERS.contains(&to),
        (Place::Layer(above), Place::Layer(below)) => above > below || SIDEWAYS.contains(&(from, to)),
        // Only the composition root puts tiers and the guest in.
        (Place::Layer(above), Place::Tier | Place::Guest) => above == 5,
    };
    (!is_allowed).then(|| format!("{from} -> {to}: {above:?} may not see {below:?}"))
}

/// Tests may also see what is for tests, and a tier's or a guest's tests the layers up to their own.
fn test_fault(from: &str, to: &str) -> Option<String> {
    match (place(from), place(to)) {
        (Some(_), Some(Place::Trial)) => None,
        (Some(Place::Tier), Some(Place::Layer(below))) if below <= 3 => None,
        (Some(Place::Tier), Some(Place::Guest)) => None,
        _ => fault(from, to),
    }
}

fn faults(manifests: &[Manifest]) -> Vec<String> {
    let unknown = manifests.iter().filter(|manifest| place(&manifest.name).is_none());
    let unknown = unknown.map(|manifest| format!("{}: a crate that no layer knows", manifest.name));
    let shipped = manifests.iter().flat_map(|one| one.shipped.iter().filter_map(|to| fault(&one.name, to)));
    let tested = manifests.iter().flat_map(|one| one.tested.iter().filter_map(|to| test_fault(&one.name, to)));
    unknown.chain(shipped).chain(tested).collect()
}

fn read(manifest: &Path) -> Manifest {
    let text = fs::read_to_string(manifest).expect("a manifest is readable");
    let table: toml::Table = text.parse().expect("a manifest is TOML");
    let name = table.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    let name = name.expect("a package has a name").to_owned();
    let of = |tables: Vec<&toml::Table>, key: &str| -> Vec<String> {
        let dependencies = tables.into_iter().filter_map(|table| table.get(key)?.as_table());
        let names = dependencies.flatten().map(|(name, value)| match value.get("package") {
            Some(renamed) => renamed.as_str().unwrap_or(name).to_owned(),
            None => name.clone(),
        });
        names.filter(|name| name.starts_with("ringfence") || name == "xtask").collect()
    };
    let targets = table.get("target").and_then(toml::Value::as_table).into_iter().flatten();
    let mut tables: Vec<&toml::Table> = targets.filter_map(|(_, value)| value.as_table()).collect();
    tables.push(&table);
    let mut shipped = of(tables.clone(), "dependencies");
    shipped.extend(of(tables.clone(), "build-dependencies"));
    Manifest { name, shipped, tested: of(tables, "dev-dependencies") }
}

/// Every manifest below the tree but those of vendored crates and of the fuzzer's own workspace.
fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder is readable").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_ours = !["target", "vendor", "fuzz", "python"].iter().any(|other| name == *other)
            || folder.file_name().is_some_and(|folder| folder == "tests");
        if path.is_dir() && is_ours && !name.to_string_lossy().starts_with('.') {
            manifests(&path, found);
        } else if name == "Cargo.toml" && folder.join("src").is_dir() {
            found.push(path);
        }
    }
}

#[test]
fn no_edge_points_upward() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the tree");
    let mut found = Vec::new();
    manifests(root, &mut found);
    let read: Vec<Manifest> = found.iter().map(|path| read(path)).collect();
    let names: BTreeMap<&str, usize> = read.iter().map(|one| (one.name.as_str(), one.shipped.len())).collect();
    assert!(names.contains_key("ringfence-types") && names["ringfence"] > 4, "the manifests were not found: {names:?}");
    assert_eq!(faults(&read), Vec::<String>::new());
}

#[test]
fn a_wrong_edge_is_seen() {
    let check = |from: &str, to: &str, want: &[&str]| {
        let manifest = Manifest { name: from.to_owned(), shipped: vec![to.to_owned()], tested: Vec::new() };
        assert_eq!(faults(&[manifest]), want, "{from} -> {to}");
    };
    check("ringfence-session", "ringfence-tier", &[]);
    check("ringfence-cli", "ringfence-api", &[]);
    check("ringfence", "ringfence-tier-embedded", &[]);
    check("ringfence-tier-embedded", "ringfence-policy", &[]);
    check(
        "ringfence-policy",
        "ringfence-audit",
        &["ringfence-policy -> ringfence-audit: Layer(1) may not see Layer(1)"],
    );
    check(
        "ringfence-tier",
        "ringfence-session",
        &["ringfence-tier -> ringfence-session: Layer(2) may not see Layer(3)"],
    );
    check(
        "ringfence-tier-wasm",
        "ringfence-audit",
        &["ringfence-tier-wasm -> ringfence-audit: Tier may not see Layer(1)"],
    );
    check(
        "ringfence-tier-wasm",
        "ringfence-tier-embedded",
        &["ringfence-tier-wasm -> ringfence-tier-embedded: Tier may not see Tier"],
    );
    check("ringfence-guest", "ringfence-policy", &["ringfence-guest -> ringfence-policy: Guest may not see Layer(1)"]);
    check("ringfence-cli", "ringfence-guest", &["ringfence-cli -> ringfence-guest: Layer(4) may not see Guest"]);
    check("ringfence", "ringfence-testkit", &["ringfence -> ringfence-testkit: Layer(5) may not see Trial"]);
    check("ringfence", "ringfence-extra", &["ringfence -> ringfence-extra: a crate that no layer knows"]);
    check("xtask", "ringfence-types", &["xtask -> ringfence-types: Outside may not see Layer(0)"]);
}

#[test]
fn a_test_may_see_what_is_for_tests() {
    let check = |from: &str, to: &str, want: &[&str]| {
        let manifest = Manifest { name: from.to_owned(), shipped: Vec::new(), tested: vec![to.to_owned()] };
        assert_eq!(faults(&[manifest]), want, "{from} -> {to}");
    };
    check("ringfence-session", "ringfence-testkit", &[]);
    check("ringfence-tier-embedded", "ringfence-session", &[]);
    check("ringfence-types", "ringfence-audit", &["ringfence-types -> ringfence-audit: Layer(0) may not see Layer(1)"]);
}
