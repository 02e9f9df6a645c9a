//! The seeds that are made from code, so that they keep up with the formats; those that fuzzing found lie beside them.
//!
//! Answers to: `ringfence-fuzz --write-seeds`. Must not: write a seed that its target would refuse at once.

use num_bigint::BigInt;
use ringfence_types::json::to_json;
use ringfence_types::{
    Call, CallId, Engine, FileFault, FileOp, FileReply, FunctionSpec, GuestError, GuestException, GuestPath, LimitKind,
    MimeBundle, Parameter, ParameterKind, Record, RecordKind, Source, Stream, TraceFrame, Value,
};
use ringfence_wire::{FromGuest, Setup, ToGuest, VERSION};

use crate::targets::{POLICY, sealed};

const POLICIES: [&str; 6] = [
    "version = 1\n",
    include_str!("../policies/analyst.toml"),
    include_str!("../policies/guards.toml"),
    include_str!("../policies/network.toml"),
    "version = 1\n[limits]\nwall = \"5 parsecs\"\nmemoree = 3\n",
    "version = 2\n[isolation]\nfloor = \"hardware\"\ntiers = [\"embedded\", \"embedded\"]\n",
];

/// The seeds of a target.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "wire_from_guest" => from_guest(),
        "wire_to_guest" => to_guest(),
        "policy_parse" => POLICIES.iter().map(|text| text.as_bytes().to_vec()).collect(),
        "snapshot_open" => snapshots(),
        "json_value" => values().iter().map(|value| to_json(value).to_string().into_bytes()).collect(),
        _ => Vec::new(),
    }
}

/// One of every kind of value, and a list of all.
fn values() -> Vec<Value> {
    let mut values = vec![
        Value::None,
        Value::Bool(true),
        Value::Int(-7),
        Value::int(BigInt::from(3).pow(70)),
        Value::Float(1.5),
        Value::Float(f64::NAN),
        Value::Float(f64::NEG_INFINITY),
        Value::from("naïve"),
        Value::Bytes(b"\x00\xff".to_vec()),
        Value::Tuple(vec![Value::Int(1), Value::None]),
        Value::Dict(vec![(Value::from("$type"), Value::from("int")), (Value::Int(1), Value::from("one"))]),
        Value::Set(vec![Value::Int(1)]),
        Value::FrozenSet(vec![Value::from("a")]),
        Value::Date("2024-02-29".to_owned()),
        Value::DateTime("2024-02-29T12:30:00+01:00".to_owned()),
        Value::Time("12:30:00.000001".to_owned()),
        Value::TimeDelta { days: -1, seconds: 86_399, microseconds: 999_999 },
        Value::Decimal("1.10E+3".to_owned()),
        Value::Uuid([9; 16]),
        Value::Path("/data/a.csv".to_owned()),
        Value::Record(Box::new(Record {
            kind: RecordKind::NamedTuple,
            name: "Point".to_owned(),
            fields: vec![("x".to_owned(), Value::Int(1)), ("y".to_owned(), Value::Float(2.0))],
        })),
    ];
    let all = Value::List(values.clone());
    values.push(all);
    values.push((0..60).fold(Value::None, |inner, _| Value::List(vec![inner])));
    values
}

fn from_guest() -> Vec<Vec<u8>> {
    let frame = TraceFrame { file: "main.py".into(), line: 3, function: "f".into(), source: Some("1/0".into()) };
    let cause = GuestException {
        kind: "KeyError".into(),
        message: "'x'".into(),
        frames: vec![],
        cause: None,
        notes: vec!["a note".into()],
        exit_code: Some(-1),
    };
    let raised = GuestException { frames: vec![frame], cause: Some(Box::new(cause.clone())), ..cause };
    let call = Call {
        id: CallId(1),
        function: "get_weather".into(),
        args: vec![Value::from("Oslo")],
        kwargs: vec![("days".into(), Value::Int(3))],
        deferred: true,
    };
    let others = [
        FromGuest::Ready(VERSION),
        FromGuest::Call(call),
        FromGuest::Await(vec![CallId(1), CallId(9)]),
        FromGuest::Print(Stream::Stderr, b"out\n".to_vec()),
        FromGuest::Shown(MimeBundle(vec![("image/png".into(), b"\x89PNG".to_vec())])),
        FromGuest::Raised(raised),
        FromGuest::Limit(LimitKind::Memory, 1 << 26),
        FromGuest::Unsupported("generators".into(), Some(4)),
        FromGuest::Snapshotted(b"state".to_vec()),
        FromGuest::Restored,
        FromGuest::Sync,
        FromGuest::Filed(FileReply::Fault(FileFault::NotFound("a.csv".into()))),
        FromGuest::Filed(FileReply::Content(b"a,b\n".to_vec())),
        FromGuest::NoValue("a function can't cross".into()),
    ];
    values().into_iter().map(FromGuest::Done).chain(others).map(|frame| frame.encode()).collect()
}

fn to_guest() -> Vec<Vec<u8>> {
    let parameter = Parameter {
        name: "city".into(),
        kind: ParameterKind::PositionalOrKeyword,
        annotation: Some("str".into()),
        schema: None,
        default: None,
    };
    let function = FunctionSpec { parameters: vec![parameter], ..FunctionSpec::new("get_weather") };
    let path = GuestPath::resolve("/workspace/a.csv").ok();
    let files = path.into_iter().flat_map(|path| {
        [FileOp::Get { path: path.clone() }, FileOp::Put { path, content: b"a,b\n".to_vec(), read_only: true }]
            .map(ToGuest::Files)
    });
    let error = GuestError { exception: "ValueError".into(), message: "no such city".into() };
    let answers = values().into_iter().map(|value| ToGuest::Answer(CallId(1), Ok(value)));
    let others = [
        ToGuest::Setup(Setup { version: VERSION, memory: 1 << 26, workspace: 1 << 20, functions: vec![function] }),
        ToGuest::Feed(Source::new("print('hi'); 6*7")),
        ToGuest::Answer(CallId(2), Err(error)),
        ToGuest::Snapshot,
        ToGuest::Synced,
        ToGuest::Restore(Engine::Monty, b"state".to_vec()),
    ];
    answers.chain(others).chain(files).map(|frame| frame.encode()).collect()
}

fn snapshots() -> Vec<Vec<u8>> {
    let mut head = b"RFSNAP\r\n".to_vec();
    head.extend_from_slice(&[1, 1, 1]);
    head.extend_from_slice(&POLICY);
    head.extend_from_slice(&[5]);
    head.extend_from_slice(b"local");
    head.extend_from_slice(b"state");
    let mut whole = head.clone();
    whole.extend_from_slice(&sealed(&head));
    vec![whole, head, b"RFSNAP\r\n".to_vec()]
}
