//! `ringfence policy reference`: every key of a policy file, for people to read.
//!
//! Answers to: `policy`, and docs/policy.md, which is what this prints. Must not: describe a key by itself; meaning,
//! default and example come from the schema, and which tiers keep a key comes from what they declare.

use ringfence_policy::Needs;
use ringfence_session::lacks;
use ringfence_tier::Capabilities;
use ringfence_types::{ByteSize, Span};
use serde_json::{Map, Value as Json};

/// What a tier must have to keep a key, by the beginning of the key. What is not here every tier keeps, or the host
/// does for all of them.
const NEEDS: [(&str, Needs); 12] = [
    ("isolation.exec", Needs { no_exec: true, ..NOTHING }),
    ("python.packages", Needs { packages: true, ..NOTHING }),
    ("python.venv", Needs { venv: true, ..NOTHING }),
    ("filesystem.workspace", Needs { workspace: true, ..NOTHING }),
    ("filesystem.mounts", Needs { mounts_ro: true, ..NOTHING }),
    ("network", Needs { network: true, ..NOTHING }),
    ("secrets", Needs { secrets: true, ..NOTHING }),
    ("types.check", Needs { type_check: true, ..NOTHING }),
    ("types.inject", Needs { type_assertions: true, ..NOTHING }),
    ("monitor.warn.io", Needs { monitor_io: true, ..NOTHING }),
    ("monitor.kill.io", Needs { monitor_io: true, ..NOTHING }),
    ("anomaly", Needs { anomaly: true, ..NOTHING }),
];

const NOTHING: Needs = Needs {
    workspace: false,
    mounts_ro: false,
    mounts_rw: false,
    mounts_cow: false,
    no_exec: false,
    network: false,
    secrets: false,
    packages: false,
    venv: false,
    functions: false,
    type_check: false,
    type_assertions: false,
    monitor_io: false,
    anomaly: false,
};

const OPENING: &str = "\
# Policy files

A policy is a TOML file. What it does not name is refused, and an unknown key is an error that names the nearest one.
`ringfence policy check FILE` checks one, `ringfence policy show FILE` writes out every default.

\"Kept by\" names the tiers of this build that enforce a key. A tier that can't enforce what a policy asks for is not
taken; a key that no tier keeps yet makes every tier unfit, and is never ignored. Times are written as `500ms`, `5s`,
`10min` or `1h`, sizes as `512KiB`, `64MiB` or `1GiB`.

A guard (`functions.NAME.arguments`) looks at what the program gives. A condition (`when`) sees what the function is
called with: what was given, and the function's own defaults for what was left out.
";

/// The reference in Markdown.
pub fn reference(schema: &Json, tiers: &[&Capabilities]) -> String {
    let mut page = Page { schema, tiers, text: OPENING.to_owned() };
    let properties = members(schema, "properties");
    let is_section = |node: &Json| !page_fields(schema, node).is_empty();
    page.table(
        properties.iter().filter(|(_, node)| !is_section(node)).map(|(name, node)| (name.clone(), *node)),
        schema,
    );
    for (name, node) in properties.iter().filter(|(_, node)| is_section(node)) {
        let meaning = text(node, "description");
        page.text.push_str(&format!("\n## `[{name}]`\n\n{meaning}\n"));
        page.section(name, node);
    }
    page.text
}

struct Page<'a> {
    schema: &'a Json,
    tiers: &'a [&'a Capabilities],
    text: String,
}

impl Page<'_> {
    /// The keys of a section, and those of the tables in it.
    fn section(&mut self, path: &str, node: &Json) {
        let (suffix, table) = inside(self.schema, node);
        let path = format!("{path}{suffix}");
        let fields: Vec<(String, &Json)> =
            members(table, "properties").into_iter().map(|(name, node)| (format!("{path}.{name}"), node)).collect();
        self.table(fields.iter().map(|(name, node)| (name.clone(), *node)), table);
        for (name, node) in &fields {
            if !page_fields(self.schema, node).is_empty() {
                self.text.push_str(&format!("\n{}\n", text(inside(self.schema, node).1, "description")));
                self.section(name, node);
            }
        }
    }

    fn table<'n>(&mut self, rows: impl Iterator<Item = (String, &'n Json)>, table: &Json) {
        self.text.push_str(
            "\n| key | meaning | type | default | kept by | example |\n| --- | --- | --- | --- | --- | --- |\n",
        );
        let required: Vec<&str> =
            table.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
        for (path, node) in rows {
            let meaning = text(node, "description").replace('\n', " ");
            let (meaning, default) = match meaning.split_once(" Default: ") {
                Some((meaning, default)) => (meaning.to_owned(), default.trim_end_matches('.').to_owned()),
                None => (meaning, String::new()),
            };
            let name = path.rsplit('.').next().unwrap_or_default();
            let default = if required.contains(&name) { "must be given".to_owned() } else { default };
            let row =
                [format!("`{path}`"), meaning, kind(self.schema, node), default, self.kept_by(&path), example(node)];
            self.text.push_str(&format!("| {} |\n", row.map(|cell| cell.replace('|', "\\|")).join(" | ")));
        }
    }

    fn kept_by(&self, path: &str) -> String {
        let needs = NEEDS.iter().find(|(key, _)| path.starts_with(key)).map_or(NOTHING, |(_, needs)| *needs);
        let keeps: Vec<&str> =
            self.tiers.iter().filter(|can| lacks(can, needs).is_none()).map(|can| can.tier.as_str()).collect();
        match keeps.len() {
            0 => "none yet".to_owned(),
            count if count == self.tiers.len() => "all".to_owned(),
            _ => keeps.join(", "),
        }
    }
}

/// The table that a node holds, one or many, and how that is written in a path.
fn inside<'s>(schema: &'s Json, node: &'s Json) -> (&'static str, &'s Json) {
    match (node.get("items"), node.get("additionalProperties").filter(|inner| inner.is_object())) {
        (Some(items), _) => ("[]", resolved(schema, items)),
        (None, Some(inner)) => (".NAME", resolved(schema, inner)),
        (None, None) => ("", resolved(schema, node)),
    }
}

fn page_fields<'s>(schema: &'s Json, node: &'s Json) -> Vec<(String, &'s Json)> {
    members(inside(schema, node).1, "properties")
}

fn resolved<'s>(schema: &'s Json, node: &'s Json) -> &'s Json {
    let name = node.get("$ref").and_then(Json::as_str).and_then(|reference| reference.strip_prefix("#/$defs/"));
    name.and_then(|name| schema.get("$defs")?.get(name)).unwrap_or(node)
}

fn members<'s>(node: &'s Json, key: &str) -> Vec<(String, &'s Json)> {
    let map: Option<&Map<String, Json>> = node.get(key).and_then(Json::as_object);
    map.into_iter().flatten().map(|(name, node)| (name.clone(), node)).collect()
}

fn text<'s>(node: &'s Json, key: &str) -> &'s str {
    node.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// The type in words, and the unit where a text has one.
fn kind(schema: &Json, node: &Json) -> String {
    let one = |name: &str| match name {
        "string" => unit(node).to_owned(),
        "integer" => "whole number".to_owned(),
        "boolean" => "`true` or `false`".to_owned(),
        _ => "table".to_owned(),
    };
    if let Some(words) = node.get("enum").and_then(Json::as_array) {
        return words
            .iter()
            .map(|word| format!("`{}`", word.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(", ");
    }
    if let Some(kinds) = node.get("anyOf").and_then(Json::as_array) {
        return kinds.iter().map(|inner| kind(schema, inner)).collect::<Vec<_>>().join(", or ");
    }
    match (text(node, "type"), node.get("items")) {
        ("array", Some(items)) => format!("list of: {}", kind(schema, resolved(schema, items))),
        ("object", _) | ("", _) => "table".to_owned(),
        (name, _) => one(name),
    }
}

fn unit(node: &Json) -> &'static str {
    let first = node.get("examples").and_then(|examples| examples.get(0)).and_then(Json::as_str).unwrap_or_default();
    if first.parse::<Span>().is_ok() {
        "time"
    } else if first.parse::<ByteSize>().is_ok() {
        "size"
    } else {
        "text"
    }
}

/// The example as it is written in TOML.
fn example(node: &Json) -> String {
    match node.get("examples").and_then(|examples| examples.get(0)) {
        Some(example) => format!("`{example}`"),
        None => String::new(),
    }
}
