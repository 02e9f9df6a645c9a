//! JSON to objects, by the library's rules for what is a number. What is out of the ordinary is left to the library.
//!
//! Answers to: `mended.py`, which puts it before `json`'s own scanner. Must not: word an error; `None` means that the
//! library's scanner shall look, which says what is wrong.

use rustpython_vm::builtins::PyStrRef;
use rustpython_vm::function::OptionalArg;
use rustpython_vm::{PyObjectRef, PyResult, VirtualMachine};

/// The functions that a decoder was given, in place of the plain ones.
struct Hooks {
    object: Option<PyObjectRef>,
    pairs: Option<PyObjectRef>,
    float: Option<PyObjectRef>,
    int: Option<PyObjectRef>,
    constant: Option<PyObjectRef>,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    strict: bool,
    hooks: Hooks,
    vm: &'a VirtualMachine,
}

/// A value, or `None` where the text is not in order.
type Scanned<T = PyObjectRef> = PyResult<Option<T>>;

/// `(value, end)` of the value that begins at the character `start`, or `None`. `hooks` has the five functions, or
/// is left out.
pub fn scan(
    text: PyStrRef,
    start: usize,
    strict: bool,
    hooks: OptionalArg<Vec<PyObjectRef>>,
    vm: &VirtualMachine,
) -> PyResult {
    let Some(plain) = text.to_str() else { return Ok(vm.ctx.none()) };
    let Some(at) = to_byte(plain, start) else { return Ok(vm.ctx.none()) };
    let mut given =
        hooks.into_option().unwrap_or_default().into_iter().map(|hook| (!vm.is_none(&hook)).then_some(hook));
    let mut next = || given.next().flatten();
    let hooks = Hooks { object: next(), pairs: next(), float: next(), int: next(), constant: next() };
    let mut scanner = Scanner { text: plain, at, strict, hooks, vm };
    let Some(value) = scanner.value()? else { return Ok(vm.ctx.none()) };
    let end =
        if plain.is_ascii() { scanner.at } else { plain.get(..scanner.at).map_or(0, |read| read.chars().count()) };
    Ok(vm.ctx.new_tuple(vec![value, vm.ctx.new_int(end).into()]).into())
}

fn to_byte(text: &str, character: usize) -> Option<usize> {
    if text.is_ascii() {
        return (character <= text.len()).then_some(character);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(character)
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Scanned {
        let vm = self.vm;
        match self.peek() {
            Some(b'"') => Ok(self.string().map(|text| vm.ctx.new_str(text).into())),
            Some(b'{') => vm.with_recursion("while decoding a JSON object from a unicode string", || self.object()),
            Some(b'[') => vm.with_recursion("while decoding a JSON array from a unicode string", || self.array()),
            Some(b'-' | b'0'..=b'9') if !self.rest().starts_with("-I") => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Scanned {
        let ctx = &self.vm.ctx;
        let words: [(&str, PyObjectRef); 3] =
            [("null", ctx.none()), ("true", ctx.new_bool(true).into()), ("false", ctx.new_bool(false).into())];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(Some(value));
            }
        }
        let constants = [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];
        for (word, value) in constants {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return match &self.hooks.constant {
                    Some(hook) => hook.call((word.to_owned(),), self.vm).map(Some),
                    None => Ok(Some(ctx.new_float(value).into())),
                };
            }
        }
        Ok(None)
    }

    fn digits(&self, from: usize) -> usize {
        self.text.as_bytes().iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// As the library's pattern: what follows a number that could not belong to it is left standing.
    fn number(&mut self) -> Scanned {
        let start = self.at;
        let first = start + usize::from(self.peek() == Some(b'-'));
        let count = match self.text.as_bytes().get(first) {
            Some(b'0') => 1,
            _ => self.digits(first),
        };
        if count == 0 {
            return Ok(None);
        }
        let byte = |at: usize| self.text.as_bytes().get(at).copied();
        let whole = first + count;
        let mut end = whole;
        if byte(end) == Some(b'.') && self.digits(end + 1) > 0 {
            end += 1 + self.digits(end + 1);
        }
        if matches!(byte(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(byte(end + 1), Some(b'+' | b'-')));
            let digits = self.digits(end + 1 + sign);
            end += if digits > 0 { 1 + sign + digits } else { 0 };
        }
        let text = self.text.get(start..end).unwrap_or_default();
        self.at = end;
        let (vm, ctx) = (self.vm, &self.vm.ctx);
        if end > whole {
            return match &self.hooks.float {
                Some(hook) => hook.call((text.to_owned(),), vm).map(Some),
                None => Ok(text.parse::<f64>().ok().map(|number| ctx.new_float(number).into())),
            };
        }
        match (&self.hooks.int, text.parse::<i64>()) {
            (Some(hook), _) => hook.call((text.to_owned(),), vm).map(Some),
            (None, Ok(number)) => Ok(Some(ctx.new_int(number).into())),
            (None, Err(_)) => {
                let class: PyObjectRef = ctx.types.int_type.to_owned().into();
                class.call((text.to_owned(),), vm).map(Some)
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let mut made = String::new();
        loop {
            let rest = self.rest();
            let length = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || (byte < 0x20 && self.strict))?;
            made.push_str(rest.get(..length)?);
            self.at += length + 1;
            match rest.as_bytes().get(length)? {
                b'"' => return Some(made),
                b'\\' => made.push(self.escape()?),
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        Some(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                let second = if self.take(b'\\') && self.take(b'u') { self.hex()? } else { return None };
                let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + low);
            }
            _ => return None,
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    fn array(&mut self) -> Scanned {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Some(self.vm.ctx.new_list(items).into()));
        }
        loop {
            let Some(item) = self.value()? else { return Ok(None) };
            items.push(item);
            self.skip_space();
            if self.take(b']') {
                return Ok(Some(self.vm.ctx.new_list(items).into()));
            }
            if !self.take(b',') {
                return Ok(None);
            }
            self.skip_space();
        }
    }

    fn object(&mut self) -> Scanned {
        self.at += 1;
        let mut rows = Vec::new();
        self.skip_space();
        if self.take(b'}') {
            return self.finished(rows);
        }
        loop {
            if self.peek() != Some(b'"') {
                return Ok(None);
            }
            let Some(key) = self.string() else { return Ok(None) };
            self.skip_space();
            if !self.take(b':') {
                return Ok(None);
            }
            self.skip_space();
            let Some(value) = self.value()? else { return Ok(None) };
            rows.push((key, value));
            self.skip_space();
            if self.take(b'}') {
                return self.finished(rows);
            }
            if !self.take(b',') {
                return Ok(None);
            }
            self.skip_space();
        }
    }

    fn finished(&self, rows: Vec<(String, PyObjectRef)>) -> Scanned {
        let (vm, ctx) = (self.vm, &self.vm.ctx);
        if let Some(hook) = &self.hooks.pairs {
            let pairs = rows.into_iter().map(|(key, value)| ctx.new_tuple(vec![ctx.new_str(key).into(), value]).into());
            return hook.call((ctx.new_list(pairs.collect()),), vm).map(Some);
        }
        let dict = ctx.new_dict();
        for (key, value) in rows {
            dict.set_item(&*ctx.new_str(key), value, vm)?;
        }
        match &self.hooks.object {
            Some(hook) => hook.call((dict,), vm).map(Some),
            None => Ok(Some(dict.into())),
        }
    }
}
