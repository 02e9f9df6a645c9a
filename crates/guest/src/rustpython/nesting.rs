//! A look at the text before it is parsed: the parser recurses, and must not be led too deep.
//!
//! Answers to: `compile`. Must not: refuse what people write. It counts open brackets (CPython allows 200 as well),
//! steps of indentation, and operators between two commas.

/// Open brackets; CPython's tokenizer has the same bound.
const BRACKETS: usize = 200;
/// Levels of indentation; CPython's tokenizer has the same bound.
const INDENTS: usize = 100;
/// Operators and keywords that nest, between two separators.
const OPERATORS: usize = 3_000;

/// The line that nests too deep, from 1, if any does.
pub fn too_deep(source: &str) -> Option<u32> {
    let mut scan = Scan { bytes: source.as_bytes(), at: 0, line: 1, brackets: 0, operators: 0, indents: vec![0] };
    scan.start_of_line()?;
    while let Some(byte) = scan.peek() {
        if !scan.token(byte) {
            return Some(scan.line);
        }
    }
    None
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    brackets: usize,
    operators: usize,
    indents: Vec<usize>,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Takes one token; false where a bound is passed.
    fn token(&mut self, byte: u8) -> bool {
        match byte {
            b'\'' | b'"' => self.string(byte),
            b'#' => self.at += self.rest().iter().position(|byte| *byte == b'\n').unwrap_or(self.rest().len()),
            b'\n' => {
                self.at += 1;
                self.line = self.line.saturating_add(1);
                if self.brackets == 0 {
                    self.operators = 0;
                    return self.start_of_line().is_some();
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'0'..=b'9' | 0x80.. => self.word(),
            _ => {
                self.at += 1;
                self.sign(byte);
            }
        }
        self.brackets <= BRACKETS && self.operators <= OPERATORS && self.indents.len() <= INDENTS
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn sign(&mut self, byte: u8) {
        match byte {
            b'(' | b'[' | b'{' => self.brackets += 1,
            b')' | b']' | b'}' => self.brackets = self.brackets.saturating_sub(1),
            b',' | b';' => self.operators = 0,
            b'\\' if self.peek() == Some(b'\n') => {
                self.at += 1;
                self.line = self.line.saturating_add(1);
            }
            b'-' | b'+' | b'~' | b'*' | b'/' | b'%' | b'|' | b'&' | b'^' | b'@' | b'.' | b'=' | b'<' | b'>' => {
                self.operators += 1;
            }
            _ => {}
        }
    }

    fn word(&mut self) {
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let length = self.rest().iter().position(|byte| !inside(byte)).unwrap_or(self.rest().len());
        let word = self.rest().get(..length).unwrap_or_default();
        if matches!(word, b"not" | b"lambda" | b"await" | b"else" | b"and" | b"or" | b"yield") {
            self.operators += 1;
        }
        self.at += length.max(1);
    }

    /// A literal, to its end. What lies in the braces of an f-string is bounded by the parser's own rules.
    fn string(&mut self, quote: u8) {
        let triple = self.rest().starts_with(&[quote; 3]);
        self.at += if triple { 3 } else { 1 };
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => {
                    self.line = self.line.saturating_add(u32::from(self.bytes.get(self.at + 1) == Some(&b'\n')));
                    self.at += 2;
                }
                b'\n' if !triple => return,
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    self.at += 1;
                }
                _ if byte == quote && (!triple || self.rest().starts_with(&[quote; 3])) => {
                    self.at += if triple { 3 } else { 1 };
                    return;
                }
                _ => self.at += 1,
            }
        }
    }

    /// Keeps the levels of indentation; `None` where there are too many.
    fn start_of_line(&mut self) -> Option<()> {
        let width = self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.at += width;
        if !matches!(self.peek(), None | Some(b'\n' | b'#' | b'\r')) {
            while self.indents.last().is_some_and(|last| *last > width) {
                self.indents.pop();
            }
            if self.indents.last().is_some_and(|last| *last < width) {
                self.indents.push(width);
            }
        }
        (self.indents.len() <= INDENTS).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nests_too_deep_is_refused() {
        let check = |source: &str, want: Option<u32>| assert_eq!(too_deep(source), want, "{source:.40}");
        check("x = [(1, 2), {'a': ')'}]\n", None);
        check(&format!("x = {}{}", "(".repeat(200), ")".repeat(200)), None);
        check(&format!("\nx = {}{}", "(".repeat(201), ")".repeat(201)), Some(2));
        check(&format!("x = '{}'", "(".repeat(10_000)), None);
        check(&format!("# {}\n", "(".repeat(10_000)), None);
        check(&format!("x = '''\n{}'''\n", "[".repeat(10_000)), None);
        check(&format!("x = [{}]", "-1, ".repeat(100_000)), None);
        check(&format!("x = {}1", "-".repeat(20_000)), Some(1));
        check(&format!("x = {}1", "not ".repeat(20_000)), Some(1));
        check(&format!("x = {}1", "lambda: ".repeat(20_000)), Some(1));
        check(&(0..101).map(|depth| format!("{}if 1:\n", " ".repeat(depth))).collect::<String>(), Some(101));
        check(&(0..9_000).map(|n| format!("if x:\n  y = {n}\n")).collect::<String>(), None);
    }
}
