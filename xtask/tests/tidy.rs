//! What the compiler does not check: sizes, headers, where `unsafe` may stand, and words that documents must not hold.
//!
//! Answers to: CONTRIBUTING.md. Must not: list a file that breaks a rule; the file is mended.

use std::fs;
use std::path::{Path, PathBuf};

const LONGEST_FILE: usize = 800;

/// Words that give away a machine or a registry: where they must not stand.
const WORDS: [(&str, &[&str]); 8] = [
    ("/work/", &["md", "rs", "py", "toml", "sh", "yml"]),
    ("/root/", &["md"]),
    ("/home/", &["md"]),
    ("index.crates.io", &["md", "rs", "py", "toml", "sh", "yml"]),
    ("static.crates.io", &["md", "rs", "py", "toml", "sh", "yml"]),
    ("pypi.org", &["md", "rs", "py", "toml", "sh", "yml"]),
    ("pythonhosted.org", &["md", "rs", "py", "toml", "sh", "yml"]),
    ("registry.npmjs.org", &["md", "rs", "py", "toml", "sh", "yml"]),
];

struct File {
    /// Below the tree, with `/`.
    name: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the tree")
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder is readable").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_other = name.starts_with('.') || ["target", "__pycache__", "node_modules"].contains(&name.as_ref());
        if path.is_dir() && !is_other {
            collect(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// The texts of the tree with one of these endings, without test data and this file, which holds the words.
fn files(endings: &[&str]) -> Vec<File> {
    let mut found = Vec::new();
    collect(root(), &mut found);
    let name_of = |path: &Path| path.strip_prefix(root()).expect("below the tree").to_string_lossy().into_owned();
    let is_wanted = |path: &PathBuf| {
        let name = name_of(path);
        let is_data = name.starts_with("tests/cases/") || name.starts_with("fuzz/seeds/");
        let has_ending = path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted));
        has_ending && !is_data && name != "xtask/tests/tidy.rs"
    };
    let wanted = found.into_iter().filter(is_wanted);
    let files: Vec<File> =
        wanted.filter_map(|path| Some(File { name: name_of(&path), text: fs::read_to_string(&path).ok()? })).collect();
    assert!(!files.is_empty() || !endings.contains(&"rs"), "no files were found");
    files
}

fn check(rule: &str, broken: Vec<String>) {
    assert_eq!(broken, Vec::<String>::new(), "{rule}");
}

#[test]
fn files_are_short() {
    let lines = |file: &File| file.text.lines().count();
    let long = files(&["rs", "py"]).into_iter().filter(|file| lines(file) > LONGEST_FILE);
    check("at most 800 lines", long.map(|file| format!("{}: {} lines", file.name, lines(&file))).collect());
}

#[test]
fn unsafe_stands_in_sys_only_and_gives_its_reasons() {
    let is_code = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        let is_lint = ["unsafe_code", "unsafe_op"].iter().any(|lint| code.contains(lint));
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe") && !is_lint
    };
    let broken =
        files(&["rs"]).into_iter().filter(|file| !file.name.starts_with("vendor/") && file.text.lines().any(is_code));
    let broken = broken.filter_map(|file| {
        if !file.name.ends_with("/sys.rs") {
            return Some(format!("{}: `unsafe` outside `sys.rs`", file.name));
        }
        let missing = ["// WHY UNSAFE:", "// SAFETY:"].into_iter().find(|reason| !file.text.contains(reason));
        missing.map(|reason| format!("{}: no `{reason}`", file.name))
    });
    check("`unsafe` with its two reasons, in `sys.rs`", broken.collect());
}

#[test]
fn every_file_says_what_it_answers_to() {
    let sources =
        files(&["rs"]).into_iter().filter(|file| file.name.contains("/src/") && !file.name.starts_with("vendor/"));
    let bare = sources.filter(|file| !file.text.trim_start().starts_with("//!"));
    check("a `//!` header", bare.map(|file| file.name).collect());
}

#[test]
fn library_errors_are_typed() {
    let manifests = files(&["toml"]).into_iter().filter(|file| file.name.ends_with("Cargo.toml"));
    let depends = |file: &File| file.text.lines().any(|line| line.starts_with("anyhow") || line.starts_with("eyre"));
    check("no `anyhow`", manifests.filter(depends).map(|file| file.name).collect());
}

#[test]
fn nothing_gives_away_a_machine_or_a_registry() {
    let mut broken = Vec::new();
    for (word, endings) in WORDS {
        for file in files(endings) {
            let lines = file.text.lines().enumerate().filter(|(_, line)| line.contains(word));
            broken.extend(lines.map(|(number, _)| format!("{}:{}: `{word}`", file.name, number + 1)));
        }
    }
    check("no machine paths and no registries", broken);
}

#[test]
fn every_crate_takes_its_lints_from_the_workspace() {
    let manifests = files(&["toml"]).into_iter().filter(|file| {
        let is_ours = ["crates/", "xtask/", "benches/", "tests/"].iter().any(|folder| file.name.starts_with(folder));
        is_ours && file.name.ends_with("Cargo.toml")
    });
    let without = manifests.filter(|file| !file.text.contains("[lints]\nworkspace = true"));
    check("`[lints] workspace = true`", without.map(|file| file.name).collect());
}
