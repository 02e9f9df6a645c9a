//! Values, names, output, input, tracebacks and top-level `await`.
//!
//! Answers to: the same tables as the other engines where they have them.

use ringfence_types::{Source, Value};

use crate::support::Guest;

#[test]
fn the_last_expression_is_the_value() {
    let mut guest = Guest::new();
    for (code, want) in [
        ("6 * 7", "Int(42)"),
        ("x = 1", "None"),
        ("", "None"),
        ("# nothing", "None"),
        ("def f(): return 1", "None"),
        ("class A: pass", "None"),
        ("if True:\n    5", "None"),
        ("x = 3; x + 1;", "Int(4)"),
        ("'a doc'", "Str(\"a doc\")"),
        ("__name__", "Str(\"__main__\")"),
        ("state_a = 5", "None"),
        ("state_a + 1", "Int(6)"),
        ("import sys; sys.modules['__main__'].state_a", "Int(5)"),
        ("from __future__ import annotations\ndef f(x: Nowhere): pass\nf.__annotations__['x']", "Str(\"Nowhere\")"),
        ("\u{feff}1 + 1", "Int(2)"),
        ("class Here: pass\nimport pickle\ntype(pickle.loads(pickle.dumps(Here()))) is Here", "Bool(true)"),
        ("import inspect\ndef f():\n    return 1\ninspect.getsource(f)", "Str(\"def f():\\n    return 1\\n\")"),
        ("import os\n(os.path.basename(__file__), sys.argv)", "Tuple([Str(\"main.py\"), List([Str(\"main.py\")])])"),
    ] {
        guest.check(code, want);
    }
}

#[test]
fn input_is_the_given_text() {
    let mut guest = Guest::new();
    let mut given = |code: &str| {
        let ran = guest.run_source(Source { stdin: "one\ntwo\n\nlast é".to_owned(), ..Source::new(code) });
        (ran.ended, ran.out)
    };
    let lines = "List([Str(\"one\"), Str(\"two\"), Str(\"\"), Str(\"last é\")])";
    assert_eq!(given("[input('? '), input(), input(), input()]").0, lines);
    assert_eq!(given("input('? ')").1, "? ");
    assert_eq!(given("import sys\n[line.strip() for line in sys.stdin]").0, lines);
    assert_eq!(given("sys.stdin.read()").0, "Str(\"one\\ntwo\\n\\nlast é\")");
    assert_eq!(given("len(sys.stdin.buffer.read())").0, "Int(16)");
    guest.check("input()", "EOFError: EOF when reading a line @main.py:1 <module> `input()`");
}

#[test]
fn inputs_are_names() {
    let mut guest = Guest::new();
    let inputs = vec![
        ("given".to_owned(), Value::List(vec![Value::Int(1), Value::Date("2024-02-03".to_owned())])),
        ("amount".to_owned(), Value::Decimal("2.50".to_owned())),
    ];
    let ran = guest.run_source(Source { inputs, ..Source::new("(given[0] + 1, given[1].year, amount * 2)") });
    assert_eq!(ran.ended, "Tuple([Int(2), Int(2024), Decimal(\"5.00\")])");
}
