//! Checks arguments and results against a function's declaration.
//!
//! Answers to: `bridge`. Must not: decide what is allowed; that is the grant's.
//! INVARIANT: a schema never reaches outside itself, and its patterns run in linear time.

pub(crate) mod explain;
pub(crate) mod node;
mod python;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use jsonschema::{PatternOptions, ValidationError, ValidationOptions, Validator};
use ringfence_types::{FunctionSpec, ParameterKind, Value};
use serde_json::Value as Json;

use crate::denial::{line, shown};
use node::{Values, View};

/// A declaration's schema that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema of `{place}` of host function `{function}` cannot be used: {why}")]
pub struct SchemaFault {
    function: String,
    place: String,
    why: String,
}

/// An argument that does not fit the declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{function}() argument `{path}` must be {expected}, not {found}")]
pub struct ArgumentFault {
    function: String,
    path: String,
    expected: String,
    found: String,
    found_type: String,
}

/// A result that does not fit the declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{function}() returned something else than declared: `{path}` must be {expected}, not {found}")]
pub struct ResultFault {
    function: String,
    path: String,
    expected: String,
    found: String,
}

macro_rules! fault_accessors {
    ($($name:ident),*) => {$(
        impl $name {
            /// The function.
            pub fn function(&self) -> &str {
                &self.function
            }
            /// The place, as in `args.rows[3]`.
            pub fn path(&self) -> &str {
                &self.path
            }
            /// What was expected there.
            pub fn expected(&self) -> &str {
                &self.expected
            }
            /// What was found there.
            pub fn found(&self) -> &str {
                &self.found
            }
        }
    )*};
}
fault_accessors!(ArgumentFault, ResultFault);

/// The schemas of a set of host functions, compiled once. Cheap to clone.
#[derive(Clone, Default)]
pub struct SchemaSet(Arc<BTreeMap<String, FunctionSchemas>>);

#[derive(Default)]
struct FunctionSchemas {
    parameters: Vec<(String, ParameterKind, Option<Validator<Values>>)>,
    result: Option<Validator<Values>>,
}

impl fmt::Debug for SchemaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl SchemaSet {
    /// Compiles the schemas of these declarations.
    pub fn compile(functions: &[FunctionSpec]) -> Result<Self, SchemaFault> {
        let compiled = functions.iter().map(|spec| Ok((spec.name.clone(), FunctionSchemas::compile(spec)?)));
        Ok(Self(Arc::new(compiled.collect::<Result<_, _>>()?)))
    }

    /// Checks bound arguments of a function. An unknown function has no arguments that fit.
    pub fn check_arguments(&self, function: &str, arguments: &[(String, Value)]) -> Result<(), ArgumentFault> {
        match self.0.get(function) {
            Some(schemas) => schemas.check_arguments(function, arguments),
            None => Err(argument_fault(function, "args", "those of a declared function", "an unknown function")),
        }
    }

    /// Checks the result of a function. An unknown function has no result that fits.
    pub fn check_result(&self, function: &str, result: &Value) -> Result<(), ResultFault> {
        match self.0.get(function) {
            Some(schemas) => schemas.check_result(function, result),
            None => Err(ResultFault {
                function: shown(function),
                path: "result".to_owned(),
                expected: "that of a declared function".to_owned(),
                found: "an unknown function".to_owned(),
            }),
        }
    }
}

/// Checks bound arguments against one declaration, compiling its schemas anew. For many calls use [`SchemaSet`].
pub fn check_arguments(spec: &FunctionSpec, arguments: &[(String, Value)]) -> Result<(), ArgumentFault> {
    match FunctionSchemas::compile(spec) {
        Ok(schemas) => schemas.check_arguments(&spec.name, arguments),
        Err(fault) => Err(argument_fault(&spec.name, "args", "checked by a schema", &fault.to_string())),
    }
}

/// Checks a result against one declaration, compiling its schema anew. For many calls use [`SchemaSet`].
pub fn check_result(spec: &FunctionSpec, result: &Value) -> Result<(), ResultFault> {
    match FunctionSchemas::compile(spec) {
        Ok(schemas) => schemas.check_result(&spec.name, result),
        Err(fault) => Err(ResultFault {
            function: shown(&spec.name),
            path: "result".to_owned(),
            expected: "checked by a schema".to_owned(),
            found: fault.to_string(),
        }),
    }
}

fn argument_fault(function: &str, path: &str, expected: &str, found: &str) -> ArgumentFault {
    ArgumentFault {
        function: shown(function),
        path: path.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
        found_type: found.to_owned(),
    }
}

impl ArgumentFault {
    /// The name of the parameter at fault.
    pub fn argument(&self) -> &str {
        let path = self.path.strip_prefix("args.").unwrap_or(&self.path);
        path.split(['.', '[']).next().unwrap_or_default()
    }

    /// The same fault with the found type in place of the found value: for arguments that a policy redacts.
    #[must_use]
    pub fn without_value(mut self) -> Self {
        self.found.clone_from(&self.found_type);
        self
    }
}

impl FunctionSchemas {
    fn compile(spec: &FunctionSpec) -> Result<Self, SchemaFault> {
        let build = |place: &str, schema: Option<&Json>| {
            schema
                .map(|schema| compile_schema(options(), &texts_are_str(schema)))
                .transpose()
                .map_err(|why| SchemaFault { function: shown(&spec.name), place: shown(place), why })
        };
        let parameters = spec.parameters.iter().map(|parameter| {
            let validator = build(&parameter.name, parameter.schema.as_ref())?;
            Ok((parameter.name.clone(), parameter.kind, validator))
        });
        let parameters = parameters.collect::<Result<_, _>>()?;
        Ok(Self { parameters, result: build("the result", spec.returns_schema.as_ref())? })
    }

    fn check_arguments(&self, function: &str, arguments: &[(String, Value)]) -> Result<(), ArgumentFault> {
        for (name, value) in arguments {
            let Some((_, kind, validator)) = self.parameters.iter().find(|(parameter, _, _)| parameter == name) else {
                return Err(argument_fault(function, &format!("args.{}", shown(name)), "left out", "given"));
            };
            if let Some(path) = repeated_key(value) {
                return Err(argument_fault(function, &format!("args.{name}{path}"), "a dict", "one with a key twice"));
            }
            let Some(validator) = validator else { continue };
            each(*kind, value, &mut |at, one| match validator.validate(View::Value(one)) {
                Ok(()) => Ok(()),
                Err(error) => {
                    let (path, there) = explain::place(one, error.instance_path());
                    let found = explain::found(there, &error);
                    let found_type = explain::found_type(there, &error);
                    Err(ArgumentFault {
                        found_type,
                        ..argument_fault(
                            function,
                            &format!("args.{name}{at}{path}"),
                            &explain::expected(&error),
                            &found,
                        )
                    })
                }
            })?;
        }
        Ok(())
    }

    fn check_result(&self, function: &str, result: &Value) -> Result<(), ResultFault> {
        let Some(validator) = &self.result else { return Ok(()) };
        validator.validate(View::Value(result)).map_err(|error| {
            let (path, there) = explain::place(result, error.instance_path());
            ResultFault {
                function: shown(function),
                path: format!("result{path}"),
                expected: explain::expected(&error),
                found: explain::found_type(there, &error),
            }
        })
    }
}

/// Calls `check` with the value, or with each of a variadic parameter's, and its place.
pub(crate) fn each<E>(
    kind: ParameterKind,
    value: &Value,
    check: &mut dyn FnMut(&str, &Value) -> Result<(), E>,
) -> Result<(), E> {
    match (kind, value) {
        (ParameterKind::VarPositional, Value::Tuple(items)) => {
            items.iter().enumerate().try_for_each(|(index, item)| check(&format!("[{index}]"), item))
        }
        (ParameterKind::VarKeyword, Value::Dict(pairs)) => pairs.iter().try_for_each(|(key, value)| match key {
            Value::Str(key) => check(&format!(".{}", shown(key)), value),
            _ => check("[…]", value),
        }),
        _ => check("", value),
    }
}

/// Options common to declarations and guards: nothing remote, no backtracking, `x-python`.
pub(crate) fn options() -> ValidationOptions<'static, Arc<dyn jsonschema::Retrieve>, Values> {
    jsonschema::options_for::<Values>()
        .offline()
        .with_draft(jsonschema::Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20))
        .with_keyword("x-python", |_, value, _| match python::PythonType::compile(value) {
            Ok(keyword) => Ok(Box::new(keyword)),
            Err(why) => Err(ValidationError::schema(why)),
        })
}

/// Compiles a schema; the reason where it can't be, in one line.
pub(crate) fn compile_schema(
    options: ValidationOptions<'static, Arc<dyn jsonschema::Retrieve>, Values>,
    schema: &Json,
) -> Result<Validator<Values>, String> {
    if deeper_than(schema, 64) {
        return Err("it is nested more than 64 levels".to_owned());
    }
    if let Some(reference) = outside_reference(schema) {
        return Err(format!("it refers to `{}`, outside of itself; put what it needs under `$defs`", shown(reference)));
    }
    options.build(schema).map_err(|error| {
        let message = line(&error.to_string());
        match error.instance_path().as_str().trim_start_matches('/') {
            "" => message,
            place => format!("`{}`: {message}", shown(place)),
        }
    })
}

/// A declared text is a `str`: without a word of its own, no bytes, date or path passes for one.
fn texts_are_str(schema: &Json) -> Json {
    match schema {
        Json::Array(items) => Json::Array(items.iter().map(texts_are_str).collect()),
        Json::Object(map) => {
            let data = |key: &str| matches!(key, "const" | "enum" | "default" | "examples");
            let inner = |(key, value): (&String, &Json)| {
                (key.clone(), if data(key) { value.clone() } else { texts_are_str(value) })
            };
            let mut map: serde_json::Map<String, Json> = map.iter().map(inner).collect();
            if map.get("type").and_then(Json::as_str) == Some("string") && !map.contains_key("x-python") {
                map.insert("x-python".to_owned(), "str".into());
            }
            Json::Object(map)
        }
        other => other.clone(),
    }
}

fn deeper_than(schema: &Json, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    match schema {
        Json::Array(items) => items.iter().any(|item| deeper_than(item, levels)),
        Json::Object(map) => map.values().any(|item| deeper_than(item, levels)),
        _ => false,
    }
}

fn outside_reference(schema: &Json) -> Option<&str> {
    match schema {
        Json::Array(items) => items.iter().find_map(outside_reference),
        Json::Object(map) => {
            let references = ["$ref", "$dynamicRef"].into_iter().filter_map(|key| map.get(key)?.as_str());
            let outside = references.into_iter().find(|reference| !reference.starts_with('#'));
            outside.or_else(|| map.values().find_map(outside_reference))
        }
        _ => None,
    }
}

/// The place of a dict that has a text key twice: what was checked must be what is used.
pub(crate) fn repeated_key(value: &Value) -> Option<String> {
    match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            items.iter().enumerate().find_map(|(index, item)| repeated_key(item).map(|path| format!("[{index}]{path}")))
        }
        Value::Dict(pairs) => repeated_among(pairs).or_else(|| {
            pairs.iter().find_map(|(key, value)| {
                let path = repeated_key(value).or_else(|| repeated_key(key))?;
                Some(match key {
                    Value::Str(key) => format!(".{}{path}", shown(key)),
                    _ => format!("[…]{path}"),
                })
            })
        }),
        Value::Record(record) => record
            .fields
            .iter()
            .find_map(|(name, value)| repeated_key(value).map(|path| format!(".{}{path}", shown(name)))),
        _ => None,
    }
}

fn repeated_among(pairs: &[(Value, Value)]) -> Option<String> {
    let mut seen = HashSet::new();
    let mut keys = pairs.iter().filter_map(|(key, _)| match key {
        Value::Str(key) => Some(key.as_str()),
        _ => None,
    });
    (pairs.len() > 1 && !keys.all(|key| seen.insert(key))).then(String::new)
}
