//! What is made from a declaration: the Python stub, and the text for a model.
//!
//! Answers to: the front doors. Must not: hold a second source of truth; all of it comes from [`FunctionSpec`].

use ringfence_types::FunctionSpec;

/// A `.pyi` stub of all functions.
pub fn stub(functions: &[FunctionSpec]) -> String {
    let mut text = String::from("# Functions of the host that the code may call.\nfrom typing import *\n");
    for spec in functions {
        text.push('\n');
        text.push_str(&spec.head());
        text.push_str(":\n");
        text.push_str(&docstring(&spec.doc));
        text.push_str("    ...\n");
    }
    text
}

fn docstring(doc: &str) -> String {
    let doc = doc.trim();
    if doc.is_empty() {
        return String::new();
    }
    let safe = doc.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    format!("    \"\"\"{}\"\"\"\n", safe.replace('\n', "\n    "))
}

/// One paragraph a function, for the description of a tool that runs code.
pub fn describe(functions: &[FunctionSpec]) -> String {
    let line = |spec: &FunctionSpec| {
        let doc = spec.doc.trim().lines().next().unwrap_or_default();
        let wait = if spec.is_async { " (await it)" } else { "" };
        format!("- `{}`{wait}: {doc}", spec.head())
    };
    functions.iter().map(line).collect::<Vec<_>>().join("\n")
}
