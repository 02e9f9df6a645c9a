//! The guards of one host function: what its arguments may be, compiled once when the policy is read.
//!
//! Answers to: `resolve` (which builds it), `grant` (does it fit the declaration), `permit`.
//! Must not: let through what it could not evaluate.

mod condition;
mod formats;
mod keywords;
mod path;

use std::collections::BTreeMap;
use std::fmt;

use jsonschema::Validator;
use ringfence_types::{FunctionSpec, ParameterKind, Value, literal};
use serde_json::Value as Json;

pub(crate) use condition::Condition;
pub(crate) use formats::is_host;

use crate::check::node::{Values, View};
use crate::check::{each, explain, repeated_key};
use crate::denial::{Denial, Refusal, shown};
use crate::permit::ApprovalNeed;
use crate::settings::Approval;

/// The guards of one host function.
#[derive(Debug, Default)]
pub(crate) struct FunctionGuard {
    pub arguments: BTreeMap<String, ArgumentGuard>,
    pub when: Option<Condition>,
    pub approval: ApprovalRule,
}

/// When a human must agree.
#[derive(Debug, Default)]
pub(crate) enum ApprovalRule {
    #[default]
    Never,
    First,
    Always,
    When(Condition),
}

impl ApprovalRule {
    /// Compiles what the policy says; `Err` is what is wrong with its condition.
    pub fn compile(approval: &Approval) -> Result<Self, String> {
        Ok(match approval {
            Approval::Never => Self::Never,
            Approval::First => Self::First,
            Approval::Always => Self::Always,
            Approval::When(text) => Self::When(Condition::compile(text)?),
        })
    }
}

/// The guard of one argument.
pub(crate) struct ArgumentGuard {
    validator: Validator<Values>,
    /// The schema with its closed types, for finding the paths in it.
    schema: Json,
}

impl fmt::Debug for ArgumentGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schema.fmt(f)
    }
}

impl ArgumentGuard {
    /// Compiles a guard; every fault of it.
    pub fn compile(guard: &Json) -> Result<Self, Vec<String>> {
        let schema = keywords::close(guard)?;
        let options = formats::register(crate::check::options().should_validate_formats(true));
        let validator = crate::check::compile_schema(options, &schema).map_err(|why| vec![why])?;
        Ok(Self { validator, schema })
    }
}

impl FunctionGuard {
    /// Whether every guarded argument is a parameter of the declared function: a guard that guards
    /// nothing must not look like one.
    pub fn fits(&self, spec: &FunctionSpec) -> Result<(), Denial> {
        let names: Vec<&str> = spec.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        match self.arguments.keys().find(|argument| !names.contains(&argument.as_str())) {
            None => Ok(()),
            Some(argument) => Err(Denial::Declaration(Refusal::new(
                format!(
                    "policy guards argument `{}` of host function `{}`, which has no such parameter",
                    shown(argument),
                    shown(&spec.name)
                ),
                if names.is_empty() {
                    "it has no parameters".to_owned()
                } else {
                    crate::shape::suggestion(argument, &names)
                },
            ))),
        }
    }

    /// Checks the arguments, leaves them in their normal form, and tells whether a human must agree.
    /// A refusal shows nothing of the value of an argument that is `secret`.
    pub fn admit(
        &self,
        spec: &FunctionSpec,
        arguments: &mut [(String, Value)],
        secret: &dyn Fn(&str) -> bool,
    ) -> Result<ApprovalNeed, Denial> {
        if let Some((name, _)) = arguments.iter().find(|(_, value)| repeated_key(value).is_some()) {
            let found = format!("`args.{}` holds a dict with a key twice", shown(name));
            return Err(refused(spec, name, &found));
        }
        for (name, value) in arguments.iter_mut() {
            let Some(guard) = self.arguments.get(name) else { continue };
            let kind = spec.parameters.iter().find(|parameter| parameter.name == *name).map(|parameter| parameter.kind);
            let kind = kind.unwrap_or_default();
            each(kind, value, &mut |at, one| {
                guard.validator.validate(View::Value(one)).map_err(|error| {
                    let (path, there) = explain::place(one, error.instance_path());
                    let found = if secret(name) { explain::found_type } else { explain::found };
                    let (expected, found) = (explain::expected(&error), found(there, &error));
                    refused(spec, name, &format!("`args.{name}{at}{path}` must be {expected}, not {found}"))
                })
            })?;
            normalise(kind, value, &guard.schema);
        }
        let quiet = arguments.iter().any(|(name, _)| secret(name));
        let needed = self.when.is_some() || matches!(self.approval, ApprovalRule::When(_));
        let called_with = if needed { with_defaults(spec, arguments) } else { Vec::new() };
        self.conditions(spec, &called_with, quiet)
    }

    /// `quiet`: an argument is redacted, and CEL's errors may show values.
    fn conditions(
        &self,
        spec: &FunctionSpec,
        arguments: &[(String, Value)],
        quiet: bool,
    ) -> Result<ApprovalNeed, Denial> {
        let holds = |condition: &Condition| {
            condition.holds(arguments).map_err(|why| {
                let why = if quiet { "an argument does not fit it".to_owned() } else { why };
                Denial::Condition(Refusal::new(
                    format!("the condition of host function `{}` could not be evaluated: {why}", shown(&spec.name)),
                    format!("change `when` under `[functions.{}]`", shown(&spec.name)),
                ))
            })
        };
        if let Some(condition) = &self.when
            && !holds(condition)?
        {
            return Err(Denial::Condition(Refusal::new(
                format!("policy does not allow this call of host function `{}`: its condition is not met", spec.name),
                format!("the condition is `{}`", shown(condition.text())),
            )));
        }
        Ok(match &self.approval {
            ApprovalRule::Never => ApprovalNeed::None,
            ApprovalRule::First => ApprovalNeed::First,
            ApprovalRule::Always => ApprovalNeed::Each,
            ApprovalRule::When(condition) if holds(condition)? => ApprovalNeed::Each,
            ApprovalRule::When(_) => ApprovalNeed::None,
        })
    }
}

/// What the function is called with: what was given, and the defaults of what was left out. A default that is not plain
/// data stays out, so that a condition which looks at it can't be evaluated.
fn with_defaults(spec: &FunctionSpec, arguments: &[(String, Value)]) -> Vec<(String, Value)> {
    let mut all = arguments.to_vec();
    for parameter in &spec.parameters {
        if arguments.iter().any(|(name, _)| *name == parameter.name) {
            continue;
        }
        let value = match parameter.kind {
            ParameterKind::VarPositional => Some(Value::Tuple(Vec::new())),
            ParameterKind::VarKeyword => Some(Value::Dict(Vec::new())),
            _ => parameter.default.as_ref().and_then(|default| literal::value_of(&default.source)),
        };
        all.extend(value.map(|value| (parameter.name.clone(), value)));
    }
    all
}

fn refused(spec: &FunctionSpec, argument: &str, what: &str) -> Denial {
    Denial::Argument(Refusal::new(
        format!("policy does not allow this call of host function `{}`: {what}", shown(&spec.name)),
        format!("change `arguments.{}` under `[functions.{}]`", shown(argument), shown(&spec.name)),
    ))
}

/// Puts the normal form of every guarded path in its place.
fn normalise(kind: ParameterKind, value: &mut Value, schema: &Json) {
    match (kind, value) {
        (ParameterKind::VarPositional, Value::Tuple(items)) => {
            items.iter_mut().for_each(|item| path::normalise_in(item, schema));
        }
        (ParameterKind::VarKeyword, Value::Dict(pairs)) => {
            pairs.iter_mut().for_each(|(_, item)| path::normalise_in(item, schema));
        }
        (_, value) => path::normalise_in(value, schema),
    }
}
