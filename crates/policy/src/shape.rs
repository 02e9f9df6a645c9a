//! Compares a TOML tree with the schema of policy files: unknown keys, missing keys, wrong types.
//!
//! Answers to: `resolve`. Must not: know any key itself; the schema is made from `file`.
//! What is wrong is reported and taken out, so that the rest can be read and checked too.

use std::ops::Range;

use serde_json::{Map, Value as Json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::denial::shown;
use crate::error::{PolicyError, PolicyErrorKind};

/// Takes out of `table` whatever does not fit the schema, and tells all of it.
pub(crate) fn prune(table: &mut Spanned<DeTable<'_>>, schema: &Json) -> Vec<PolicyError> {
    let mut walk = Walk { root: schema, faults: Vec::new() };
    let span = table.span();
    if let Some(schema) = schema.as_object() {
        walk.table(table.get_mut(), schema, "", &span);
    }
    walk.faults
}

struct Walk<'s> {
    root: &'s Json,
    faults: Vec<PolicyError>,
}

impl<'s> Walk<'s> {
    fn fault(&mut self, kind: PolicyErrorKind, span: Range<usize>, message: String) {
        self.faults.push(PolicyError::new(kind, Some(span), message));
    }

    /// The value as it fits; false: it was reported and must go.
    fn value(&mut self, value: &mut Spanned<DeValue<'_>>, schema: &'s Json, at: &str) -> bool {
        let span = value.span();
        let Some(schema) = self.resolved(schema, value.get_ref()) else {
            let wanted = self.wanted(schema);
            let found = type_word(value.get_ref());
            self.fault(PolicyErrorKind::WrongType, span, format!("`{at}` takes {wanted}, not {found}"));
            return false;
        };
        match value.get_mut() {
            DeValue::Table(table) => self.table(table, schema, at, &span),
            DeValue::Array(items) => match schema.get("items") {
                Some(of) => {
                    let mut kept = toml::de::DeArray::new();
                    for mut item in std::mem::replace(items, toml::de::DeArray::new()) {
                        if self.value(&mut item, of, at) {
                            kept.push(item);
                        }
                    }
                    *items = kept;
                    true
                }
                None => true,
            },
            _ => true,
        }
    }

    fn table(&mut self, table: &mut DeTable<'_>, schema: &'s Map<String, Json>, at: &str, span: &Range<usize>) -> bool {
        let faults_before = self.faults.len();
        let known = schema.get("properties").and_then(Json::as_object);
        let others = schema.get("additionalProperties");
        let mut complete = true;
        for required in schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str) {
            if !table.contains_key(required) {
                complete = false;
                let message = self.missing(required, known, at);
                self.fault(PolicyErrorKind::MissingKey, span.start..span.start, message);
            }
        }
        let mut kept = DeTable::new();
        for (key, mut value) in std::mem::take(table) {
            let name: &str = key.get_ref();
            let place = if at.is_empty() { shown(name) } else { format!("{at}.{}", shown(name)) };
            let fits = match (known.and_then(|known| known.get(name)), others) {
                (Some(of), _) => self.value(&mut value, of, &place),
                (None, Some(of @ Json::Object(_))) => self.value(&mut value, of, &place),
                (None, Some(Json::Bool(false))) => {
                    let message = unknown_key(name, known, at);
                    self.fault(PolicyErrorKind::UnknownKey, key.span(), message);
                    false
                }
                (None, _) => true,
            };
            if fits {
                kept.insert(key, value);
            } else if is_required(schema, name) {
                complete = false;
            }
        }
        *table = kept;
        debug_assert!(complete || self.faults.len() > faults_before);
        complete
    }

    /// The schema that applies to this value, through references and alternatives; none: its type is wrong.
    fn resolved(&self, schema: &'s Json, value: &DeValue<'_>) -> Option<&'s Map<String, Json>> {
        let schema = self.referenced(schema)?;
        if let Some(branches) = schema.get("anyOf").and_then(Json::as_array) {
            return branches.iter().find_map(|branch| self.resolved(branch, value));
        }
        let fits = match schema.get("type") {
            None => true,
            Some(Json::String(name)) => has_type(value, name),
            Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).any(|name| has_type(value, name)),
            Some(_) => false,
        };
        fits.then_some(schema)
    }

    fn referenced(&self, schema: &'s Json) -> Option<&'s Map<String, Json>> {
        let schema = schema.as_object()?;
        match schema.get("$ref").and_then(Json::as_str) {
            Some(reference) => self.root.pointer(reference.strip_prefix('#')?)?.as_object(),
            None => Some(schema),
        }
    }

    /// `text such as "5s"`.
    fn wanted(&self, schema: &'s Json) -> String {
        let first = |schema: &'s Json| schema.get("examples").and_then(|all| all.get(0));
        let example = first(schema).map(|example| format!(" such as `{example}`")).unwrap_or_default();
        let branches = schema.get("anyOf").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let branch = branches.first().unwrap_or(schema);
        let names = self.referenced(branch).and_then(|schema| schema.get("type"));
        let name = match names {
            Some(Json::Array(names)) => names.first().and_then(Json::as_str),
            Some(Json::String(name)) => Some(name.as_str()),
            _ => None,
        };
        let word = match name {
            Some("object") => "a table",
            Some("array") => "a list",
            Some("string") => "text",
            Some("boolean") => "true or false",
            Some("integer") => "a whole number",
            _ => "something else",
        };
        format!("{word}{example}")
    }

    fn missing(&self, required: &str, known: Option<&'s Map<String, Json>>, at: &str) -> String {
        let example = known.and_then(|known| known.get(required)?.get("examples")?.get(0));
        let example = example.map(|example| format!("; add `{required} = {example}`")).unwrap_or_default();
        if at.is_empty() {
            format!("the policy has no `{required}`{example}")
        } else {
            format!("`{at}` has no `{required}`{example}")
        }
    }
}

fn is_required(schema: &Map<String, Json>, key: &str) -> bool {
    schema.get("required").and_then(Json::as_array).is_some_and(|all| all.iter().any(|name| name == key))
}

fn unknown_key(name: &str, known: Option<&Map<String, Json>>, at: &str) -> String {
    let known: Vec<&str> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
    let place = if at.is_empty() { "a policy".to_owned() } else { format!("`{at}`") };
    format!("unknown key `{}` in {place}; {}", shown(name), suggestion(name, &known))
}

/// `did you mean X?`, or all that would be right where nothing is near.
pub(crate) fn suggestion(given: &str, known: &[&str]) -> String {
    let given: String =
        given.chars().take(64).flat_map(char::to_lowercase).map(|c| if c == '-' { '_' } else { c }).collect();
    let distance = |name: &str| strsim::damerau_levenshtein(&given, &name.to_lowercase());
    let nearest = known.iter().map(|name| (distance(name), *name)).min();
    match nearest {
        Some((distance, name)) if distance <= name.len().max(3) / 3 => format!("did you mean `{name}`?"),
        _ => {
            let all: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("use one of: {}", all.join(", "))
        }
    }
}

fn has_type(value: &DeValue<'_>, name: &str) -> bool {
    match value {
        DeValue::String(_) => name == "string",
        DeValue::Integer(_) => matches!(name, "integer" | "number"),
        DeValue::Float(_) => name == "number",
        DeValue::Boolean(_) => name == "boolean",
        DeValue::Array(_) => name == "array",
        DeValue::Table(_) => name == "object",
        DeValue::Datetime(_) => false,
    }
}

fn type_word(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
