//! What the policy says of each host function: rate, count, approval, condition and guards.
//!
//! Answers to: `resolve`. Must not: let a listed function stand with a guard that could not be compiled.

use std::collections::BTreeMap;
use std::ops::Range;

use ringfence_types::Span;

use super::{Faults, count};
use crate::denial::shown;
use crate::error::PolicyErrorKind;
use crate::file::{At, FunctionFile};
use crate::guard::{ApprovalRule, ArgumentGuard, Condition, FunctionGuard};
use crate::settings::{Approval, FunctionRule, Rate};
use crate::shape::suggestion;

/// The guards of every listed function; its rules go to `rules`.
pub(super) fn functions(
    file: Option<&BTreeMap<String, At<FunctionFile>>>,
    rules: &mut BTreeMap<String, FunctionRule>,
    faults: &mut Faults,
) -> BTreeMap<String, FunctionGuard> {
    let mut guards = BTreeMap::new();
    for (name, function) in file.into_iter().flatten() {
        if !is_identifier(name) {
            let message = if name.contains('*') {
                format!("`functions.{}` cannot stand for several functions; list each by its name", shown(name))
            } else {
                format!("`{}` is not the name of a function; use the name it is declared with", shown(name))
            };
            faults.value(function.span(), message);
            continue;
        }
        let (rule, guard) = self::function(name, function.get(), faults);
        rules.insert(name.clone(), rule);
        guards.insert(name.clone(), guard);
    }
    guards
}

fn is_identifier(name: &str) -> bool {
    let start = |c: char| c == '_' || c.is_alphabetic();
    name.starts_with(start) && name.len() <= 128 && name.chars().all(|c| start(c) || c.is_numeric())
}

fn function(name: &str, file: &FunctionFile, faults: &mut Faults) -> (FunctionRule, FunctionGuard) {
    let mut rule = FunctionRule {
        rate: file.rate.as_ref().and_then(|text| rate(name, text, faults)),
        max_calls: file
            .max_calls
            .as_ref()
            .and_then(|number| count(faults, &format!("functions.{name}.max_calls"), number)),
        timeout: file.timeout.as_ref().and_then(|text| timeout(name, text, faults)),
        ..FunctionRule::default()
    };
    let mut guard = FunctionGuard::default();
    if let Some(approve) = &file.approve {
        rule.approve = approval(name, approve, faults);
        guard.approval = compiled(ApprovalRule::compile(&rule.approve), name, "approve", approve.span(), faults);
    }
    if let Some(when) = &file.when {
        rule.when = Some(when.get().clone());
        guard.when = compiled(Condition::compile(when.get()).map(Some), name, "when", when.span(), faults);
    }
    for (argument, schema) in file.arguments.iter().flatten() {
        rule.arguments.insert(argument.clone(), schema.get().clone());
        match ArgumentGuard::compile(schema.get()) {
            Ok(compiled) => {
                guard.arguments.insert(argument.clone(), compiled);
            }
            Err(all) => {
                for why in all {
                    let message = format!("`functions.{name}.arguments.{}`: {why}", shown(argument));
                    faults.value(schema.span(), message);
                }
            }
        }
    }
    (rule, guard)
}

fn compiled<T: Default>(
    result: Result<T, String>,
    name: &str,
    key: &str,
    span: Range<usize>,
    faults: &mut Faults,
) -> T {
    result.unwrap_or_else(|why| {
        faults.value(span, format!("`functions.{name}.{key}`: {why}"));
        T::default()
    })
}

fn approval(name: &str, approve: &At<serde_json::Value>, faults: &mut Faults) -> Approval {
    let words = ["never", "first", "always"];
    let when = approve.get().get("when").and_then(serde_json::Value::as_str);
    match (approve.get().as_str(), when) {
        (Some("never"), _) => Approval::Never,
        (Some("first"), _) => Approval::First,
        (Some("always"), _) => Approval::Always,
        (None, Some(text)) => Approval::When(text.to_owned()),
        (word, _) => {
            let word = word.unwrap_or_default();
            let near = suggestion(word, &words);
            faults.value(approve.span(), format!("`functions.{name}.approve` cannot be `{}`; {near}", shown(word)));
            Approval::Always
        }
    }
}

/// `5s`, and more than nothing.
fn timeout(name: &str, text: &At<String>, faults: &mut Faults) -> Option<Span> {
    let key = format!("functions.{name}.timeout");
    let span: Span = faults.read(&key, text)?;
    if span.millis() == 0 {
        faults.value(text.span(), format!("`{key}` is zero, so no call could end; the usual is `60s`"));
        return None;
    }
    Some(span)
}

/// `10/min`, `3/10s`.
fn rate(name: &str, text: &At<String>, faults: &mut Faults) -> Option<Rate> {
    let found = text.get().split_once('/').and_then(|(calls, per)| {
        let (calls, per) = (calls.trim(), per.trim());
        let per = if per.starts_with(|c: char| c.is_ascii_digit()) { per.to_owned() } else { format!("1{per}") };
        let per: Span = per.parse().ok()?;
        let count = calls.bytes().all(|byte| byte.is_ascii_digit()).then(|| calls.parse::<u32>().ok())??;
        (count > 0 && per.millis() > 0).then_some(Rate { count, per })
    });
    if found.is_none() {
        let message = format!(
            "`functions.{name}.rate`: `{}` is not a rate; write it as `10/min`, `5/s` or `100/h`",
            shown(text.get())
        );
        faults.add(PolicyErrorKind::WrongValue, text.span(), message);
    }
    found
}
