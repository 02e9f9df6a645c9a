//! Host functions: the trait, the registry, and functions made from closures with typed arguments.
//!
//! Answers to: whoever offers functions to guests. Must not: run without a [`Permitted`], which only the bridge makes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ringfence_policy::{Permit, unbind};
use ringfence_types::json::{from_json, to_plain};
use ringfence_types::{Default as ParameterDefault, FunctionSpec, Parameter, ParameterKind, Value};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// A future in a box.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A function of the host's that guests may call.
pub trait HostFunction: Send + Sync {
    /// Its declaration.
    fn spec(&self) -> &FunctionSpec;

    /// Carries out one call that was permitted and recorded.
    fn call(&self, call: Permitted) -> Boxed<'_, Result<Value, HostError>>;
}

/// A call that may be carried out: made by the bridge from a permit, and by nobody else.
#[derive(Debug)]
pub struct Permitted {
    spec: FunctionSpec,
    permit: Permit,
}

impl Permitted {
    pub(crate) fn new(spec: FunctionSpec, permit: Permit) -> Self {
        Self { spec, permit }
    }

    /// The name of the function.
    pub fn function(&self) -> &str {
        &self.spec.name
    }

    /// The arguments by parameter name; those left at their default are absent.
    pub fn arguments(&self) -> &[(String, Value)] {
        self.permit.arguments()
    }

    /// The arguments as they are passed in Python: positional, then by keyword.
    pub fn into_python(self) -> (Vec<Value>, Vec<(String, Value)>) {
        unbind(&self.spec, self.permit.into_arguments())
    }
}

/// How a host function fails. The guest sees the type and the message only where its author marked it safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the host function failed with `{exception}`")]
pub struct HostError {
    exception: String,
    message: Option<String>,
}

impl HostError {
    /// A failure of which the guest learns the type alone, such as `ValueError`.
    pub fn hidden(exception: impl Into<String>) -> Self {
        Self { exception: exception.into(), message: None }
    }

    /// A failure whose message the guest may read: it must hold no secret, no path and no traceback.
    pub fn public(exception: impl Into<String>, message: impl Into<String>) -> Self {
        Self { exception: exception.into(), message: Some(message.into()) }
    }

    /// The exception type, such as `ValueError`: an identifier, whatever was given.
    pub fn exception(&self) -> &str {
        let plain = self.exception.len() <= 64
            && self.exception.starts_with(|c: char| c.is_ascii_alphabetic())
            && self.exception.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if plain { &self.exception } else { "RuntimeError" }
    }

    /// What the guest reads.
    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("the host function failed")
    }
}

/// Why functions can't be offered together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two of one name.
    #[error("host function `{0}` is declared twice; give each a name of its own")]
    Twice(String),
    /// Not a name that Python code could call.
    #[error("`{0}` can't be the name of a host function; use a Python identifier in ASCII")]
    Name(String),
}

/// The functions that a caller offers, by name.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<String, Arc<dyn HostFunction>>);

impl Registry {
    /// No functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn add(&mut self, function: Arc<dyn HostFunction>) -> Result<(), RegistryError> {
        let name = function.spec().name.clone();
        let identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with("__");
        if !identifier {
            return Err(RegistryError::Name(name.chars().take(80).collect()));
        }
        if self.0.contains_key(&name) {
            return Err(RegistryError::Twice(name));
        }
        self.0.insert(name, function);
        Ok(())
    }

    /// The function of exactly this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn HostFunction>> {
        self.0.get(name)
    }

    /// Every declaration, in order of name.
    pub fn specs(&self) -> Vec<FunctionSpec> {
        self.0.values().map(|function| function.spec().clone()).collect()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A host function from a closure: the fields of `A` are its parameters, `R` is its result.
pub fn typed<A, R, F>(name: &str, doc: &str, function: F) -> Arc<dyn HostFunction>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Fn(A) -> Result<R, HostError> + Send + Sync + 'static,
{
    let body = move |arguments: Json| {
        let result = function(arguments_of(arguments)?).and_then(|result| value_of(&result));
        Ok(Box::pin(async move { result }) as Running)
    };
    Arc::new(Typed { spec: spec_of::<A, R>(name, doc, false), body })
}

/// As [`typed`], for an async closure; guests await it, and several run side by side.
pub fn typed_async<A, R, F, Fut>(name: &str, doc: &str, function: F) -> Arc<dyn HostFunction>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, HostError>> + Send + 'static,
{
    let body = move |arguments: Json| {
        let running = function(arguments_of(arguments)?);
        Ok(Box::pin(async move { value_of(&running.await?) }) as Running)
    };
    Arc::new(Typed { spec: spec_of::<A, R>(name, doc, true), body })
}

struct Typed<F> {
    spec: FunctionSpec,
    body: F,
}

type Running = Boxed<'static, Result<Value, HostError>>;

impl<F> HostFunction for Typed<F>
where
    F: Fn(Json) -> Result<Running, HostError> + Send + Sync,
{
    fn spec(&self) -> &FunctionSpec {
        &self.spec
    }

    fn call(&self, call: Permitted) -> Boxed<'_, Result<Value, HostError>> {
        let arguments = call.arguments().iter().map(|(name, value)| (name.clone(), to_plain(value))).collect();
        match (self.body)(Json::Object(arguments)) {
            Ok(running) => running,
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}

fn arguments_of<A: DeserializeOwned>(arguments: Json) -> Result<A, HostError> {
    serde_json::from_value(arguments).map_err(|error| HostError::public("TypeError", error.to_string()))
}

fn value_of(result: &impl Serialize) -> Result<Value, HostError> {
    let json = serde_json::to_value(result).map_err(|_| HostError::hidden("TypeError"))?;
    from_json(&json, "result").map_err(|_| HostError::hidden("TypeError"))
}

fn spec_of<A: JsonSchema, R: JsonSchema>(name: &str, doc: &str, is_async: bool) -> FunctionSpec {
    let arguments = schemars::schema_for!(A).to_value();
    let required = |name: &str| {
        let list = arguments.get("required").and_then(Json::as_array);
        list.is_some_and(|list| list.iter().any(|item| item.as_str() == Some(name)))
    };
    let definitions = arguments.get("$defs").cloned();
    let properties = arguments.get("properties").and_then(Json::as_object).cloned().unwrap_or_default();
    let parameter = |(name, schema): (String, Json)| Parameter {
        default: (!required(&name)).then(|| ParameterDefault { source: default_source(&schema) }),
        kind: ParameterKind::PositionalOrKeyword,
        annotation: Some(annotation(&schema).to_owned()),
        schema: Some(with_definitions(schema, definitions.as_ref())),
        name,
    };
    // Python wants the required parameters first.
    let mut parameters: Vec<Parameter> = properties.into_iter().map(parameter).collect();
    parameters.sort_by_key(|parameter| parameter.default.is_some());
    let result = schemars::schema_for!(R).to_value();
    FunctionSpec {
        doc: doc.to_owned(),
        parameters,
        returns: Some(annotation(&result).to_owned()),
        returns_schema: Some(result),
        is_async,
        ..FunctionSpec::new(name)
    }
}

/// The default that a schema tells of, as Python source; `...` where it tells none, or one that is no plain number,
/// text or truth.
fn default_source(schema: &Json) -> String {
    match schema.get("default") {
        Some(Json::Null) => "None".to_owned(),
        Some(Json::Bool(flag)) => if *flag { "True" } else { "False" }.to_owned(),
        Some(Json::Number(number)) => number.to_string(),
        Some(Json::String(text)) if text.chars().all(|c| c.is_alphanumeric() || " -_./:@,".contains(c)) => {
            format!("'{text}'")
        }
        _ => "...".to_owned(),
    }
}

fn with_definitions(mut schema: Json, definitions: Option<&Json>) -> Json {
    if let (Some(object), Some(definitions)) = (schema.as_object_mut(), definitions) {
        object.insert("$defs".to_owned(), definitions.clone());
    }
    schema
}

/// The Python annotation of a JSON Schema, as far as one word tells it.
fn annotation(schema: &Json) -> &'static str {
    match schema.get("type").and_then(Json::as_str) {
        Some("string") => "str",
        Some("integer") => "int",
        Some("number") => "float",
        Some("boolean") => "bool",
        Some("array") => "list",
        Some("object") => "dict",
        Some("null") => "None",
        _ => "object",
    }
}
