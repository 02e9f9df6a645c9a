//! Keeps control sequences of guests away from terminals.
//!
//! Answers to: `printer`. Must not: hold back more than the start of one character.

/// Shows every control character but newline, carriage return and tab as its escape.
#[derive(Debug, Default)]
pub struct Filter {
    on: bool,
    /// The start of a character whose rest has not come yet.
    begun: Vec<u8>,
}

impl Filter {
    /// For a terminal.
    pub fn terminal() -> Self {
        Self { on: true, begun: Vec::new() }
    }

    /// For a pipe or a file: everything passes.
    pub fn off() -> Self {
        Self::default()
    }

    /// What of these bytes may be written now.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        if !self.on {
            return bytes.to_vec();
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut out = String::with_capacity(all.len());
        for chunk in all.utf8_chunks() {
            chunk.valid().chars().for_each(|c| push(&mut out, c));
            if !chunk.invalid().is_empty() {
                self.begun = chunk.invalid().to_vec();
                if !all.ends_with(&self.begun) || !unfinished(&self.begun) {
                    out.push('\u{fffd}');
                    self.begun.clear();
                }
            }
        }
        out.into_bytes()
    }
}

fn unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn push(out: &mut String, c: char) {
    let steers = c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match u32::from(c) {
        code if steers && code < 0x100 => out.push_str(&format!("\\x{code:02x}")),
        code if steers || turns => out.push_str(&format!("\\u{code:04x}")),
        _ => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], want: &str) {
        let mut filter = Filter::terminal();
        let shown: Vec<u8> = pieces.iter().flat_map(|piece| filter.pass(piece)).collect();
        assert_eq!(String::from_utf8(shown).expect("text"), want);
    }

    #[test]
    fn a_terminal_is_not_steered() {
        check(&[b"a\tb\r\n"], "a\tb\r\n");
        check(&[b"\x1b[31mred\x1b]0;title\x07"], "\\x1b[31mred\\x1b]0;title\\x07");
        check(&["\u{9b}31m".as_bytes()], "\\x9b31m");
        check(&["\u{202e}txt".as_bytes()], "\\u202etxt");
        check(&[b"\xc3", b"\xa9"], "\u{e9}");
        check(&[b"\xc2", b"\x9b1m"], "\\x9b1m");
        check(&[b"\xff\xfex"], "\u{fffd}\u{fffd}x");
        check(&[b"\xf0\x9f", b"\x98", b"\x80!"], "\u{1f600}!");
    }

    #[test]
    fn a_pipe_gets_the_bytes() {
        assert_eq!(Filter::off().pass(b"\x1b[1m\xff"), b"\x1b[1m\xff");
    }
}
