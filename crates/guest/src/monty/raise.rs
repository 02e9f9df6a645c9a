//! Monty's exceptions as the guest's, and those that only say that monty lacks something.
//!
//! Answers to: the engine, when a snippet ends by an exception. Must not: report a gap of monty's as the program's
//! own fault where the gap can be told; a wrong guess in the other direction costs a second run on the other engine.

use monty_types::{ExcType, MontyException, MontyObject, StackFrame};
use ringfence_types::{GuestError, GuestException, TraceFrame};

use super::gaps;
use crate::engine::{Ended, Unsupported};

/// What the engine knows of the snippets that were fed: monty calls the n-th one `<python-input-n>`.
pub(super) fn ended(exception: &MontyException, files: &[String]) -> Ended {
    let line = exception.traceback().last().map(|frame| frame.start.line);
    match lacking(exception) {
        Some(feature) => Ended::Unsupported(Unsupported { feature, line }),
        None => Ended::Raised(guest_exception(exception, files)),
    }
}

/// The exception that a host function's failure becomes. Types that end the program rather than a call are not taken.
pub(super) fn from_host(error: &GuestError) -> MontyException {
    let name = match error.exception.as_str() {
        "JSONDecodeError" => "json.JSONDecodeError",
        "UnsupportedOperation" => "io.UnsupportedOperation",
        "IOError" | "EnvironmentError" => "OSError",
        name => name,
    };
    match name.parse::<ExcType>() {
        Ok(kind) if kind.is_subclass_of(ExcType::Exception) => MontyException::new(kind, Some(error.message.clone())),
        _ => {
            let message = format!("{}: {}", error.exception, error.message);
            MontyException::new(ExcType::RuntimeError, Some(message))
        }
    }
}

fn guest_exception(exception: &MontyException, files: &[String]) -> GuestException {
    let name = exception.exc_type().to_string();
    let message = match exception.exc_type() {
        ExcType::KeyError => key_text(exception.message()),
        _ => exception.message().unwrap_or_default().to_owned(),
    };
    let exit_code = (exception.exc_type() == ExcType::SystemExit).then(|| match exception.message() {
        None | Some("None") => 0,
        Some(code) => code.parse().unwrap_or(1),
    });
    GuestException {
        kind: name.rsplit('.').next().unwrap_or(&name).to_owned(),
        message: shortened(message),
        frames: exception.traceback().iter().map(|frame| trace_frame(frame, files)).collect(),
        cause: None,
        notes: Vec::new(),
        exit_code,
    }
}

/// The longest message that is told, as in the other engine.
const MESSAGE: usize = 64 << 10;

fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE {
        let end = (0..=MESSAGE).rev().find(|at| message.is_char_boundary(*at)).unwrap_or_default();
        message.truncate(end);
        message.push('…');
    }
    message
}

/// What a program that leaves with a text says on standard error, as the interpreter would on its way out.
pub(super) fn last_words(exception: &GuestException) -> Option<&str> {
    let text = exception.message.as_str();
    let code = text.is_empty() || text == "None" || text.parse::<i64>().is_ok();
    (exception.exit_code.is_some() && !code).then_some(text)
}

/// The `str()` of a `KeyError`, which is its key's repr. Monty keeps the text of the key only, so a text that reads
/// like a number or a tuple is taken for one.
fn key_text(key: Option<&str>) -> String {
    let Some(key) = key else { return String::new() };
    let other =
        key.parse::<f64>().is_ok() || key.starts_with(['(', '\'', '"']) || matches!(key, "None" | "True" | "False");
    if other { key.to_owned() } else { MontyObject::String(key.to_owned()).py_repr() }
}

fn trace_frame(frame: &StackFrame, files: &[String]) -> TraceFrame {
    let number = frame.filename.strip_prefix("<python-input-").and_then(|rest| rest.strip_suffix('>'));
    let file = number.and_then(|number| files.get(number.parse::<usize>().ok()?)).unwrap_or(&frame.filename);
    TraceFrame {
        file: file.clone(),
        line: frame.start.line,
        function: frame.frame_name.clone().unwrap_or_else(|| "<module>".to_owned()),
        source: frame.preview_line.as_ref().map(|line| line.trim().to_owned()),
    }
}

/// The feature whose lack the exception tells of.
fn lacking(exception: &MontyException) -> Option<String> {
    let message = exception.message().unwrap_or_default();
    if let Some(feature) = message.strip_prefix("The monty syntax parser does not yet support ") {
        return Some(feature.trim_start_matches("the ").to_owned());
    }
    if message.ends_with(" in this context") && message.contains("is not yet supported") {
        return Some("a host call inside a library callback".to_owned());
    }
    if ["onty", "is not yet supported", "are not yet supported"].iter().any(|mark| message.contains(mark)) {
        return Some(format!("what raised `{}`", clip(message)));
    }
    if raised_by_the_program(exception) {
        return None;
    }
    let names = quoted(message);
    let name = names.first().copied().unwrap_or_default();
    match exception.exc_type() {
        ExcType::NotImplementedError | ExcType::RePatternError => Some(format!("what raised `{}`", clip(message))),
        ExcType::ModuleNotFoundError => Some(format!("module {}", name.split('.').next().unwrap_or(name))),
        ExcType::ImportError if message.starts_with("cannot import name") => {
            Some(format!("{}.{name}", names.get(1).copied().unwrap_or_default()))
        }
        ExcType::AttributeError if names.len() == 2 => missing_attribute(message, name, names.get(1)?),
        ExcType::NameError if gaps::BUILTINS.contains(&name) => Some(format!("the built-in name {name}")),
        ExcType::TypeError | ExcType::OverflowError if gaps::ERRORS.iter().any(|mark| message.contains(mark)) => {
            Some(format!("what raised `{}`", clip(message)))
        }
        ExcType::TypeError if message.contains("not supported between") || message.contains("unsupported operand") => {
            missing_operator(message, &names)
        }
        _ => None,
    }
}

fn missing_attribute(message: &str, owner: &str, attribute: &str) -> Option<String> {
    if owner == "module" || message.starts_with("module ") || attribute.starts_with("__") {
        return Some(format!("{owner}.{attribute}"));
    }
    let known = gaps::METHODS.iter().find(|(kind, _)| *kind == owner)?;
    known.1.split(' ').any(|method| method == attribute).then(|| format!("{owner}.{attribute}"))
}

/// Operators that CPython has: between numbers, `%` on text, `|` on dicts, orders of sets, and whatever a class of the
/// program's or of a module's may define.
fn missing_operator(message: &str, names: &[&str]) -> Option<String> {
    let operands = if message.starts_with("unsupported") { names } else { names.get(1..)? };
    let all = |kinds: &[&str]| operands.iter().all(|operand| kinds.contains(operand));
    let gap = all(&["int", "bool", "float"])
        || all(&["set", "frozenset"])
        || (message.contains(" for |") && all(&["dict"]))
        || (message.contains(" for %") && operands.first().is_some_and(|left| matches!(*left, "str" | "bytes")))
        || operands.iter().any(|operand| !gaps::PLAIN.contains(operand));
    gap.then(|| format!("what raised `{}`", clip(message)))
}

/// Whether the innermost frame stands at a `raise` or `assert` of the program's own.
fn raised_by_the_program(exception: &MontyException) -> bool {
    let line = exception.traceback().last().and_then(|frame| frame.preview_line.as_deref()).unwrap_or_default();
    let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.any(|word| matches!(word, "raise" | "assert"))
}

/// The texts between single quotes.
fn quoted(message: &str) -> Vec<&str> {
    message.split('\'').skip(1).step_by(2).collect()
}

fn clip(message: &str) -> String {
    message.chars().take(120).collect()
}
