//! Which names a program can read as variables.
//!
//! Answers to: the front doors, which set inputs by name. Must not: take a name that the program could never write.

use ruff_python_ast::Expr;
use ruff_python_parser::parse_expression;

/// The longest name that is looked at.
const LONGEST: usize = 200;

/// Why an input can't have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InputNameFault {
    /// `class`, `None` …: the program could not write it.
    #[error("is a keyword of Python")]
    Keyword,
    /// Over [`LONGEST`] bytes.
    #[error("is longer than {LONGEST} bytes")]
    TooLong,
    /// Something else.
    #[error("is no name of Python's: letters, digits and `_`, no digit first")]
    NoName,
}

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// The variable that a program reads by this name: Python takes some letters for others, as `ﬁ` for `fi`.
pub fn input_name(name: &str) -> Result<String, InputNameFault> {
    if KEYWORDS.contains(&name) {
        return Err(InputNameFault::Keyword);
    }
    if name.len() > LONGEST {
        return Err(InputNameFault::TooLong);
    }
    let plain = name.chars().all(|letter| letter == '_' || letter.is_alphanumeric() || !letter.is_ascii());
    let read = parse_expression(name).ok().filter(|_| plain).map(ruff_python_parser::Parsed::into_expr);
    match read {
        Some(Expr::Name(variable)) if !KEYWORDS.contains(&variable.id.as_str()) => Ok(variable.id.to_string()),
        _ => Err(InputNameFault::NoName),
    }
}
