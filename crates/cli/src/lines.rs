//! Whether what was typed so far is a whole snippet, as Python's own prompt decides it.
//!
//! Answers to: `repl`. Must not: judge syntax; the interpreter does.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

/// Asks for more lines while a bracket, a string or a block is open.
#[derive(Debug, Clone, Copy)]
pub struct Blocks;

impl Validator for Blocks {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_open(context.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
impl Completer for Blocks {
    type Candidate = String;
}
impl Hinter for Blocks {
    type Hint = String;
    fn hint(&self, _line: &str, _at: usize, _context: &Context<'_>) -> Option<String> {
        None
    }
}
impl Highlighter for Blocks {}
impl Helper for Blocks {}

/// Whether more lines belong to the snippet. A block ends with an empty line.
pub fn is_open(text: &str) -> bool {
    if text.trim_start().starts_with(':') {
        return false;
    }
    let scan = Scan::of(text);
    if scan.brackets > 0 || scan.in_string || text.ends_with('\\') {
        return true;
    }
    let has_block = scan.block || text.trim_start().starts_with('@');
    has_block && !text.lines().last().is_none_or(|last| last.trim().is_empty()) && !text.ends_with('\n')
}

#[derive(Debug, Default)]
struct Scan {
    brackets: usize,
    in_string: bool,
    /// A line ended with a colon outside brackets and strings.
    block: bool,
}

impl Scan {
    fn of(text: &str) -> Self {
        let mut scan = Self::default();
        let mut rest = text;
        let mut last = ' ';
        while let Some(c) = rest.chars().next() {
            match c {
                '#' => {
                    rest = rest.get(rest.find('\n').unwrap_or(rest.len())..).unwrap_or_default();
                    continue;
                }
                '"' | '\'' => match end_of_string(rest, c) {
                    Some(end) => {
                        rest = rest.get(end..).unwrap_or_default();
                        last = c;
                        continue;
                    }
                    None => {
                        scan.in_string = rest.starts_with(&c.to_string().repeat(3));
                        return scan;
                    }
                },
                '(' | '[' | '{' => scan.brackets += 1,
                ')' | ']' | '}' => scan.brackets = scan.brackets.saturating_sub(1),
                '\n' => scan.line_ends(last),
                _ => {}
            }
            if !c.is_whitespace() {
                last = c;
            } else if c == '\n' {
                last = ' ';
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
        scan.line_ends(last);
        scan
    }

    fn line_ends(&mut self, last: char) {
        self.block |= last == ':' && self.brackets == 0;
    }
}

/// Where the string that begins here ends; `None` where it does not. One quote ends at the end of its line.
fn end_of_string(text: &str, quote: char) -> Option<usize> {
    let triple = quote.to_string().repeat(3);
    let (end, width) = if text.starts_with(&triple) { (triple, 3) } else { (quote.to_string(), 1) };
    let mut at = width;
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(&end) {
            return Some(at + width);
        }
        let c = rest.chars().next()?;
        if c == '\n' && width == 1 {
            return Some(at);
        }
        at += c.len_utf8();
        if c == '\\' {
            at += text.get(at..)?.chars().next()?.len_utf8();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_whole_as_at_pythons_prompt() {
        let check = |text: &str, open: bool| assert_eq!(is_open(text), open, "{text:?}");
        check("1+1", false);
        check("f(1,", true);
        check("f(1,\n2)", false);
        check("if x:", true);
        check("if x:\n  y", true);
        check("if x:\n  y\n", false);
        check("x = {1: 2}", false);
        check("d[1:]", false);
        check("'''a", true);
        check("'''a\n'''", false);
        check("'it'  # (", false);
        check("x = 'a:'", false);
        check("'open", false);
        check("a \\", true);
        check("@decorator", true);
        check(":help (", false);
        check("if x: # why", true);
        check("'\\'('", false);
    }
}
