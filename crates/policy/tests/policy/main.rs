//! Tests of the policy crate through its public API: each line of a table is a case with its exact text.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that can't go on should fail")]

mod binding;
mod checking;
mod guards;
mod parsing;
mod properties;

use ringfence_policy::{Ask, Grant, Policy};
use ringfence_types::{FunctionSpec, Parameter, ParameterKind, SessionId, Tenant};

/// A parameter; `name=` has a default, `*name` and `**name` are variadic.
fn parameter(text: &str, kind: ParameterKind, schema: Option<serde_json::Value>) -> Parameter {
    let default = text.ends_with('=').then(|| ringfence_types::Default { source: "...".to_owned() });
    let kind = match (text.starts_with("**"), text.starts_with('*')) {
        (true, _) => ParameterKind::VarKeyword,
        (_, true) => ParameterKind::VarPositional,
        _ => kind,
    };
    Parameter { name: text.trim_matches(['*', '=']).to_owned(), kind, annotation: None, schema, default }
}

/// `f(a, /, b, c=, *args, d, **kwargs)` as a declaration without schemas.
fn declared(head: &str) -> FunctionSpec {
    let (name, rest) = head.split_once('(').unwrap();
    let parts: Vec<&str> =
        rest.trim_end_matches(')').split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let slash = parts.iter().position(|part| *part == "/");
    let mut parameters = Vec::new();
    let mut keyword_only = false;
    for (index, part) in parts.iter().enumerate() {
        match *part {
            "/" => {}
            "*" => keyword_only = true,
            part => {
                let kind = match slash {
                    Some(slash) if index < slash => ParameterKind::PositionalOnly,
                    _ if keyword_only => ParameterKind::KeywordOnly,
                    _ => ParameterKind::PositionalOrKeyword,
                };
                keyword_only |= part.starts_with('*');
                parameters.push(parameter(part, kind, None));
            }
        }
    }
    FunctionSpec { parameters, ..FunctionSpec::new(name) }
}

fn ask(functions: Vec<FunctionSpec>) -> Ask {
    Ask { tenant: Tenant::local(), session: SessionId::from_random([7; 16]), functions }
}

fn granted(policy: &str, functions: Vec<FunctionSpec>) -> Grant {
    Policy::parse(&format!("version = 1\n{policy}"), "p").unwrap().decide(&ask(functions)).unwrap()
}
