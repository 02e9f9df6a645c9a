//! A row of comma-separated values that ends with its line: the common case of `csv.py`, which knows all the others.
//!
//! Answers to: `csv.py`. Must not: judge. Where a line is not plainly one row, the answer is `None`.

use rustpython_vm::builtins::PyStrRef;
use rustpython_vm::{PyResult, VirtualMachine};

/// The fields of `line`, or `None` where it must be looked at letter by letter.
pub fn row(line: PyStrRef, delimiter: PyStrRef, quote: PyStrRef, vm: &VirtualMachine) -> PyResult {
    let letter = |text: &PyStrRef| text.to_str().and_then(|text| text.chars().next());
    let fields = match (line.to_str(), letter(&delimiter), letter(&quote)) {
        (Some(line), Some(delimiter), Some(quote)) => fields(line, delimiter, quote),
        _ => None,
    };
    let listed = |fields: Vec<String>| fields.into_iter().map(|field| vm.ctx.new_str(field).into()).collect();
    Ok(fields.map_or_else(|| vm.ctx.none(), |fields| vm.ctx.new_list(listed(fields)).into()))
}

fn fields(line: &str, delimiter: char, quote: char) -> Option<Vec<String>> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() || delimiter == quote || matches!(quote, '\r' | '\n') {
        return None;
    }
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.strip_prefix(quote) {
            Some(inside) => quoted(inside, quote)?,
            None => {
                let end = rest.find(delimiter).unwrap_or(rest.len());
                let (field, after) = rest.split_at(end);
                if field.contains(['\r', '\n']) {
                    return None;
                }
                (field.to_owned(), after)
            }
        };
        fields.push(field);
        if after.is_empty() {
            return Some(fields);
        }
        rest = after.strip_prefix(delimiter)?;
    }
}

/// A field up to its closing quote, and what follows it.
fn quoted(mut rest: &str, quote: char) -> Option<(String, &str)> {
    let mut field = String::new();
    loop {
        let (part, after) = rest.split_once(quote)?;
        field.push_str(part);
        let Some(next) = after.strip_prefix(quote) else { return Some((field, after)) };
        field.push(quote);
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_row_is_taken() {
        let check = |line: &str, want: Option<&[&str]>| {
            let want = want.map(|fields| fields.iter().map(|field| (*field).to_owned()).collect());
            assert_eq!(fields(line, ',', '"'), want, "{line:?}");
        };
        check("a,\"b, c\",d\r\n", Some(&["a", "b, c", "d"]));
        check("\"\",\"say \"\"hi\"\"\"\n", Some(&["", "say \"hi\""]));
        check("\"a\",", Some(&["a", ""]));
        check("a\"b,c\n", Some(&["a\"b", "c"]));
        check("\"a\nb\",c\n", Some(&["a\nb", "c"]));
        check("\"a\n", None);
        check("\"a\"b,c\n", None);
        check("\"a\"\r,c\n", None);
        check("a\rb,\"c\"\n", None);
        check("\"a\"\n\n", None);
    }
}
