//! Methods of `str` that the interpreter has wrong: `split` and `rsplit` at any white space, `expandtabs`.
//!
//! Answers to: `Warm`, which puts these functions into the type. Must not: be put there once a program runs.

use std::cell::Cell;

use rustpython_vm::builtins::PyStrRef;
use rustpython_vm::function::FuncArgs;
use rustpython_vm::{PyObjectRef, PyResult, VirtualMachine};

use super::mended::method;
use super::spec::WIDEST;

/// The interpreter's own methods, which are right for all that has a separator or is ASCII.
struct Own {
    split: PyObjectRef,
    rsplit: PyObjectRef,
}

thread_local! {
    static OWN: Cell<Option<&'static Own>> = const { Cell::new(None) };
}

/// Puts them into the type.
pub fn mend(vm: &VirtualMachine) {
    let class = vm.ctx.types.str_type;
    let own = |name: &'static str| class.get_attr(vm.ctx.intern_str(name));
    let (Some(split_own), Some(rsplit_own)) = (own("split"), own("rsplit")) else { return };
    OWN.set(Some(Box::leak(Box::new(Own { split: split_own, rsplit: rsplit_own }))));
    method(class, "split", split, vm);
    method(class, "rsplit", rsplit, vm);
    method(class, "expandtabs", expandtabs, vm);
}

/// What Python calls white space.
fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\x1c'..='\x1f').contains(&letter)
}

/// Whether the interpreter's own methods see all the white space there is.
fn is_simple(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii() && !(0x1c..=0x1f).contains(&byte))
}

fn split(text: PyStrRef, args: FuncArgs, vm: &VirtualMachine) -> PyResult {
    match at_white_space(&text, &args, vm)? {
        Some(most) => Ok(listed(pieces(text.to_str().unwrap_or_default(), most), vm)),
        None => own(|own| &own.split, text, args, vm),
    }
}

fn rsplit(text: PyStrRef, args: FuncArgs, vm: &VirtualMachine) -> PyResult {
    match at_white_space(&text, &args, vm)? {
        Some(most) => Ok(listed(pieces_from_behind(text.to_str().unwrap_or_default(), most), vm)),
        None => own(|own| &own.rsplit, text, args, vm),
    }
}

fn own(which: fn(&Own) -> &PyObjectRef, text: PyStrRef, mut args: FuncArgs, vm: &VirtualMachine) -> PyResult {
    let Some(own) = OWN.get() else { return Ok(vm.ctx.none()) };
    args.prepend_arg(text.into());
    which(own).call(args, vm)
}

fn listed(pieces: Vec<&str>, vm: &VirtualMachine) -> PyObjectRef {
    vm.ctx.new_list(pieces.into_iter().map(|piece| vm.ctx.new_str(piece).into()).collect()).into()
}

/// How many splits at most, where there is no separator and the text has other than plain white space.
fn at_white_space(text: &PyStrRef, args: &FuncArgs, vm: &VirtualMachine) -> PyResult<Option<usize>> {
    let given = |at: usize, name: &str| args.args.get(at).or_else(|| args.kwargs.get(name));
    let known = args.args.len() + args.kwargs.len() <= 2
        && args.kwargs.keys().all(|name| matches!(name.as_str(), "sep" | "maxsplit"));
    let separated = given(0, "sep").is_some_and(|separator| !vm.is_none(separator));
    if !known || separated || text.to_str().is_none_or(is_simple) {
        return Ok(None);
    }
    let Some(most) = given(1, "maxsplit") else { return Ok(Some(usize::MAX)) };
    let most = most.try_index(vm)?;
    Ok(Some(usize::try_from(most.as_bigint()).unwrap_or(usize::MAX)))
}

/// The words, and after so many splits the rest with its white space at the end.
fn pieces(text: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = if pieces.len() < most { rest.find(is_space).unwrap_or(rest.len()) } else { rest.len() };
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after.trim_start_matches(is_space);
    }
    pieces
}

fn pieces_from_behind(text: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        let space = rest.char_indices().rev().find(|(_, letter)| is_space(*letter));
        let start = if pieces.len() < most { space.map_or(0, |(at, letter)| at + letter.len_utf8()) } else { 0 };
        let (before, piece) = rest.split_at(start);
        pieces.push(piece);
        rest = before.trim_end_matches(is_space);
    }
    pieces.reverse();
    pieces
}

fn expandtabs(text: PyStrRef, args: FuncArgs, vm: &VirtualMachine) -> PyResult {
    let known = args.args.len() + args.kwargs.len() <= 1 && args.kwargs.keys().all(|name| name == "tabsize");
    if !known {
        return Err(vm.new_type_error("expandtabs() takes at most 1 argument, called `tabsize`".to_owned()));
    }
    let size = match args.args.first().or_else(|| args.kwargs.get("tabsize")) {
        Some(size) => size.try_index(vm)?,
        None => vm.ctx.new_int(8),
    };
    let below = size.as_bigint() < &0.into();
    let size = usize::try_from(size.as_bigint()).unwrap_or(if below { 0 } else { WIDEST + 1 });
    let given = text.to_str().ok_or_else(|| vm.new_value_error("the text has a lone surrogate".to_owned()))?;
    if given.matches('\t').count().saturating_mul(size) > WIDEST {
        return Err(vm.new_overflow_error("new string is too long".to_owned()));
    }
    Ok(vm.ctx.new_str(expanded(given, size)).into())
}

fn expanded(text: &str, size: usize) -> String {
    let mut made = String::with_capacity(text.len());
    let mut column: usize = 0;
    for letter in text.chars() {
        match letter {
            '\t' => {
                let width = column.checked_rem(size).map_or(0, |over| size - over);
                made.extend(std::iter::repeat_n(' ', width));
                column += width;
            }
            other => {
                made.push(other);
                column = if matches!(other, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_at_all_white_space() {
        let check = |text: &str, most: usize, want: &[&str], behind: &[&str]| {
            assert_eq!(
                (pieces(text, most), pieces_from_behind(text, most)),
                (want.to_vec(), behind.to_vec()),
                "{text:?}"
            );
        };
        check("a\u{a0}b\u{3000}\u{2003}c", usize::MAX, &["a", "b", "c"], &["a", "b", "c"]);
        check("\u{a0}a b\u{a0}", 1, &["a", "b\u{a0}"], &["\u{a0}a", "b"]);
        check("\u{3000}a\u{3000}", 0, &["a\u{3000}"], &["\u{3000}a"]);
        check("a\x1cb", usize::MAX, &["a", "b"], &["a", "b"]);
        check("\u{a0} ", usize::MAX, &[], &[]);
        check("é\u{a0}", 1, &["é"], &["é"]);
    }

    #[test]
    fn tabs_go_to_the_next_stop() {
        let check = |text: &str, size: usize, want: &str| assert_eq!(expanded(text, size), want, "{text:?} {size}");
        check("a\tb\tc", 0, "abc");
        check("a\tb\n\tc", 4, "a   b\n    c");
        check("abcd\te", 4, "abcd    e");
        check("\u{fc}\tx", 8, "\u{fc}       x");
    }
}
