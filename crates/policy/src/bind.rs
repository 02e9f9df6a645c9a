//! Binds a call's arguments to a declaration by Python's rules, and takes them apart again.
//!
//! Answers to: `bridge`. Must not: check a value; that is `check`'s.
//! The messages are CPython's own, so that the guest reads what it would read anywhere.

use std::collections::BTreeSet;

use ringfence_types::{FunctionSpec, Parameter, ParameterKind, Value};

use crate::denial::shown;

/// Arguments by parameter name, in order of declaration.
pub type Bound = Vec<(String, Value)>;

/// Why arguments do not fit a declaration: the text of CPython's `TypeError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BindFault(String);

/// Binds positional and keyword arguments to the declaration. Left-out arguments with a default stay out.
pub fn bind(spec: &FunctionSpec, args: Vec<Value>, kwargs: Vec<(String, Value)>) -> Result<Bound, BindFault> {
    let mut slots: Vec<Option<Value>> = spec.parameters.iter().map(|_| None).collect();
    let surplus = place_positional(spec, args, &mut slots);
    place_keywords(spec, kwargs, &mut slots)?;
    if let Some(given) = surplus {
        return Err(too_many(spec, given, &slots));
    }
    missing(spec, &slots)?;
    let named = spec.parameters.iter().zip(slots);
    Ok(named.filter_map(|(parameter, value)| Some((parameter.name.clone(), value?))).collect())
}

fn is_positional(parameter: &Parameter) -> bool {
    matches!(parameter.kind, ParameterKind::PositionalOnly | ParameterKind::PositionalOrKeyword)
}

/// Fills the positional slots; the number given where there were too many.
fn place_positional(spec: &FunctionSpec, args: Vec<Value>, slots: &mut [Option<Value>]) -> Option<usize> {
    let given = args.len();
    let mut args = args.into_iter();
    for (parameter, slot) in spec.parameters.iter().zip(slots.iter_mut()).filter(|(p, _)| is_positional(p)) {
        let Some(value) = args.next() else { break };
        debug_assert!(parameter.kind != ParameterKind::KeywordOnly);
        *slot = Some(value);
    }
    let rest: Vec<Value> = args.collect();
    match spec.parameters.iter().position(|parameter| parameter.kind == ParameterKind::VarPositional) {
        Some(index) => {
            if let Some(slot) = slots.get_mut(index).filter(|_| !rest.is_empty()) {
                *slot = Some(Value::Tuple(rest));
            }
            None
        }
        None => (!rest.is_empty()).then_some(given),
    }
}

fn place_keywords(
    spec: &FunctionSpec,
    kwargs: Vec<(String, Value)>,
    slots: &mut [Option<Value>],
) -> Result<(), BindFault> {
    let variadic = spec.parameters.iter().position(|parameter| parameter.kind == ParameterKind::VarKeyword);
    let mut seen = BTreeSet::new();
    let mut rest = Vec::new();
    let mut unexpected = None;
    let mut positional_only = Vec::new();
    for (name, value) in kwargs {
        if !seen.insert(name.clone()) {
            return Err(fault(spec, format!("got multiple values for keyword argument '{}'", shown(&name))));
        }
        match keyword_slot(spec, &name) {
            Some(index) => fill(spec, slots, index, &name, value)?,
            None if variadic.is_some() => rest.push((Value::Str(name), value)),
            None if is_positional_only(spec, &name) => positional_only.push(name),
            None => unexpected = unexpected.or(Some(name)),
        }
    }
    if !positional_only.is_empty() {
        let names = positional_only.join(", ");
        let message = format!("got some positional-only arguments passed as keyword arguments: '{names}'");
        return Err(fault(spec, message));
    }
    if let Some(name) = unexpected {
        return Err(fault(spec, format!("got an unexpected keyword argument '{}'", shown(&name))));
    }
    if let Some(slot) = variadic.and_then(|index| slots.get_mut(index)).filter(|_| !rest.is_empty()) {
        *slot = Some(Value::Dict(rest));
    }
    Ok(())
}

fn fill(
    spec: &FunctionSpec,
    slots: &mut [Option<Value>],
    index: usize,
    name: &str,
    value: Value,
) -> Result<(), BindFault> {
    match slots.get_mut(index) {
        Some(slot @ None) => {
            *slot = Some(value);
            Ok(())
        }
        _ => Err(fault(spec, format!("got multiple values for argument '{name}'"))),
    }
}

fn keyword_slot(spec: &FunctionSpec, name: &str) -> Option<usize> {
    spec.parameters.iter().position(|parameter| {
        parameter.name == name
            && matches!(parameter.kind, ParameterKind::PositionalOrKeyword | ParameterKind::KeywordOnly)
    })
}

fn is_positional_only(spec: &FunctionSpec, name: &str) -> bool {
    spec.parameters.iter().any(|parameter| parameter.name == name && parameter.kind == ParameterKind::PositionalOnly)
}

fn fault(spec: &FunctionSpec, message: impl AsRef<str>) -> BindFault {
    BindFault(format!("{}() {}", spec.name, message.as_ref()))
}

/// `add() takes from 1 to 2 positional arguments but 3 were given`.
fn too_many(spec: &FunctionSpec, given: usize, slots: &[Option<Value>]) -> BindFault {
    let positional: Vec<&Parameter> = spec.parameters.iter().filter(|parameter| is_positional(parameter)).collect();
    let defaults = positional.iter().filter(|parameter| parameter.default.is_some()).count();
    let most = positional.len();
    let takes = if defaults > 0 { format!("from {} to {most}", most - defaults) } else { most.to_string() };
    let plural = if defaults > 0 || most != 1 { "s" } else { "" };
    let keyword_only = spec
        .parameters
        .iter()
        .zip(slots)
        .filter(|(parameter, slot)| parameter.kind == ParameterKind::KeywordOnly && slot.is_some())
        .count();
    let were = if given == 1 && keyword_only == 0 { "was" } else { "were" };
    let also = match keyword_only {
        0 => String::new(),
        count => {
            let given_plural = if given == 1 { "" } else { "s" };
            let plural = if count == 1 { "" } else { "s" };
            format!(" positional argument{given_plural} (and {count} keyword-only argument{plural})")
        }
    };
    fault(spec, format!("takes {takes} positional argument{plural} but {given}{also} {were} given"))
}

/// Names the required parameters that got nothing: the positional ones first, as CPython does.
fn missing(spec: &FunctionSpec, slots: &[Option<Value>]) -> Result<(), BindFault> {
    let lacking = |wanted: fn(&Parameter) -> bool| -> Vec<&str> {
        let empty = spec.parameters.iter().zip(slots).filter(|(_, slot)| slot.is_none());
        empty.map(|(parameter, _)| parameter).filter(|p| wanted(p) && p.default.is_none()).map(|p| &*p.name).collect()
    };
    let positional = lacking(is_positional);
    if !positional.is_empty() {
        return Err(missing_fault(spec, "positional", &positional));
    }
    let keyword_only = lacking(|parameter| parameter.kind == ParameterKind::KeywordOnly);
    if keyword_only.is_empty() { Ok(()) } else { Err(missing_fault(spec, "keyword-only", &keyword_only)) }
}

fn missing_fault(spec: &FunctionSpec, what: &str, names: &[&str]) -> BindFault {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let list = match quoted.as_slice() {
        [one] => one.clone(),
        [first, second] => format!("{first} and {second}"),
        [start @ .., last] => format!("{}, and {last}", start.join(", ")),
        [] => String::new(),
    };
    let plural = if names.len() == 1 { "" } else { "s" };
    fault(spec, format!("missing {} required {what} argument{plural}: {list}", names.len()))
}

/// Takes bound arguments apart again into positional and keyword arguments of the same call.
///
/// Positional as long as nothing before was left out, then by keyword. A positional-only argument
/// after a left-out one can't be said in Python and is passed by position all the same.
pub fn unbind(spec: &FunctionSpec, bound: Bound) -> (Vec<Value>, Vec<(String, Value)>) {
    let mut values: Vec<(String, Value)> = bound;
    let mut args = Vec::new();
    let mut kwargs = Vec::new();
    let mut gap = false;
    for parameter in &spec.parameters {
        let found = values.iter().position(|(name, _)| *name == parameter.name);
        let value = found.map(|index| values.swap_remove(index).1);
        match (parameter.kind, value) {
            (ParameterKind::PositionalOnly, Some(value)) => args.push(value),
            (ParameterKind::PositionalOrKeyword, Some(value)) if !gap => args.push(value),
            (ParameterKind::PositionalOnly | ParameterKind::PositionalOrKeyword, None) => gap = true,
            (ParameterKind::VarPositional, Some(Value::Tuple(items))) => args.extend(items),
            (ParameterKind::VarKeyword, Some(Value::Dict(pairs))) => {
                kwargs.extend(pairs.into_iter().filter_map(|(key, value)| match key {
                    Value::Str(name) => Some((name, value)),
                    _ => None,
                }));
            }
            (_, Some(value)) => kwargs.push((parameter.name.clone(), value)),
            (_, None) => {}
        }
    }
    (args, kwargs)
}
