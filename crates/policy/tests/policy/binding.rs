//! Binding by Python's rules, with CPython's own messages.

use ringfence_policy::{bind, unbind};
use ringfence_types::Value;

use super::declared;

fn ints(range: std::ops::RangeInclusive<i64>) -> Vec<Value> {
    range.map(Value::Int).collect()
}

fn keywords(names: &str) -> Vec<(String, Value)> {
    names.split_whitespace().map(|name| (name.to_owned(), Value::from("k"))).collect()
}

/// Binds `positional` numbers from 1 and the named keywords, each `'k'`.
fn check(head: &str, positional: i64, names: &str, want: Result<&str, &str>) {
    let spec = declared(head);
    let found = bind(&spec, ints(1..=positional), keywords(names));
    match found {
        Ok(bound) => {
            let shown = bound.iter().map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>();
            assert_eq!(Ok(&*shown.join(" ")), want, "{head}");
            let (args, kwargs) = unbind(&spec, bound.clone());
            assert_eq!(bind(&spec, args, kwargs).unwrap(), bound, "{head} taken apart and bound again");
        }
        Err(fault) => assert_eq!(Err(&*fault.to_string()), want, "{head}"),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Str(text) => text.clone(),
        Value::Tuple(items) => format!("({})", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Dict(pairs) => {
            format!(
                "{{{}}}",
                pairs.iter().map(|(key, value)| text(key) + ":" + &text(value)).collect::<Vec<_>>().join(",")
            )
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn arguments_are_bound_as_python_does() {
    check("f()", 0, "", Ok(""));
    check("f(a, b)", 2, "", Ok("a=1 b=2"));
    check("f(a, b)", 1, "b", Ok("a=1 b=k"));
    check("f(a, b=, c=)", 1, "c", Ok("a=1 c=k"));
    check("f(a, *rest)", 3, "", Ok("a=1 rest=(2,3)"));
    check("f(a, *rest, b)", 2, "b", Ok("a=1 rest=(2) b=k"));
    check("f(a, /, **more)", 1, "a b", Ok("a=1 more={a:k,b:k}"));
    check("f(*rest, **more)", 0, "", Ok(""));
    check("f(a, *, b=)", 1, "b", Ok("a=1 b=k"));
}

#[test]
fn what_does_not_fit_is_told_in_the_words_of_cpython() {
    check("add(a)", 0, "", Err("add() missing 1 required positional argument: 'a'"));
    check("add(a, b)", 0, "", Err("add() missing 2 required positional arguments: 'a' and 'b'"));
    check("add(a, b, c)", 0, "", Err("add() missing 3 required positional arguments: 'a', 'b', and 'c'"));
    check("f(*, a, b)", 0, "", Err("f() missing 2 required keyword-only arguments: 'a' and 'b'"));
    check("f(a, *, b)", 0, "", Err("f() missing 1 required positional argument: 'a'"));
    check("f(a)", 1, "x", Err("f() got an unexpected keyword argument 'x'"));
    check("f(a)", 1, "a", Err("f() got multiple values for argument 'a'"));
    check("f(a=)", 0, "a a", Err("f() got multiple values for keyword argument 'a'"));
    check("f(**more)", 0, "a a", Err("f() got multiple values for keyword argument 'a'"));
    check("f()", 1, "", Err("f() takes 0 positional arguments but 1 was given"));
    check("f(a)", 2, "", Err("f() takes 1 positional argument but 2 were given"));
    check("f(a, b=)", 3, "", Err("f() takes from 1 to 2 positional arguments but 3 were given"));
    check(
        "f(a, *, b)",
        2,
        "b",
        Err("f() takes 1 positional argument but 2 positional arguments (and 1 keyword-only argument) were given"),
    );
    check("f(a, /)", 0, "a", Err("f() got some positional-only arguments passed as keyword arguments: 'a'"));
    check("f(a, b, /)", 0, "a b", Err("f() got some positional-only arguments passed as keyword arguments: 'a, b'"));
    check("f(a)", 0, "x", Err("f() got an unexpected keyword argument 'x'"));
}
