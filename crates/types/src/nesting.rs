//! How deeply a source text nests, told from its characters, before any parser sees it.
//!
//! Answers to: `analysis` on the host and the engines in the guest, whose parsers recurse. Must not: build anything
//! that grows with the source, except a stack bounded by [`Nesting::MAX_BRACKETS`].
//! A wrong guess is harmless in one direction only: text that is not Python may be measured as deeper than it is.

use std::fmt;

/// The deepest nesting found in a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nesting {
    /// Brackets open at once, the braces of f-strings included.
    pub brackets: usize,
    /// Operators, accesses and calls in one expression, those of its enclosing brackets included.
    pub chain: usize,
    /// Levels of indentation.
    pub indents: usize,
}

/// Source that nests too deeply for the parsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at line {line}; at most {allowed} are allowed")]
pub struct TooDeep {
    /// `too many nested parentheses`, `too many levels of indentation` or `too many operators in one expression`.
    pub what: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The bound.
    pub allowed: usize,
}

impl Nesting {
    /// Brackets open at once, as CPython allows.
    pub const MAX_BRACKETS: usize = 200;
    /// Levels of indentation, as CPython allows.
    pub const MAX_INDENTS: usize = 100;
    /// Operators in one expression.
    pub const MAX_CHAIN: usize = 3_000;

    /// Measures `code`, and stops at the first place that is too deep.
    pub fn measure(code: &str) -> Result<Self, TooDeep> {
        let mut scan = Scan { bytes: code.as_bytes(), ..Scan::default() };
        while scan.at < scan.bytes.len() {
            scan.step()?;
        }
        Ok(scan.deepest)
    }
}

/// What is open: a bracket, or an f-string whose text is being read.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Bracket,
    /// A replacement field of an f-string; `spec` once its format specification has begun.
    Field {
        spec: bool,
    },
    Text {
        quote: u8,
        triple: bool,
    },
}

#[derive(Default)]
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    open: Vec<(Open, usize)>,
    brackets: usize,
    chain: usize,
    total_chain: usize,
    indents: Vec<usize>,
    line_begun: bool,
    deepest: Nesting,
}

const WORDS: [&[u8]; 11] = [b"not", b"lambda", b"if", b"else", b"await", b"and", b"or", b"in", b"is", b"for", b"yield"];

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn step(&mut self) -> Result<(), TooDeep> {
        match self.open.last().map(|(open, _)| *open) {
            Some(Open::Text { quote, triple }) => self.text(quote, triple),
            Some(Open::Field { spec: true }) => self.specification(),
            _ => self.code(),
        }
    }

    fn code(&mut self) -> Result<(), TooDeep> {
        if self.open.is_empty() && !self.line_begun {
            return self.line_start();
        }
        let byte = self.peek(0);
        match byte {
            b'#' => self.skip_line(),
            b'\\' => self.backslash(),
            b'\n' | b'\r' => self.newline(),
            b'"' | b'\'' => self.string(false)?,
            b'(' | b'[' | b'{' => self.push(Open::Bracket)?,
            b')' | b']' | b'}' => self.close()?,
            b',' | b';' => self.separate(),
            b':' if self.open.last().is_some_and(|(open, _)| *open == Open::Field { spec: false }) => {
                self.replace(Open::Field { spec: true });
            }
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'@' | b'&' | b'|' | b'^' | b'~' | b'<' | b'>' | b'=' | b'!' => {
                self.link()?;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.word()?,
            _ => self.at += 1,
        }
        Ok(())
    }

    /// The indentation of a logical line. Empty lines and comments have none.
    fn line_start(&mut self) -> Result<(), TooDeep> {
        let mut width = 0;
        while let b' ' | b'\t' | 0x0c = self.peek(0) {
            width += 1;
            self.at += 1;
        }
        if matches!(self.peek(0), b'\n' | b'\r' | b'#') {
            self.skip_line();
            self.newline();
            return Ok(());
        }
        self.line_begun = true;
        while self.indents.last().is_some_and(|outer| *outer >= width) {
            self.indents.pop();
        }
        if width > 0 {
            self.indents.push(width);
        }
        self.deepest.indents = self.deepest.indents.max(self.indents.len());
        self.bound(self.indents.len(), Nesting::MAX_INDENTS, "too many levels of indentation")
    }

    fn newline(&mut self) {
        if self.at < self.bytes.len() {
            let crlf = self.peek(0) == b'\r' && self.peek(1) == b'\n';
            self.at += if crlf { 2 } else { 1 };
            self.line += 1;
        }
        if self.open.is_empty() {
            self.line_begun = false;
            self.separate_only();
        }
    }

    fn skip_line(&mut self) {
        while self.at < self.bytes.len() && !matches!(self.peek(0), b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// A line joined to the next one.
    fn backslash(&mut self) {
        self.at += 1;
        if matches!(self.peek(0), b'\n' | b'\r') {
            self.line += 1;
            self.at += 1;
        }
    }

    fn separate(&mut self) {
        self.at += 1;
        self.separate_only();
    }

    fn separate_only(&mut self) {
        self.total_chain = self.total_chain.saturating_sub(self.chain);
        self.chain = 0;
    }

    fn link(&mut self) -> Result<(), TooDeep> {
        self.at += 1;
        self.count_link()
    }

    fn count_link(&mut self) -> Result<(), TooDeep> {
        self.chain += 1;
        self.total_chain += 1;
        self.deepest.chain = self.deepest.chain.max(self.total_chain);
        self.bound(self.total_chain, Nesting::MAX_CHAIN, "too many operators in one expression")
    }

    fn push(&mut self, open: Open) -> Result<(), TooDeep> {
        self.at += 1;
        self.open.push((open, self.chain));
        self.chain = 0;
        self.brackets += 1;
        self.deepest.brackets = self.deepest.brackets.max(self.brackets);
        self.bound(self.brackets, Nesting::MAX_BRACKETS, "too many nested parentheses")
    }

    fn close(&mut self) -> Result<(), TooDeep> {
        self.at += 1;
        let Some((_, outer)) = self.open.pop() else { return Ok(()) };
        self.brackets = self.brackets.saturating_sub(1);
        self.total_chain = self.total_chain.saturating_sub(self.chain);
        self.chain = outer;
        self.count_link()
    }

    fn replace(&mut self, with: Open) {
        self.at += 1;
        if let Some((open, _)) = self.open.last_mut() {
            *open = with;
        }
    }

    fn word(&mut self) -> Result<(), TooDeep> {
        let start = self.at;
        while matches!(self.peek(0), b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'0'..=b'9' | 0x80..) {
            self.at += 1;
        }
        let word = self.bytes.get(start..self.at).unwrap_or_default();
        if matches!(self.peek(0), b'"' | b'\'') && word.len() <= 2 {
            let formatted = word.iter().any(|letter| matches!(letter, b'f' | b'F' | b't' | b'T'));
            return self.string(formatted);
        }
        if WORDS.contains(&word) { self.count_link() } else { Ok(()) }
    }

    /// A string literal from its first quote: skipped, or opened where it is an f-string.
    fn string(&mut self, formatted: bool) -> Result<(), TooDeep> {
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        self.at += if triple { 2 } else { 0 };
        if formatted {
            return self.push(Open::Text { quote, triple });
        }
        self.at += 1;
        while self.at < self.bytes.len() && !self.text_end(quote, triple) {
            self.text_byte();
        }
        Ok(())
    }

    /// Steps over the closing quote, if it is here. A single-quoted string ends with its line at the latest.
    fn text_end(&mut self, quote: u8, triple: bool) -> bool {
        let byte = self.peek(0);
        if byte == quote && (!triple || (self.peek(1) == quote && self.peek(2) == quote)) {
            self.at += if triple { 3 } else { 1 };
            return true;
        }
        !triple && matches!(byte, b'\n' | b'\r')
    }

    fn text_byte(&mut self) {
        if self.peek(0) == b'\\' && !matches!(self.peek(1), b'{' | b'}') {
            self.at += 1;
        }
        if self.peek(0) == b'\n' {
            self.line += 1;
        }
        self.at += 1;
    }

    fn text(&mut self, quote: u8, triple: bool) -> Result<(), TooDeep> {
        if self.text_end(quote, triple) {
            let at = self.at;
            self.close()?;
            self.at = at;
            return Ok(());
        }
        match (self.peek(0), self.peek(1)) {
            (b'{', b'{') | (b'}', b'}') => self.at += 2,
            (b'{', _) => self.push(Open::Field { spec: false })?,
            _ => self.text_byte(),
        }
        Ok(())
    }

    fn specification(&mut self) -> Result<(), TooDeep> {
        match self.peek(0) {
            b'{' => self.push(Open::Field { spec: false }),
            b'}' => self.close(),
            b'\n' | b'\r' | b'"' | b'\'' if !self.in_triple() => {
                // An unfinished field: the f-string around it ends here.
                let at = self.at;
                self.close()?;
                self.at = at;
                Ok(())
            }
            _ => {
                self.text_byte();
                Ok(())
            }
        }
    }

    fn in_triple(&self) -> bool {
        self.open.iter().any(|(open, _)| matches!(open, Open::Text { triple: true, .. }))
    }

    fn bound(&self, reached: usize, allowed: usize, what: &'static str) -> Result<(), TooDeep> {
        if reached > allowed { Err(TooDeep { what, line: self.line.saturating_add(1), allowed }) } else { Ok(()) }
    }
}

impl fmt::Display for Nesting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} brackets, {} operators, {} indents", self.brackets, self.chain, self.indents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, want: &str) {
        let got = match Nesting::measure(code) {
            Ok(nesting) => nesting.to_string(),
            Err(fault) => fault.to_string(),
        };
        assert_eq!(got, want, "{}", code.chars().take(80).collect::<String>());
    }

    #[test]
    fn nesting_is_measured_outside_strings_and_comments() {
        check("x = 1", "0 brackets, 1 operators, 0 indents");
        check("'(((' # ((((\n((1))", "2 brackets, 1 operators, 0 indents");
        check("'''(\n(((''' + \"\\\"((\"", "0 brackets, 1 operators, 0 indents");
        check("if a:\n  if b:\n\n    c\n  d\n", "0 brackets, 1 operators, 2 indents");
        check("f'{a[0]:>{w}} {{(((' + '((('", "3 brackets, 2 operators, 0 indents");
        check("[1.5, 2.5, -3]", "1 brackets, 1 operators, 0 indents");
        check("f(a)(b)(c).d", "1 brackets, 4 operators, 0 indents");
    }

    #[test]
    fn deep_source_is_refused_at_its_line() {
        let deep = |part: &str, count: usize| part.repeat(count);
        check(&deep("(", 10_000_000), "too many nested parentheses at line 1; at most 200 are allowed");
        check(&deep("[(\n{", 1_000_000), "too many nested parentheses at line 68; at most 200 are allowed");
        check(&deep("f'{", 1_000_000), "too many nested parentheses at line 1; at most 200 are allowed");
        check(&deep("-", 1_000_000), "too many operators in one expression at line 1; at most 3000 are allowed");
        check(&deep("not ", 1_000_000), "too many operators in one expression at line 1; at most 3000 are allowed");
        check(&deep("a.", 1_000_000), "too many operators in one expression at line 1; at most 3000 are allowed");
        check(&deep("(')',", 1_000_000), "too many nested parentheses at line 1; at most 200 are allowed");
        check(&deep("lambda:", 10_000), "too many operators in one expression at line 1; at most 3000 are allowed");
        let indented: String = (0..150).map(|level| format!("{}if a:\n", " ".repeat(level))).collect();
        check(&indented, "too many levels of indentation at line 102; at most 100 are allowed");
    }

    #[test]
    fn long_flat_source_is_not_deep() {
        check(&format!("x = [{}]", "-1.5, ".repeat(100_000)), "1 brackets, 3 operators, 0 indents");
        check(&"x = a + b\n".repeat(100_000), "0 brackets, 2 operators, 0 indents");
    }
}
