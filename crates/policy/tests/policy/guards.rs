//! What permits are given and refused for, every refusal with its exact text and hint.

use ringfence_policy::{ApprovalNeed, Denial, Effect, Permit, Policy};
use ringfence_types::{GuestPath, ParameterKind, Value};

use super::{ask, declared, granted};

fn permit(rule: &str, value: Value) -> Result<Permit, Denial> {
    let grant = granted(&format!("[functions.f]\n{rule}"), vec![declared("f(x=)")]);
    grant.permit(&Effect::Call { function: "f", arguments: &[("x".to_owned(), value)] })
}

/// `Ok`: the argument that the permit carries; `Err`: what stands after the colon.
fn check(rule: &str, value: impl Into<Value>, want: Result<&str, &str>) {
    let value = value.into();
    let shown = format!("{rule}: {value:?}");
    match permit(rule, value) {
        Ok(permit) => {
            let carried = match &permit.arguments()[0].1 {
                Value::Str(text) | Value::Path(text) => text.clone(),
                other => format!("{other:?}"),
            };
            assert_eq!(Ok(&*carried), want, "{shown}");
        }
        Err(denial) => {
            let text = denial.to_string();
            let text = text.strip_prefix("policy does not allow this call of host function `f`: ").unwrap_or(&text);
            assert_eq!(Err(text), want, "{shown}");
        }
    }
}

#[test]
fn only_the_declared_spelling_of_a_listed_function_is_known() {
    let grant = granted("[functions.send_mail]", vec![declared("send_mail()"), declared("other()")]);
    let call = |function: &str| grant.permit(&Effect::Call { function, arguments: &[] });
    assert_eq!(call("send_mail").unwrap().function(), Some("send_mail"));
    for name in [
        "Send_mail",
        "SEND_MAIL",
        " send_mail",
        "send_mail ",
        "send\u{ff3f}mail",
        "ｓend_mail",
        "send_maıl",
        "send_mail\0",
        "sеnd_mail",
        "send_mail\u{200b}",
        "",
        "other",
    ] {
        let denial = call(name).unwrap_err();
        assert_eq!(denial.code(), "function", "{name}");
        assert_eq!(denial.hint(), "add it under `[functions]`", "{name}");
    }
    assert_eq!(call("other").unwrap_err().to_string(), "policy does not allow host function `other`");
    assert_eq!(
        call("a\u{202e}`b").unwrap_err().to_string(),
        "policy does not allow host function `a\\u{202e}\\u{60}b`"
    );
    let undeclared =
        granted("[functions.f]", vec![]).permit(&Effect::Call { function: "f", arguments: &[] }).unwrap_err();
    assert_eq!(undeclared.hint(), "the caller must declare it");
}

#[test]
fn bounds_imply_their_type() {
    let bound = "arguments.x = { minimum = 1, maximum = 50 }";
    check(bound, 50, Ok("Int(50)"));
    check(bound, 51, Err("`args.x` must be at most 50, not 51 (int)"));
    check(bound, "9", Err("`args.x` must be a number, not '9' (str)"));
    check(bound, true, Err("`args.x` must be a number, not True (bool)"));
    check(bound, f64::NAN, Err("`args.x` must be at least 1, not NaN (float)"));
    check(bound, Value::None, Err("`args.x` must be a number, not None"));
    check("arguments.x = { in = ['a', 'b'] }", "c", Err("`args.x` must be one of [\"a\",\"b\"], not 'c' (str)"));
    check("arguments.x = { in = ['a', 'b'] }", "a", Ok("a"));
    check("arguments.x = { maxLength = 3 }", Value::List(vec![]), Err("`args.x` must be text, not list"));
    check(
        "arguments.x = { pattern = '^[a-z]+$' }",
        "ab\n",
        Err("`args.x` must be text that matches `^[a-z]+$`, not 'ab\\u{a}' (str)"),
    );
    check(
        "arguments.x = { maxLength = 9 }",
        Value::Bytes(vec![1]),
        Err("`args.x` must be str or path or date or datetime or time or timedelta or decimal or uuid, not bytes"),
    );
    check(
        "arguments.x = { items = { maximum = 5 } }",
        Value::List(vec![Value::Int(1), Value::Int(9)]),
        Err("`args.x[1]` must be at most 5, not 9 (int)"),
    );
    check("arguments.x = { items = { maximum = 5 } }", "9", Err("`args.x` must be a list, not '9' (str)"));
}

#[test]
fn email_addresses_are_plain_and_at_a_listed_domain() {
    let rule = "arguments.x = { format = 'email', domains = ['company.com', '*.eu.company.com'] }";
    for good in ["a@company.com", "A.b+c@COMPANY.com", "a@x.eu.company.com"] {
        check(rule, good, Ok(good));
    }
    for bad in [
        "a@evil.com",
        "a@company.com.evil.com",
        "a@notcompany.com",
        "a@eu.company.com",
        "a@b@company.com",
        "\"a@company.com\"@evil.com",
        "a@company.com\n",
        "a@evil.com,b@company.com",
        "a@evil.com b@company.com",
        "A <a@company.com>",
        "a%evil.com@company.com",
        "evil.com!a@company.com",
        "=?utf-8?q?a=40evil.com=3e?=@company.com",
        "a@сompany.com",
        "a@company.com.",
        "@company.com",
        "a..b@company.com",
        "company.com",
        "",
    ] {
        assert!(permit(rule, Value::from(bad)).is_err(), "{bad}");
    }
    check(
        rule,
        "a@evil.com",
        Err("`args.x` must be a plain email address at `company.com` or `*.eu.company.com`, not 'a@evil.com' (str)"),
    );
    assert!(permit(rule, Value::Bytes(b"a@company.com".to_vec())).is_err());
    assert!(permit(rule, Value::List(vec![Value::from("a@company.com")])).is_err());
    let hint = permit(rule, Value::from("x")).unwrap_err();
    assert_eq!(hint.hint(), "change `arguments.x` under `[functions.f]`");
}

#[test]
fn paths_are_normalised_and_then_compared() {
    let rule = "arguments.x = { format = 'path', under = ['/data/tmp', '/workspace'] }";
    for (given, carried) in [
        ("/data/tmp/a", "/data/tmp/a"),
        ("/data//x/../tmp/./a", "/data/tmp/a"),
        ("/data/tmp", "/data/tmp"),
        ("a/b.txt", "/workspace/a/b.txt"),
        ("/data/tmp/50%.txt", "/data/tmp/50%.txt"),
        ("/data/tmp/größe.csv", "/data/tmp/größe.csv"),
    ] {
        check(rule, given, Ok(carried));
    }
    check(rule, Value::Path("/data/tmp/./a".into()), Ok("/data/tmp/a"));
    for bad in [
        "/data/tmp/../x",
        "/data/tmpx",
        "/etc/passwd",
        "../etc/passwd",
        "/data/tmp/../../etc/passwd",
        "/data/tmp/%2e%2e/x",
        "/data/tmp/%252e/x",
        "/data/tmp/%c0%ae%c0%ae/x",
        "/data/tmp/..\\x",
        "/data/tmp/a\0",
        "/data/tmp/\u{2024}\u{2024}/x",
        "/data/tmp/\u{2025}/x",
        "/data/tmp\u{ff0f}..\u{ff0f}x",
        "/data/tmp\u{2215}x",
        "/data/tmp/\u{200b}../x",
        "/data/tmp/\u{202e}x",
        "/data/tmp/a\nb",
        "~/x",
        "",
    ] {
        assert!(permit(rule, Value::from(bad)).is_err(), "{bad:?}");
    }
    assert!(permit(rule, Value::from("/data/tmp/".to_owned() + &"a".repeat(256))).is_err());
    assert!(permit(rule, Value::Bytes(b"/data/tmp/a".to_vec())).is_err());
    check(rule, "/etc", Err("`args.x` must be a plain path under `/data/tmp` or `/workspace`, not '/etc' (str)"));
    let list = permit(
        "arguments.x = { items = { format = 'path', under = ['/a'] } }",
        Value::List(vec![Value::from("/a/./b")]),
    );
    assert_eq!(list.unwrap().arguments()[0].1, Value::List(vec![Value::from("/a/b")]));
}

#[test]
fn addresses_go_to_listed_hosts() {
    let rule =
        "arguments.x = { format = 'uri', hosts = ['example.com', 'localhost:8080'], schemes = ['https', 'http'] }";
    for good in
        ["https://example.com/a?b#c", "https://EXAMPLE.com", "http://localhost:8080/x", "https://example.com:443/"]
    {
        check(rule, good, Ok(good));
    }
    for bad in [
        "https://example.com.evil.com/",
        "https://example.com@evil.com/",
        "https://user:pw@example.com/",
        "https://evil.com/example.com",
        "https://example.com:8443/",
        "http://localhost/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https:\\\\example.com",
        "https://evil.com\\@example.com/",
        "https://example.com%2eevil.com/",
        "https://exаmple.com/",
        "//example.com/",
        "https:/example.com",
        " https://example.com",
        "https://example.com/\r\nHost: x",
        "https://[::1]/",
        "https://example.com./",
    ] {
        assert!(permit(rule, Value::from(bad)).is_err(), "{bad:?}");
    }
    assert!(permit("arguments.x = { format = 'uri' }", Value::from("ftp://example.com")).is_err());
}

#[test]
fn conditions_hold_or_the_call_is_refused() {
    let rule = "when = \"args.x < 100\"";
    check(rule, 99, Ok("Int(99)"));
    check(rule, 100, Err("its condition is not met"));
    check(
        rule,
        "1",
        Err(
            "the condition of host function `f` could not be evaluated: found no matching overload for '_<_' applied to '(string, int)'",
        ),
    );
    check(
        "when = \"!(args.x > 100)\"",
        f64::NAN,
        Err(
            "the condition of host function `f` could not be evaluated: `args.x` holds NaN, which a condition cannot compare",
        ),
    );
    check(
        rule,
        Value::int("99999999999999999999".parse().unwrap()),
        Err(
            "the condition of host function `f` could not be evaluated: `args.x` holds an integer of more than 64 bits, which a condition cannot compare",
        ),
    );
    check("when = \"args.y < 1\"", 1, Err("the condition of host function `f` could not be evaluated: No such key: y"));
    check(
        "when = \"args.x\"",
        1,
        Err("the condition of host function `f` could not be evaluated: it is neither true nor false"),
    );
    check("when = \"args.x.endsWith('@company.com') && size(args.x) < 20\"", "a@company.com", Ok("a@company.com"));
    check("when = \"args.x.all(i, i < 3)\"", Value::Tuple(vec![Value::Int(1)]), Ok("Tuple([Int(1)])"));
    check(
        "arguments.x = { format = 'path' }\nwhen = \"args.x.startsWith('/tmp/')\"",
        "/tmp/../etc",
        Err("its condition is not met"),
    );
    assert_eq!(permit(rule, Value::Int(100)).unwrap_err().hint(), "the condition is `args.x < 100`");
}

/// What is left out is what the function's own default says; what that is not told by the declaration is not guessed.
#[test]
fn conditions_see_what_the_function_is_called_with() {
    let mut spec = declared("f(x, days=, cc=, *rest, **more)");
    for (at, source) in [(1, "30"), (2, "...")] {
        spec.parameters[at].default = Some(ringfence_types::Default { source: source.to_owned() });
    }
    let permit = |rule: &str, given: &[(&str, i64)]| {
        let grant = granted(&format!("[functions.f]\n{rule}"), vec![spec.clone()]);
        let arguments: Vec<(String, Value)> =
            given.iter().map(|(name, value)| ((*name).to_owned(), Value::Int(*value))).collect();
        let permit = grant.permit(&Effect::Call { function: "f", arguments: &arguments });
        permit.map(|permit| (permit.approval(), permit.arguments().len())).map_err(|denial| denial.to_string())
    };
    let not_met = "policy does not allow this call of host function `f`: its condition is not met";
    let untold = "the condition of host function `f` could not be evaluated: No such key: cc";
    let week = "when = 'args.days <= 7'";
    assert_eq!(permit(week, &[("x", 1)]), Err(not_met.to_owned()));
    assert_eq!(permit(week, &[("x", 1), ("days", 7)]), Ok((ApprovalNeed::None, 2)));
    assert_eq!(
        permit("when = 'size(args.rest) == 0 && size(args.more) == 0'", &[("x", 1)]),
        Ok((ApprovalNeed::None, 1))
    );
    assert_eq!(permit("when = 'args.cc == 1'", &[("x", 1)]), Err(untold.to_owned()));
    let approve = "approve = { when = 'args.days > 7' }";
    assert_eq!(permit(approve, &[("x", 1)]), Ok((ApprovalNeed::Each, 1)));
    assert_eq!(permit(approve, &[("x", 1), ("days", 1)]), Ok((ApprovalNeed::None, 2)));
}

#[test]
fn approvals_are_asked_for() {
    let need = |rule: &str, value: i64| permit(rule, Value::Int(value)).unwrap().approval();
    assert_eq!(need("", 1), ApprovalNeed::None);
    assert_eq!(need("approve = 'first'", 1), ApprovalNeed::First);
    assert_eq!(need("approve = 'always'", 1), ApprovalNeed::Each);
    let when = "approve = { when = 'args.x > 10' }";
    assert_eq!((need(when, 10), need(when, 11)), (ApprovalNeed::None, ApprovalNeed::Each));
    assert!(permit(when, Value::from("a")).is_err());
}

#[test]
fn a_guard_for_no_parameter_is_refused_at_the_start() {
    let policy = Policy::parse("version = 1\n[functions.f]\narguments.tos = { format = 'email' }", "p").unwrap();
    let denial = policy.decide(&ask(vec![declared("f(to)")])).unwrap_err();
    assert_eq!(denial.to_string(), "policy guards argument `tos` of host function `f`, which has no such parameter");
    assert_eq!(denial.hint(), "did you mean `to`?");
    let twice = policy.decide(&ask(vec![declared("g()"), declared("g()")])).unwrap_err();
    assert_eq!(twice.to_string(), "host function `g` is declared twice");
}

#[test]
fn each_of_a_variadic_parameter_is_guarded() {
    let grant = granted("[functions.f]\narguments.n = { maximum = 5 }", vec![declared("f(*n)")]);
    let call = |items: Vec<Value>| {
        grant.permit(&Effect::Call { function: "f", arguments: &[("n".to_owned(), Value::Tuple(items))] })
    };
    assert!(call(vec![Value::Int(1), Value::Int(5)]).is_ok());
    assert_eq!(
        call(vec![Value::Int(1), Value::Int(6)]).unwrap_err().to_string(),
        "policy does not allow this call of host function `f`: `args.n[1]` must be at most 5, not 6 (int)"
    );
    assert_eq!(declared("f(*n)").parameters[0].kind, ParameterKind::VarPositional);
}

#[test]
fn a_key_given_twice_cannot_hide_from_its_guard() {
    let twice = Value::Dict(vec![(Value::from("a"), Value::Int(1)), (Value::from("a"), Value::Int(99))]);
    check(
        "arguments.x = { properties = { a = { maximum = 5 } } }",
        twice,
        Err("`args.x` holds a dict with a key twice"),
    );
}

#[test]
fn reads_stay_in_mounts() {
    let grant = granted("[filesystem]\nmounts = [{ host = 'd', at = '/data' }]", vec![]);
    let read = |path: &str| grant.permit(&Effect::ReadMount { path: &GuestPath::resolve(path).unwrap() });
    assert_eq!(read("/data/x").unwrap().path().map(GuestPath::as_str), Some("/data/x"));
    assert_eq!(read("/data/../etc/passwd").unwrap_err().to_string(), "policy does not allow reading `/etc/passwd`");
    assert!(read("/workspace/x").is_err());
    assert!(read("/database").is_err());
}

#[test]
fn a_refusal_does_not_show_a_redacted_argument() {
    let rules =
        "[functions.f]\narguments.password = { minLength = 9 }\n[audit]\nredact = ['functions.*.arguments.password']";
    let grant = granted(rules, vec![declared("f(password)")]);
    let arguments = [("password".to_owned(), Value::from("hunter2"))];
    assert_eq!(
        grant.permit(&Effect::Call { function: "f", arguments: &arguments }).unwrap_err().to_string(),
        "policy does not allow this call of host function `f`: `args.password` must be text of at least 9 characters, not str"
    );
    let rules = "[functions.f]\nwhen = 'args.password < 1'\n[audit]\nredact = ['functions.f.arguments.*']";
    let grant = granted(rules, vec![declared("f(password)")]);
    assert_eq!(
        grant.permit(&Effect::Call { function: "f", arguments: &arguments }).unwrap_err().to_string(),
        "the condition of host function `f` could not be evaluated: an argument does not fit it"
    );
}
