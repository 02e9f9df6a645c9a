//! Values in both directions, and what is said of those that can't cross.
//!
//! Answers to: `types::Value`, kind by kind.

use num_bigint::BigInt;
use ringfence_types::{RecordKind, Source, Value};

use crate::support::{Guest, record};

fn every_kind() -> Vec<Value> {
    vec![
        Value::None,
        Value::Bool(true),
        Value::Bool(false),
        Value::Int(0),
        Value::Int(-1),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::int(BigInt::from(i64::MAX) + 1),
        Value::int(BigInt::from(i64::MIN) - 1),
        Value::int(BigInt::from(7).pow(100)),
        Value::int(-BigInt::from(256).pow(32)),
        Value::Float(-0.5),
        Value::Float(f64::INFINITY),
        Value::from("é\0🦀"),
        Value::Bytes(vec![0, 255]),
        Value::List(vec![Value::Int(1), Value::List(vec![])]),
        Value::Tuple(vec![Value::Int(1)]),
        Value::Dict(vec![(Value::from("k"), Value::None), (Value::Tuple(vec![Value::Int(1)]), Value::Bool(true))]),
        Value::Set(vec![Value::Int(1)]),
        Value::FrozenSet(vec![Value::from("a")]),
        Value::Date("2024-02-29".to_owned()),
        Value::DateTime("2024-05-06T07:08:09.000010+02:00".to_owned()),
        Value::DateTime("2024-05-06T07:08:09".to_owned()),
        Value::Time("01:02:03".to_owned()),
        Value::Time("01:02:03.000004-05:30".to_owned()),
        Value::TimeDelta { days: -1, seconds: 5, microseconds: 6 },
        Value::TimeDelta { days: 999_999_999, seconds: 86_399, microseconds: 999_999 },
        Value::Decimal("1.50".to_owned()),
        Value::Decimal("NaN".to_owned()),
        Value::Uuid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255]),
        Value::Path("/a/b".to_owned()),
        record(RecordKind::Dataclass, "Point", &[("x", Value::Int(1)), ("y", Value::List(vec![]))]),
        record(RecordKind::NamedTuple, "Row", &[("id", Value::Int(7))]),
    ]
}

#[test]
fn every_kind_comes_back_as_it_was() {
    let mut guest = Guest::new();
    for value in every_kind() {
        let want = format!("{:?}", Value::Tuple(vec![value.clone(), value.clone()]));
        let inputs = vec![("given".to_owned(), value)];
        let ran = guest.run_source(Source { inputs, ..Source::new("(given, same(given))") });
        assert_eq!(ran.ended, want);
    }
    let inputs = vec![("given".to_owned(), Value::Float(f64::NAN))];
    assert_eq!(guest.run_source(Source { inputs, ..Source::new("same(given)") }).ended, "Float(NaN)");
    // Python has no instances of a typed dictionary.
    guest.check("typed()", "Dict([(Str(\"title\"), Str(\"m\"))])");
    let all = Value::List(every_kind());
    let want = format!("{all:?}");
    let inputs = vec![("given".to_owned(), all)];
    assert_eq!(guest.run_source(Source { inputs, ..Source::new("given") }).ended, want);
}

#[test]
fn every_plain_value_crosses_outwards() {
    let mut guest = Guest::new();
    for (code, want) in [
        ("2**70", "BigInt(1180591620717411303424)"),
        ("bytearray(b'a')", "Bytes([97])"),
        ("import datetime as d\nd.date(2024, 1, 2)", "Date(\"2024-01-02\")"),
        ("d.datetime(2024, 1, 2, 3, 4, 5, 6, d.timezone.utc)", "DateTime(\"2024-01-02T03:04:05.000006+00:00\")"),
        ("d.time(1, 2)", "Time(\"01:02:00\")"),
        ("d.timedelta(days=-1, seconds=5)", "TimeDelta { days: -1, seconds: 5, microseconds: 0 }"),
        ("import pathlib\npathlib.Path('/a') / 'b'", "Path(\"/a/b\")"),
        ("pathlib.PureWindowsPath('c:/a')", "Path(\"c:\\\\a\")"),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n    y: list\nP(1, [2])",
            "Record(Record { kind: Dataclass, name: \"P\", fields: [(\"x\", Int(1)), (\"y\", List([Int(2)]))] })",
        ),
        (
            "import collections\ncollections.namedtuple('N', 'a b')(1, 2)",
            "Record(Record { kind: NamedTuple, name: \"N\", fields: [(\"a\", Int(1)), (\"b\", Int(2))] })",
        ),
        ("collections.Counter('aab')", "Dict([(Str(\"a\"), Int(2)), (Str(\"b\"), Int(1))])"),
        ("collections.OrderedDict(a=1)", "Dict([(Str(\"a\"), Int(1))])"),
        ("import enum\nclass E(enum.IntEnum):\n    A = 3\nE.A", "Int(3)"),
        ("p = record(); (p.x, type(p).__name__, repr(p))", "Tuple([Int(1), Str(\"Point\"), Str(\"Point(x=1, y=2)\")])"),
        ("r = row(); (r.id, r[1], repr(r))", "Tuple([Int(7), Str(\"a\"), Str(\"Row(id=7, name='a')\")])"),
        ("moment().utcoffset().seconds", "Int(7200)"),
    ] {
        guest.check(code, want);
    }
}

#[test]
fn what_cannot_cross_is_said_with_its_place() {
    let cannot = |at: &str, kind: &str| {
        format!("no value: a value of type `{kind}` at `{at}` cannot cross between guest and host")
    };
    let levels = |at: String| format!("no value: the value at `{at}` is over the limit of 64 levels");
    let mut guest = Guest::new();
    for (code, want) in [
        ("object()", cannot("value", "object")),
        ("{'a': [1, {2: print}]}", cannot("value.a[1][0]", "builtin_function_or_method")),
        ("{'rows': [0, 1, 2, open]}", cannot("value.rows[3]", "function")),
        ("class Odd: pass\n[Odd()]", cannot("value[0]", "Odd")),
        ("1j", cannot("value", "complex")),
        ("(n for n in ())", cannot("value", "generator")),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass Q:\n    x: object\nQ(object())",
            cannot("value.x", "object"),
        ),
        (
            "x = []; x.append(x); x",
            "no value: the value at `value[0]` contains itself and cannot cross between guest and host".to_owned(),
        ),
        (
            "'\\ud800'",
            "no value: the text at `value` holds a lone surrogate and cannot cross between guest and host".to_owned(),
        ),
        ("x = []\nfor _ in range(70): x = [x]\nx", levels(format!("value{}", "[0]".repeat(64)))),
        ("x = 1\nfor _ in range(64): x = [x]\nx", levels(format!("value{}", "[0]".repeat(64)))),
        ("[0] * 300_000", "no value: the value at `value` is over the limit of 200000 values".to_owned()),
        ("'a' * 5_000_000", "no value: the value at `value` is over the limit of 4194304 bytes".to_owned()),
        ("1 << 50_000_000", "no value: the value at `value` is over the limit of 4194304 bytes".to_owned()),
        (
            "import decimal\ndecimal.Decimal('1' * 5000)",
            "no value: the value at `value` is over the limit of 4096 bytes".to_owned(),
        ),
        (
            "type('N' * 300, (), {'__dataclass_fields__': {}})()",
            "no value: the value at `value` is over the limit of 256 bytes".to_owned(),
        ),
        (
            "a = [1] * 1000; b = [a] * 1000; b",
            "no value: the value at `value[199]` is over the limit of 200000 values".to_owned(),
        ),
        (
            "same({'k': object()})",
            concat!(
                "TypeError: a value of type `object` at `args[0].k` cannot cross between guest and host",
                " @main.py:1 <module> `same({'k': object()})`"
            )
            .to_owned(),
        ),
        (
            "x = {}; x['x'] = x; same(x)",
            concat!(
                "ValueError: the value at `args[0].x` contains itself and cannot cross between guest and host",
                " @main.py:1 <module> `x = {}; x['x'] = x; same(x)`"
            )
            .to_owned(),
        ),
        ("odd()", "TypeError: unhashable type: 'list' @main.py:1 <module> `odd()`".to_owned()),
    ] {
        guest.check(code, &want);
    }
    guest.check("x = []\nfor _ in range(63): x = [x]\nstr(x) == str(same(x))", "Bool(true)");
}

#[test]
fn the_largest_values_cross() {
    let mut guest = Guest::new();
    guest.check("len(same('a' * (4194304 - 100)))", "Int(4194204)");
    guest.check("len(same([0] * 199_999))", "Int(199999)");
}

#[test]
fn subclasses_cannot_fool_the_conversion() {
    let mut guest = Guest::new();
    for (code, want) in [
        ("class I(int):\n    __int__ = __index__ = __repr__ = lambda self: 99\nI(5)", "Int(5)"),
        ("class I(int):\n    __abs__ = __eq__ = __lt__ = lambda *_: 99\nI(2**64)", "BigInt(18446744073709551616)"),
        ("class S(str):\n    __str__ = __repr__ = __len__ = encode = lambda self: 'no'\nS('yes')", "Str(\"yes\")"),
        (
            "class L(list):\n    __iter__ = lambda self: iter([9])\n    __len__ = lambda self: 9\nL([1])",
            "List([Int(1)])",
        ),
        ("class D(dict):\n    items = keys = __iter__ = lambda self: [9]\nD(a=1)", "Dict([(Str(\"a\"), Int(1))])"),
        (
            "import datetime\nclass T(datetime.date):\n    isoformat = __str__ = lambda self: 'x'\nT(2024, 1, 1)",
            "Date(\"2024-01-01\")",
        ),
        ("import decimal\nclass C(decimal.Decimal):\n    __str__ = lambda self: 'x'\nC('1.0')", "Decimal(\"1.0\")"),
        (
            "class Liar:\n    __class__ = property(lambda self: int)\n[Liar()]",
            "no value: a value of type `Liar` at `value[0]` cannot cross between guest and host",
        ),
        (
            "class Meta(type):\n    __hash__ = None\nclass Strange(metaclass=Meta): pass\nStrange()",
            "no value: a value of type `Strange` at `value` cannot cross between guest and host",
        ),
    ] {
        guest.check(code, want);
    }
}

#[test]
fn scalars_of_numpy_are_their_python_numbers() {
    let mut guest = Guest::new();
    guest.check(
        concat!(
            "class generic:\n    def __init__(self, v): self.v = v\n    def item(self): return self.v\n",
            "generic.__module__ = 'numpy'\nclass int64(generic): pass\n[int64(5), int64(2.5), int64(True)]"
        ),
        "List([Int(5), Float(2.5), Bool(true)])",
    );
    guest.check("int64(int64(1))", "no value: a value of type `int64` at `value` cannot cross between guest and host");
    guest.check(
        "class ndarray: pass\nndarray.__module__ = 'numpy'\n{'a': ndarray()}",
        "no value: a value of type `ndarray` at `value.a` cannot cross between guest and host; give `.tolist()` or print it",
    );
}
