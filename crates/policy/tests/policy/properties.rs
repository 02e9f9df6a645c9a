//! What holds for any text and any call.

use proptest::prelude::*;
use ringfence_policy::{Policy, bind, check_arguments, unbind};
use ringfence_types::Value;

use super::declared;

/// Texts that look like policies: lines of the example, cut, repeated and spoilt.
fn near_policies() -> impl Strategy<Value = String> {
    let lines: Vec<&'static str> = include_str!("example.toml").lines().collect();
    let line = prop_oneof![
        8 => proptest::sample::select(lines),
        1 => Just("[[functions]]"),
        1 => Just("arguments.x = { items = { items = { format = 'path' } } }"),
        1 => Just("when = \"args.x[0].y < 1 && {1: 2}[1] == [3][0]\""),
        1 => Just("\"\"\""),
    ];
    (proptest::collection::vec(line, 0..40), any::<proptest::sample::Index>(), any::<char>()).prop_map(
        |(lines, at, odd)| {
            let mut chars: Vec<char> = lines.join("\n").chars().collect();
            if !chars.is_empty() {
                let at = at.index(chars.len());
                chars.splice(at..at, [odd]);
            }
            chars.into_iter().collect()
        },
    )
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
        any::<Vec<u8>>().prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Set),
            proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Dict),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = Policy::parse(&text, "p");
    }

    #[test]
    fn what_looks_like_a_policy_is_read_or_refused_and_shown_alike(text in near_policies()) {
        if let Ok(policy) = Policy::parse(&text, "p") {
            let shown = policy.show();
            let again = Policy::parse(&shown, "shown");
            let again = again.map_err(|errors| TestCaseError::fail(format!("{errors}\n{shown}")))?;
            prop_assert_eq!(again, policy);
        }
    }

    #[test]
    fn settings_come_back_as_they_were(
        wall in 1_u64..10_000_000, memory in 1_u64..(1 << 40), calls in any::<u32>(), count in 1_u32.., per in 1_u64..100_000_000,
        name in "[ -~]{1,20}", guard in "[ -~\u{e9}\u{1f600}]{0,20}",
    ) {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let text = format!(
            "version = 1\nname = {}\n[limits]\nwall = '{wall}ms'\nmemory = '{memory}B'\nhost_calls = {calls}\n[functions.f]\nrate = '{count}/{per}ms'\narguments.x = {{ in = [{}, 1, 1.5, true] }}",
            quoted(&name), quoted(&guard),
        );
        let policy = Policy::parse(&text, "p").map_err(|errors| TestCaseError::fail(errors.to_string()))?;
        let shown = policy.show();
        let again = Policy::parse(&shown, "shown").map_err(|errors| TestCaseError::fail(format!("{errors}\n{shown}")))?;
        prop_assert_eq!(again.hash(), policy.hash());
        prop_assert_eq!(again, policy);
    }

    #[test]
    fn a_call_taken_apart_binds_to_the_same(args in proptest::collection::vec(value(), 0..5), names in proptest::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..5)) {
        for head in ["f(a, b=, /, c=, *d, e=)", "f(a=, b=, c=, *, d=, **e)", "f(*a, **b)"] {
            let spec = declared(head);
            let kwargs = names.iter().map(|name| ((*name).to_owned(), Value::None)).collect();
            let Ok(bound) = bind(&spec, args.clone(), kwargs) else { continue };
            let (args, kwargs) = unbind(&spec, bound.clone());
            let again = bind(&spec, args, kwargs).map_err(|fault| TestCaseError::fail(fault.to_string()))?;
            prop_assert_eq!(format!("{again:?}"), format!("{bound:?}"));
        }
    }

    #[test]
    fn any_value_is_checked_without_a_panic(value in value()) {
        let mut spec = declared("f(x)");
        spec.parameters[0].schema = Some(serde_json::json!({
            "anyOf": [{"type": "integer", "minimum": 3, "multipleOf": 2}, {"type": "array", "uniqueItems": true, "items": {"$ref": "#"}},
                {"type": "object", "propertyNames": {"maxLength": 2}}, {"type": "string", "pattern": "^a*$"}, {"enum": [null, 1.5, [1]]}]
        }));
        let fault = check_arguments(&spec, &[("x".to_owned(), value)]);
        prop_assert!(fault.map_or_else(|fault| fault.to_string().len(), |()| 0) < 2000);
    }
}
