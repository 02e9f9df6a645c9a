//! Arguments and results against their declarations, every fault with its exact text.

use ringfence_policy::{SchemaSet, check_arguments, check_result};
use ringfence_types::{FunctionSpec, ParameterKind, Record, RecordKind, Value};
use serde_json::{Value as Json, json};

use super::parameter;

fn check(schema: Json, value: Value, want: &str) {
    let parameters = vec![parameter("x", ParameterKind::PositionalOrKeyword, Some(schema))];
    let spec = FunctionSpec { parameters, ..FunctionSpec::new("f") };
    let shown = format!("{} {value:?}", spec.parameters[0].schema.as_ref().unwrap());
    let found = check_arguments(&spec, &[("x".to_owned(), value)]);
    assert_eq!(found.err().map(|fault| fault.to_string()).unwrap_or_default(), want, "{shown}");
}

fn dict(pairs: Vec<(&str, Value)>) -> Value {
    Value::Dict(pairs.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
}

#[test]
fn plain_types() {
    check(json!({"type": "integer"}), Value::Int(3), "");
    check(json!({"type": "integer"}), Value::from("3"), "f() argument `args.x` must be an integer, not '3' (str)");
    check(json!({"type": "integer"}), Value::from(true), "f() argument `args.x` must be an integer, not True (bool)");
    check(json!({"type": "number"}), Value::from(true), "f() argument `args.x` must be a number, not True (bool)");
    check(json!({"type": "integer"}), Value::Float(1.0), "f() argument `args.x` must be an integer, not 1 (float)");
    check(json!({"type": "number"}), Value::Int(1), "");
    check(json!({"type": "boolean"}), Value::Int(1), "f() argument `args.x` must be true or false, not 1 (int)");
    check(json!({"type": "null"}), Value::None, "");
    check(
        json!({"type": ["integer", "null"]}),
        Value::from("a"),
        "f() argument `args.x` must be an integer or None, not 'a' (str)",
    );
    check(
        json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        Value::from("a"),
        "f() argument `args.x` must be an integer or None, not 'a' (str)",
    );
}

#[test]
fn numbers_of_every_kind() {
    let big = |text: &str| Value::int(text.parse().unwrap());
    check(json!({"type": "integer"}), big("123456789012345678901234567890"), "");
    check(json!({"type": "integer", "minimum": 0}), big("123456789012345678901234567890"), "");
    check(json!({"maximum": 5}), big("18446744073709551616"), "f() argument `args.x` must be at most 5, not int");
    check(json!({"minimum": 5}), big("-18446744073709551616"), "f() argument `args.x` must be at least 5, not int");
    check(json!({"type": "number"}), Value::Float(f64::NAN), "");
    check(json!({"type": "number"}), Value::Float(f64::INFINITY), "");
    check(
        json!({"type": "integer"}),
        Value::Float(f64::NAN),
        "f() argument `args.x` must be an integer, not NaN (float)",
    );
    check(json!({"minimum": 1}), Value::Float(f64::NAN), "f() argument `args.x` must be at least 1, not NaN (float)");
    check(json!({"maximum": 1}), Value::Float(f64::NAN), "f() argument `args.x` must be at most 1, not NaN (float)");
    check(
        json!({"exclusiveMinimum": 1}),
        Value::Float(f64::NAN),
        "f() argument `args.x` must be more than 1, not NaN (float)",
    );
    check(
        json!({"maximum": 1}),
        Value::Float(f64::INFINITY),
        "f() argument `args.x` must be at most 1, not inf (float)",
    );
    check(
        json!({"multipleOf": 2}),
        Value::Float(f64::NAN),
        "f() argument `args.x` must be a multiple of 2, not NaN (float)",
    );
    check(
        json!({"enum": [1, 2]}),
        Value::Float(f64::NAN),
        "f() argument `args.x` must be one of [1,2], not NaN (float)",
    );
    check(json!({"const": true}), Value::Int(1), "f() argument `args.x` must be true, not 1 (int)");
}

#[test]
fn places_are_named() {
    let rows = json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}});
    let row = |value| dict(vec![("n", value)]);
    check(
        rows.clone(),
        Value::List(vec![row(Value::Int(1)), row(Value::from("a"))]),
        "f() argument `args.x[1].n` must be an integer, not 'a' (str)",
    );
    check(
        rows.clone(),
        Value::List(vec![dict(vec![])]),
        "f() argument `args.x[0]` must be an object with \"n\", not dict",
    );
    check(rows, Value::Tuple(vec![row(Value::Int(1))]), "");
    check(
        json!({"type": "string"}),
        Value::List(vec![Value::from("a".repeat(500))]),
        "f() argument `args.x` must be text, not list",
    );
    check(
        json!({"maxLength": 3}),
        Value::from("a".repeat(500)),
        &format!("f() argument `args.x` must be text of at most 3 characters, not '{}…' (str)", "a".repeat(80)),
    );
    check(
        json!({"type": "integer"}),
        Value::from("a\n\u{1b}[31m\u{202e}`"),
        "f() argument `args.x` must be an integer, not 'a\\u{a}\\u{1b}[31m\\u{202e}\\u{60}' (str)",
    );
}

#[test]
fn python_types_that_json_cannot_tell_apart() {
    let python = |word: &str, value: Value, want: &str| check(json!({"x-python": word}), value, want);
    python("bytes", Value::Bytes(vec![1]), "");
    python("bytes", Value::from("AQ=="), "f() argument `args.x` must be bytes, not 'AQ==' (str)");
    python("tuple", Value::Tuple(vec![]), "");
    python("tuple", Value::List(vec![]), "f() argument `args.x` must be tuple, not list");
    python("set|frozenset", Value::FrozenSet(vec![]), "");
    python("set|frozenset", Value::List(vec![]), "f() argument `args.x` must be set or frozenset, not list");
    python("float", Value::Int(1), "");
    python("float", Value::from(true), "f() argument `args.x` must be float, not True (bool)");
    python("int", Value::from(true), "f() argument `args.x` must be int, not True (bool)");
    python("date", Value::DateTime("2024-01-01T00:00:00".into()), "f() argument `args.x` must be date, not datetime");
    python("path", Value::Path("/a".into()), "");
    python("uuid", Value::Uuid([0; 16]), "");
    python("decimal", Value::Float(1.5), "f() argument `args.x` must be decimal, not 1.5 (float)");
    check(json!({"type": "string"}), Value::Date("2024-01-01".into()), "f() argument `args.x` must be str, not date");
    check(
        json!({"anyOf": [{"type": "string", "x-python": "bytes"}, {"type": "integer"}]}),
        Value::from("a"),
        "f() argument `args.x` must be bytes or an integer, not 'a' (str)",
    );
    check(
        json!({"$defs": {"D": {"type": "array", "items": {"x-python": "date"}}}, "$ref": "#/$defs/D"}),
        Value::List(vec![Value::from("2024-01-01")]),
        "f() argument `args.x[0]` must be date, not '2024-01-01' (str)",
    );
}

#[test]
fn containers_are_seen_as_json_has_them() {
    let keyed = Value::Dict(vec![(Value::Int(1), Value::from("a"))]);
    check(json!({"type": "object"}), keyed.clone(), "f() argument `args.x` must be a dict, not dict");
    check(
        json!({"type": "array", "items": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}}),
        keyed,
        "",
    );
    let fields = vec![("x".to_owned(), Value::Int(1))];
    let point = Value::Record(Box::new(Record { kind: RecordKind::Dataclass, name: "Point".to_owned(), fields }));
    check(
        json!({"type": "object", "required": ["x"], "additionalProperties": false, "properties": {"x": {"type": "integer"}}}),
        point.clone(),
        "",
    );
    check(
        json!({"type": "object", "required": ["y"]}),
        point,
        "f() argument `args.x` must be an object with \"y\", not Point",
    );
    check(
        json!({"uniqueItems": true}),
        Value::List(vec![Value::Int(1), Value::Int(1)]),
        "f() argument `args.x` must be items that differ, not list",
    );
    let twice = dict(vec![("a", Value::Int(1)), ("a", Value::Int(2))]);
    check(json!({}), Value::List(vec![twice]), "f() argument `args.x[0]` must be a dict, not one with a key twice");
}

#[test]
fn results_are_checked_without_being_told() {
    let spec = FunctionSpec {
        returns_schema: Some(json!({"type": "array", "items": {"type": "number"}})),
        ..FunctionSpec::new("f")
    };
    let bad = Value::List(vec![Value::Float(1.0), Value::from("secret")]);
    let fault = check_result(&spec, &bad).unwrap_err();
    assert_eq!(fault.to_string(), "f() returned something else than declared: `result[1]` must be a number, not str");
    assert_eq!(check_result(&spec, &Value::List(vec![])), Ok(()));
}

#[test]
fn variadic_parameters_are_checked_one_by_one() {
    let number = Some(json!({"type": "integer"}));
    let parameters = vec![
        parameter("*n", ParameterKind::VarPositional, number.clone()),
        parameter("**k", ParameterKind::VarKeyword, number),
    ];
    let spec = FunctionSpec { parameters, ..FunctionSpec::new("f") };
    let n = ("n".to_owned(), Value::Tuple(vec![Value::Int(1), Value::from("a")]));
    assert_eq!(
        check_arguments(&spec, &[n]).unwrap_err().to_string(),
        "f() argument `args.n[1]` must be an integer, not 'a' (str)"
    );
    let k = ("k".to_owned(), dict(vec![("a", Value::None)]));
    assert_eq!(
        check_arguments(&spec, &[k]).unwrap_err().to_string(),
        "f() argument `args.k.a` must be an integer, not None"
    );
    let k = ("k".to_owned(), dict(vec![("a", Value::from("hunter2"))]));
    let fault = check_arguments(&spec, &[k]).unwrap_err();
    assert_eq!(fault.argument(), "k");
    assert_eq!(fault.without_value().to_string(), "f() argument `args.k.a` must be an integer, not str");
    let other = ("z".to_owned(), Value::None);
    assert_eq!(
        check_arguments(&spec, &[other]).unwrap_err().to_string(),
        "f() argument `args.z` must be left out, not given"
    );
}

#[test]
fn schemas_that_cannot_be_used_are_refused() {
    let fault = |schema: Json| {
        let spec = FunctionSpec { returns_schema: Some(schema), ..FunctionSpec::new("f") };
        SchemaSet::compile(&[spec]).unwrap_err().to_string()
    };
    let start = "the schema of `the result` of host function `f` cannot be used: ";
    assert_eq!(
        fault(json!({"$ref": "https://example.com/a.json"})),
        format!("{start}it refers to `https://example.com/a.json`, outside of itself; put what it needs under `$defs`")
    );
    assert_eq!(
        fault(json!({"$ref": "file:///etc/passwd"})),
        format!("{start}it refers to `file:///etc/passwd`, outside of itself; put what it needs under `$defs`")
    );
    assert_eq!(
        fault(json!({"x-python": "bites"})),
        format!("{start}`x-python`: `bites` is not one of its words; did you mean `bytes`?")
    );
    let deep = (0..70).fold(json!({}), |inner, _| json!({"items": inner}));
    assert_eq!(fault(deep), format!("{start}it is nested more than 64 levels"));
}
