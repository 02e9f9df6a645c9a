//! Prints what binding, checking and permitting a call of two arguments costs: the median of many.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement prints, and stops where it can't go on"
)]

use std::hint::black_box;
use std::time::Instant;

use ringfence_policy::{Ask, Effect, Policy, SchemaSet, bind};
use ringfence_types::{FunctionSpec, Parameter, ParameterKind, SessionId, Tenant, Value};

fn main() {
    let parameter = |name: &str, schema: serde_json::Value| Parameter {
        name: name.to_owned(),
        kind: ParameterKind::PositionalOrKeyword,
        annotation: None,
        schema: Some(schema),
        default: None,
    };
    let spec = FunctionSpec {
        parameters: vec![
            parameter("to", serde_json::json!({"type": "string", "x-python": "str"})),
            parameter("count", serde_json::json!({"type": "integer", "minimum": 0})),
        ],
        ..FunctionSpec::new("send")
    };
    let guards = "arguments.to = { format = 'email', domains = ['company.com'] }\narguments.count = { maximum = 50 }";
    for (title, rules) in [("no guard", ""), ("guards", guards), ("condition", "when = 'args.count < 100'")] {
        let policy = Policy::parse(&format!("version = 1\n[functions.send]\n{rules}"), "cost").unwrap();
        let ask =
            Ask { tenant: Tenant::local(), session: SessionId::from_random([1; 16]), functions: vec![spec.clone()] };
        let grant = policy.decide(&ask).unwrap();
        let schemas = SchemaSet::compile(grant.functions()).unwrap();
        let mut times: Vec<u128> = (0..20_000)
            .map(|_| {
                let (args, kwargs) = (vec![Value::from("a@company.com")], vec![("count".to_owned(), Value::Int(3))]);
                let start = Instant::now();
                let bound = bind(&spec, args, kwargs).unwrap();
                schemas.check_arguments("send", &bound).unwrap();
                black_box(grant.permit(&Effect::Call { function: "send", arguments: &bound }).unwrap());
                start.elapsed().as_nanos()
            })
            .collect();
        times.sort_unstable();
        println!("{title}: median {} ns, 99 % under {} ns", times[times.len() / 2], times[times.len() * 99 / 100]);
        let start = Instant::now();
        black_box(policy.decide(&ask).unwrap());
        println!("{title}: decide {} ns", start.elapsed().as_nanos());
    }
}
