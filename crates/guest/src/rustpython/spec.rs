//! Format specifications such as `>10,.2f`: read and carried out on texts, ints and floats as CPython does.
//!
//! Answers to: `formats`. Must not: know the interpreter. Widths count characters, not bytes.

/// The widest field, and the longest tail of zeros, that is made.
pub const WIDEST: usize = 1 << 30;
/// Decimals that no float goes beyond: what follows is zeros.
const DECIMALS: usize = 1_100;

/// A specification that can't be read, or doesn't fit the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// For a `ValueError`.
    #[error("{0}")]
    Value(String),
    /// For an `OverflowError`.
    #[error("%c arg not in range(0x110000)")]
    Character,
    /// For a `MemoryError`.
    #[error("the field is too wide")]
    Memory,
}

type Formatted = Result<String, Misfit>;

fn wrong<T>(text: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit::Value(text.into()))
}

/// A specification, read for a type of value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    fill: char,
    align: char,
    sign: Option<char>,
    no_negative_zero: bool,
    alternate: bool,
    width: usize,
    separator: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
    of: &'static str,
}

struct Letters<'a>(&'a str);

impl Letters<'_> {
    fn peek(&self) -> Option<char> {
        self.0.chars().next()
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        let found = self.peek().filter(|letter| wanted(*letter))?;
        self.0 = self.0.get(found.len_utf8()..).unwrap_or_default();
        Some(found)
    }

    fn number(&mut self) -> Result<Option<usize>, Misfit> {
        let length = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse::<i64>().ok().and_then(|number| usize::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => wrong("Too many decimal digits in format string"),
        }
    }
}

fn is_align(letter: char) -> bool {
    matches!(letter, '<' | '>' | '=' | '^')
}

impl Spec {
    /// Reads `text` for a value of the type called `of`, which is aligned to `side` by itself.
    pub fn read(text: &str, of: &'static str, side: char) -> Result<Self, Misfit> {
        let mut rest = Letters(text);
        let (mut fill, mut align) = (None, None);
        let mut letters = text.chars();
        if let (Some(first), Some(second)) = (letters.next(), letters.next())
            && is_align(second)
        {
            (fill, align) = (Some(first), Some(second));
            rest.0 = letters.as_str();
        } else if let Some(first) = rest.take(is_align) {
            align = Some(first);
        }
        let sign = rest.take(|letter| matches!(letter, '+' | '-' | ' '));
        let no_negative_zero = rest.take(|letter| letter == 'z').is_some();
        let alternate = rest.take(|letter| letter == '#').is_some();
        if fill.is_none() && rest.take(|letter| letter == '0').is_some() {
            fill = Some('0');
            if align.is_none() && side == '>' {
                align = Some('=');
            }
        }
        let width = rest.number()?.unwrap_or(0);
        let separator = separator(&mut rest)?;
        let precision = match rest.take(|letter| letter == '.') {
            Some(_) => Some(rest.number()?.map_or_else(|| wrong("Format specifier missing precision"), Ok)?),
            None => None,
        };
        let kind = rest.take(|_| true);
        if !rest.0.is_empty() {
            return wrong(format!("Invalid format specifier '{text}' for object of type '{of}'"));
        }
        if width > WIDEST {
            return Err(Misfit::Memory);
        }
        let (fill, align) = (fill.unwrap_or(' '), align.unwrap_or(side));
        Ok(Self { fill, align, sign, no_negative_zero, alternate, width, separator, precision, kind, of })
    }

    /// A text.
    pub fn text(&self, value: &str) -> Formatted {
        let place = "not allowed in string format specifier";
        self.separated('s')?;
        if self.kind.is_some_and(|kind| kind != 's') {
            return self.unknown();
        }
        match self.sign {
            Some(' ') => return wrong(format!("Space {place}")),
            Some(_) => return wrong(format!("Sign {place}")),
            None => {}
        }
        if self.no_negative_zero {
            return wrong(format!("Negative zero coercion (z) {place}"));
        }
        if self.alternate {
            return wrong(format!("Alternate form (#) {place}"));
        }
        if self.align == '=' {
            return wrong(format!("'=' alignment {place}"));
        }
        let end = self.precision.and_then(|most| value.char_indices().nth(most)).map_or(value.len(), |(at, _)| at);
        Ok(self.padded("", value.get(..end).unwrap_or(value)))
    }

    /// An int: its sign, and its magnitude in a base. Types for floats are none of its.
    pub fn int(&self, negative: bool, magnitude: impl Fn(u32) -> String, letter: Option<char>) -> Formatted {
        let kind = self.kind.unwrap_or('d');
        self.separated('d')?;
        if self.precision.is_some() {
            return wrong("Precision not allowed in integer format specifier");
        }
        if self.no_negative_zero {
            return wrong("Negative zero coercion (z) not allowed in integer format specifier");
        }
        if kind == 'c' {
            let place = "not allowed with integer format specifier 'c'";
            if self.sign.is_some() {
                return wrong(format!("Sign {place}"));
            }
            if self.alternate {
                return wrong(format!("Alternate form (#) {place}"));
            }
            let letter = letter.ok_or(Misfit::Character)?;
            return Ok(self.padded("", letter.encode_utf8(&mut [0; 4])));
        }
        let (base, prefix) = match kind {
            'b' => (2, "0b"),
            'o' => (8, "0o"),
            'x' => (16, "0x"),
            'X' => (16, "0X"),
            _ => (10, ""),
        };
        let mut digits = magnitude(base);
        if kind == 'X' {
            digits.make_ascii_uppercase();
        }
        let front = format!("{}{}", self.sign(negative), if self.alternate { prefix } else { "" });
        Ok(self.padded(&front, &self.grouped(&digits, "", front.len(), if base == 10 { 3 } else { 4 })))
    }

    /// Whether an int must be made a float first.
    pub fn wants_float(&self) -> bool {
        matches!(self.kind, Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%'))
    }

    /// Whether an int has this type at all.
    pub fn fits_int(&self) -> bool {
        self.kind.is_none_or(|kind| matches!(kind, 'b' | 'c' | 'd' | 'o' | 'x' | 'X' | 'n'))
    }

    /// A float.
    pub fn float(&self, value: f64) -> Formatted {
        self.separated('g')?;
        if self.kind.is_some_and(|kind| !matches!(kind, 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'n' | '%')) {
            return self.unknown();
        }
        if self.precision.is_some_and(|precision| precision > i32::MAX as usize - 3) {
            return wrong("precision too big");
        }
        if self.precision.is_some_and(|precision| precision > WIDEST) {
            return Err(Misfit::Memory);
        }
        let magnitude = if self.kind == Some('%') { value.abs() * 100.0 } else { value.abs() };
        let mut text = self.magnitude(magnitude);
        if self.kind.is_some_and(|kind| kind.is_ascii_uppercase()) {
            text.make_ascii_uppercase();
        }
        let zero =
            !text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E')).any(|byte| matches!(byte, b'1'..=b'9'));
        let coerced = self.no_negative_zero && value.is_finite() && zero;
        let front = self.sign(value.is_sign_negative() && !value.is_nan() && !coerced);
        let whole = text.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = text.split_at(whole);
        Ok(self.padded(front, &self.grouped(digits, rest, front.len(), 3)))
    }

    /// The number without its sign.
    fn magnitude(&self, value: f64) -> String {
        let percent = if self.kind == Some('%') { "%" } else { "" };
        if !value.is_finite() {
            return format!("{}{percent}", if value.is_nan() { "nan" } else { "inf" });
        }
        let precision = self.precision.unwrap_or(6);
        match self.kind {
            Some('f' | 'F' | '%') => {
                let mut text = exactly(precision, |decimals| format!("{value:.decimals$}"));
                if self.alternate && precision == 0 {
                    text.push('.');
                }
                text + percent
            }
            Some('e' | 'E') => {
                let (digits, exponent) = scientific(value, precision);
                self.with_exponent(&digits, exponent)
            }
            Some(_) => self.general(value, precision.max(1), false),
            None if self.precision.is_some() => self.general(value, precision.max(1), true),
            None => self.shortest(value),
        }
    }

    /// As `repr`, or in the alternate form.
    fn shortest(&self, value: f64) -> String {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if !(-4..=15).contains(&exponent) {
            return self.with_exponent(&digits, exponent);
        }
        plain(&digits, exponent, 1)
    }

    /// `g`: so many digits, with an exponent where the number is small or large.
    fn general(&self, value: f64, precision: usize, keep_point: bool) -> String {
        let (digits, exponent) = scientific(value, precision - 1);
        let most = i64::try_from(precision).unwrap_or(i64::MAX) - i64::from(keep_point);
        let digits = if self.alternate { digits.as_str() } else { digits.trim_end_matches('0') };
        let digits = if digits.is_empty() { "0" } else { digits };
        if exponent < -4 || i64::from(exponent) + 1 > most {
            return self.with_exponent(digits, exponent);
        }
        let text = plain(digits, exponent, usize::from(keep_point));
        if self.alternate && !text.contains('.') { text + "." } else { text }
    }

    fn with_exponent(&self, digits: &str, exponent: i32) -> String {
        let (first, rest) = digits.split_at(digits.len().min(1));
        let point = if rest.is_empty() && !self.alternate { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs())
    }

    fn sign(&self, negative: bool) -> &'static str {
        match self.sign {
            _ if negative => "-",
            Some('+') => "+",
            Some(' ') => " ",
            _ => "",
        }
    }

    /// Whether the separator goes with the type: with `b`, `o` and `x` only `_` does.
    fn separated(&self, by_itself: char) -> Result<(), Misfit> {
        let Some(separator) = self.separator else { return Ok(()) };
        match self.kind.unwrap_or(by_itself) {
            'd' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%' => Ok(()),
            'b' | 'o' | 'x' | 'X' if separator == '_' => Ok(()),
            kind => wrong(format!("Cannot specify '{separator}' with '{kind}'.")),
        }
    }

    /// The type is none of the value's.
    pub fn unknown(&self) -> Formatted {
        let kind = self.kind.unwrap_or(' ');
        let kind =
            if (' '..='\u{7f}').contains(&kind) { kind.to_string() } else { format!("\\x{:x}", u32::from(kind)) };
        wrong(format!("Unknown format code '{kind}' for object of type '{}'", self.of))
    }

    /// Digits with separators; zeros that fill the field are separated too.
    fn grouped(&self, digits: &str, rest: &str, front: usize, group: usize) -> String {
        let Some(separator) = self.separator else { return format!("{digits}{rest}") };
        if digits.is_empty() {
            return rest.to_owned();
        }
        let zeros = self.fill == '0' && self.align == '=';
        let mut least = if zeros { self.width.saturating_sub(front + rest.len()) } else { 0 };
        let mut left: Vec<u8> = digits.bytes().collect();
        let mut backwards = Vec::new();
        loop {
            let count = group.min(left.len().max(least).max(1));
            backwards.extend((0..count).map(|_| left.pop().unwrap_or(b'0')));
            least = least.saturating_sub(count);
            if left.is_empty() && least == 0 {
                break;
            }
            backwards.push(u8::try_from(separator).unwrap_or(b','));
            least = least.saturating_sub(1);
        }
        let digits: String = backwards.iter().rev().map(|byte| char::from(*byte)).collect();
        digits + rest
    }

    fn padded(&self, front: &str, body: &str) -> String {
        let missing = self.width.saturating_sub(front.chars().count() + body.chars().count());
        let (before, between, after) = match self.align {
            '<' => (0, 0, missing),
            '^' => (missing / 2, 0, missing - missing / 2),
            '=' => (0, missing, 0),
            _ => (missing, 0, 0),
        };
        let fill = |count: usize| std::iter::repeat_n(self.fill, count).collect::<String>();
        format!("{}{front}{}{body}{}", fill(before), fill(between), fill(after))
    }
}

fn separator(rest: &mut Letters<'_>) -> Result<Option<char>, Misfit> {
    let Some(first) = rest.take(|letter| matches!(letter, ',' | '_')) else { return Ok(None) };
    match rest.peek() {
        Some(second @ (',' | '_')) if second == first => wrong(format!("Cannot specify '{first}' with '{second}'.")),
        Some(',' | '_') => wrong("Cannot specify both ',' and '_'."),
        _ => Ok(Some(first)),
    }
}

/// A number with so many decimals; beyond what a float has, zeros are added by hand.
fn exactly(decimals: usize, made: impl Fn(usize) -> String) -> String {
    let mut text = made(decimals.min(DECIMALS));
    text.extend(std::iter::repeat_n('0', decimals.saturating_sub(DECIMALS)));
    text
}

/// All digits of `d.ddd`, and the exponent.
fn scientific(value: f64, decimals: usize) -> (String, i32) {
    let text = format!("{value:.*e}", decimals.min(DECIMALS));
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let zeros = std::iter::repeat_n('0', decimals.saturating_sub(DECIMALS));
    (digits.chars().chain(zeros).collect(), exponent.parse().unwrap_or(0))
}

/// Digits without an exponent, with at least so many decimals.
fn plain(digits: &str, exponent: i32, decimals: usize) -> String {
    let Ok(exponent) = usize::try_from(exponent) else {
        let zeros = usize::try_from(exponent.unsigned_abs()).unwrap_or(1) - 1;
        return format!("0.{}{digits}", "0".repeat(zeros));
    };
    let whole = exponent + 1;
    if digits.len() <= whole {
        let point = if decimals > 0 { format!(".{}", "0".repeat(decimals)) } else { String::new() };
        return format!("{digits}{}{point}", "0".repeat(whole - digits.len()));
    }
    let (front, back) = digits.split_at(whole);
    format!("{front}.{back}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(made: impl Fn(&Spec) -> Formatted, spec: &str, of: &'static str, want: &str) {
        let side = if of == "str" { '<' } else { '>' };
        let got = Spec::read(spec, of, side).and_then(|spec| made(&spec));
        assert_eq!(got.unwrap_or_else(|misfit| misfit.to_string()), want, "{spec}");
    }

    #[test]
    fn texts_are_cut_and_padded_by_characters() {
        let text = |value: &'static str, spec: &str, want: &str| check(|spec| spec.text(value), spec, "str", want);
        text("Ana", "8.2", "An      ");
        text("\u{fc}ber", ".1", "\u{fc}");
        text("abc", "010", "abc0000000");
        text("abc", "*^6", "*abc**");
        text("abc", "=5", "'=' alignment not allowed in string format specifier");
        text("abc", "+,d", "Unknown format code 'd' for object of type 'str'");
        text("abc", "_", "Cannot specify '_' with 's'.");
        text("abc", "1073741825", "the field is too wide");
    }

    #[test]
    fn floats_have_the_digits_that_were_asked_for() {
        let float = |value: f64, spec: &str, want: &str| check(|spec| spec.float(value), spec, "float", want);
        float(1.0, ".3", "1.0");
        float(1.0, ".1", "1e+00");
        float(1e22, ",", "1e+22");
        float(1e16, "", "1e+16");
        float(1234.5, "010,.1f", "0,001,234.5");
        float(1.5, "#g", "1.50000");
        float(0.0, "g", "0");
        float(0.5, ".0%", "50%");
        float(-0.001, "z.1f", "0.0");
        float(f64::NAN, "+06", "+00nan");
        float(f64::INFINITY, "F", "INF");
        float(2.0, ".1200f", &format!("2.{}", "0".repeat(1200)));
        float(1.0, "d", "Unknown format code 'd' for object of type 'float'");
        float(1.0, ".2147483647f", "precision too big");
    }

    #[test]
    fn ints_are_grouped_within_their_field() {
        let magnitude = |base: u32| if base == 16 { "4d2".to_owned() } else { "1234".to_owned() };
        let int = |spec: &str, want: &str| check(|spec| spec.int(true, magnitude, Some('x')), spec, "int", want);
        int(",", "-1,234");
        int("010,", "-0,001,234");
        int("09,", "-0,001,234");
        int("#X", "-0X4D2");
        int("=+8", "-   1234");
        int("c", "x");
        int(".1", "Precision not allowed in integer format specifier");
        int(",x", "Cannot specify ',' with 'x'.");
        int("5x5", "Invalid format specifier '5x5' for object of type 'int'");
    }
}
