//! The survey and the fits, a line each.

use proptest::prelude::*;
use ringfence_types::Engine;

use super::*;

fn told(fit: &Fit) -> String {
    match fit {
        Fit::Right => "right".to_owned(),
        Fit::Unsupported { feature, line } => format!("unsupported: {feature} at line {line}"),
        Fit::Doubtful { why } => format!("doubtful: {why}"),
    }
}

#[track_caller]
fn check(code: &str, want: &str) {
    let program = analyze(code).expect("small enough");
    assert_eq!(told(&fit(&program, Engine::Monty)), want, "{code}");
}

#[track_caller]
fn check_rustpython(code: &str, want: &str) {
    let program = analyze(code).expect("small enough");
    assert_eq!(told(&fit(&program, Engine::Rustpython)), want, "{code}");
}

#[test]
fn ordinary_programs_are_right_for_monty() {
    for code in [
        "print('hi'); 6*7",
        "max(d['temp'] for d in get_weather('Oslo', days=3))",
        "total = 0\nfor row in fetch('rows'):\n    if row['n'] > 3:\n        total += row['n']\ntotal",
        "def mean(xs):\n    return sum(xs) / len(xs)\nf'{mean([1, 2, 4]):.2f}'",
        "import json\ndata = json.loads(fetch('x'))\nprint(json.dumps(data, indent=2, sort_keys=True))",
        "words = {}\nfor w in 'a b a'.split():\n    words[w] = words.get(w, 0) + 1\nsorted(words.items(), key=lambda kv: (-kv[1], kv[0]))",
        "try:\n    x = int('q')\nexcept (ValueError, KeyError) as e:\n    print(f'bad: {e}')\nelse:\n    print(x)",
        "seen = set()\nfor x in [3, 1, 3]:\n    if x in seen:\n        print('again', x)\n    seen.add(x)\nsorted(seen)",
        "class Stack:\n    def __init__(self):\n        self.items = []\n    def push(self, x):\n        self.items.append(x)\ns = Stack()\ns.push(1)\ns.items",
        "import asyncio\nasync def main():\n    return await asyncio.gather(ask(1), ask(2))\nasyncio.run(main())",
        "from datetime import date, timedelta\n(date(2024, 1, 30) + timedelta(days=2)).isoformat()",
        "import re\nre.findall(r'(\\d+)-(\\w+)', text())",
        "from collections import Counter\nCounter('hello').most_common(2)",
        "[[r[i] for r in [[1, 2], [3, 4]]] for i in range(2)]",
        "while True:\n    n = ask()\n    if not n: break",
        "import math\nmath.sqrt(2)",
    ] {
        check(code, "right");
    }
}

#[test]
fn what_monty_lacks_is_named() {
    check("class A(B): pass", "unsupported: class inheritance at line 1");
    check("\ndef f():\n    yield 1", "unsupported: generators at line 3");
    check("del x", "unsupported: the del statement at line 1");
    check("import numpy as np", "unsupported: module numpy at line 1");
    check("class A:\n    @property\n    def x(self): return 1", "unsupported: decorators on methods at line 2");
    check("match x:\n    case 1: pass", "unsupported: the match statement at line 1");
    check("'%d' % 5", "unsupported: % formatting at line 1");
    check("eval('1')", "unsupported: eval() at line 1");
    check("x[1:2] = [3]", "unsupported: assignment to a slice at line 1");
    check("sum(x > 1 for x in xs())", "unsupported: a sum of bools at line 1");
    check("1 + True", "unsupported: arithmetic with bool at line 1");
    check("{1} < {1, 2}", "unsupported: comparing sets by < and > at line 1");
}

#[test]
fn what_monty_computes_or_reads_differently_is_doubtful() {
    check("x = a() // 0.1", "doubtful: // by what may be no whole number at line 1");
    check("def f(a, b):\n    return a // b", "doubtful: // by what may be no whole number at line 2");
    check("x = a() // 2 + 7 // len([1])", "right");
    check("divmod(3.0, 0.1)", "doubtful: divmod() by what may be no whole number at line 1");
    check("divmod(a(), 60)", "right");
    let strptime = |format: &str| format!("from datetime import datetime\ndatetime.strptime(a(), {format})");
    let partial = "doubtful: strptime() with other than a full date at line 2";
    check(&strptime("'%Y-%m-%d %H:%M:%S'"), "right");
    check(&strptime("'%d %b %Y'"), "right");
    check(&strptime("'%Y-%m-%dT%H:%M:%S%z'"), partial);
    check(&strptime("'%H:%M'"), partial);
    check(&strptime("'%Y-%m'"), partial);
    check(&strptime("f()"), partial);
    let iso = "from datetime import date\ntry:\n    date.fromisoformat(a())\nexcept ";
    check(&format!("{iso}ValueError:\n    pass"), "doubtful: fromisoformat() where a ValueError is caught at line 3");
    check(&format!("{iso}KeyError:\n    pass"), "right");
    let gathered = |body: &str| {
        let gather = "async def main():\n    return await asyncio.gather(one(1), one(2))\nasyncio.run(main())";
        format!("import asyncio\nasync def one(n):\n{body}\n{gather}")
    };
    check(
        &gathered("    try:\n        return await ask(n)\n    except ValueError:\n        return 0"),
        "doubtful: a try around an await, in coroutines that are gathered, at line 3",
    );
    check(
        &gathered("    x = await ask(n)\n    try:\n        return int(x)\n    except KeyError:\n        return 0"),
        "right",
    );
}

#[test]
fn what_monty_does_differently_is_doubtful() {
    check("round(2.675, 2)", "doubtful: round() to digits at line 1");
    check("print({3, 1, 2})", "doubtful: a set whose order may show at line 1");
    check("s = {3, 1}\nfor x in s: print(x)", "doubtful: a set whose order may show at line 2");
    check("z = zip([1], [2])", "doubtful: an iterator that is not used up at once at line 1");
    check("g = (x for x in [1])", "doubtful: an iterator that is not used up at once at line 1");
    check("any(f(x) for x in [1])", "doubtful: a call within any() or all() at line 1");
    check("(-1) ** 0.5", "doubtful: a power that may be large or complex at line 1");
    check("'ab'.center(5)", "doubtful: the method center at line 1");
    check("f'{x()}' + f'{x():>5}'", "doubtful: a format without a type at line 1");
    check("ok = 0\nif a(): ok = a() > 1\nn = 1 + ok", "doubtful: arithmetic that may meet a bool at line 3");
    check(
        "try:\n    x = a() + b()\nexcept Exception:\n    x = 0",
        "doubtful: arithmetic that may meet a bool at line 2",
    );
    check("sorted([1], key=lambda x: ask(x))", "doubtful: a call of ask from within a callback at line 1");
    check("def f(x): return ask(x)\nlist(map(f, [1]))", "doubtful: a call of ask from within a callback at line 1");
    check("raise ValueError('a') from e", "doubtful: an exception with a cause at line 1");
    check("import re\nre.findall('a|', x())", "doubtful: a pattern that engines may read differently at line 2");
    check("from collections import deque", "doubtful: collections.deque at line 1");
    check("d = {}\nd[True] = 1", "doubtful: a key that may equal another number at line 2");
    check(
        "xs = [1, 2]\nfor i, x in enumerate(xs):\n    xs.append(x)",
        "doubtful: a list that is changed while it is walked at line 2",
    );
    check("print({'a': 1}.keys() & {'a': 2}.keys())", "doubtful: a set whose order may show at line 1");
    check("x = 1\nf'{x:10xyz}'", "doubtful: an unusual format at line 2");
    check("x = (1", "doubtful: line 1 is not valid Python: unexpected EOF while parsing");
}

#[test]
fn rustpython_lacks_modules() {
    check_rustpython("import json, enum\nclass A(enum.Enum): X = 1", "right");
    check_rustpython(
        "import json\nimport numpy.linalg",
        "unsupported: module numpy: not in the standard library at line 2",
    );
    check_rustpython("from http.client import X", "unsupported: module http: there is no network at line 1");
    check_rustpython("import xml.sax", "unsupported: module xml.sax: it needs the network's modules at line 1");
    check_rustpython("import xml.etree.ElementTree", "right");
    check_rustpython("import subprocess", "unsupported: module subprocess: processes can't be started at line 1");
    check_rustpython("__import__('subprocess')", "right");
    check_rustpython("try:\n    import numpy\nexcept ImportError:\n    numpy = None", "right");
}

#[test]
fn the_survey_lists_imports_features_and_names() {
    let code = "import os.path as p, requests\nfrom a.b import *\nx = input()\nwith open('f') as f:\n    del x\nawait tool(len(x))";
    let program = analyze(code).expect("small");
    let imports: Vec<String> = program.imports.iter().map(|each| format!("{}:{}", each.module, each.line)).collect();
    assert_eq!(imports, ["os.path:1", "requests:1", "a.b:2"]);
    let features: Vec<String> =
        program.features.iter().map(|each| format!("{}:{}", each.kind.name(), each.line)).collect();
    let want = [
        "network access:1",
        "import *:2",
        "input():3",
        "file access:4",
        "the del statement:5",
        "await at the top level:6",
    ];
    assert_eq!(features, want);
    assert_eq!(program.names_used, ["input", "len", "open", "tool"]);
    assert_eq!(program.names_set, ["f", "p", "requests", "x"]);
    assert_eq!(program.packages(), ["a", "requests"]);
    assert!(program.last_is_expression);
    let broken = analyze("x = 1\ny = )").expect("small").syntax_error.expect("broken");
    assert_eq!((broken.line, broken.column), (2, 5));
}

#[test]
fn names_of_inputs_and_earlier_snippets_are_values() {
    check("sum(rows)", "doubtful: `rows` used as a value at line 1");
    let program = analyze_in("sum(rows)", &["rows"]).expect("small");
    assert_eq!(told(&fit(&program, Engine::Monty)), "right");
}

#[test]
fn hostile_source_is_refused_before_it_is_parsed() {
    let refused = |code: &str| analyze(code).expect_err("refused").to_string();
    let brackets = "[".repeat(8_000_000);
    let want = "the program nests too deeply: too many nested parentheses at line 1; at most 200 are allowed";
    assert_eq!(refused(&brackets), want);
    let large = "the program has 10000000 bytes, at most 8388608 are allowed; pass large data as a file or an input";
    assert_eq!(refused(&"[".repeat(10_000_000)), large);
}

#[test]
fn the_deepest_source_that_is_allowed_is_walked() {
    for code in [
        format!("x = {}1", "-".repeat(2_900)),
        format!("x = a{}", ".b".repeat(2_900)),
        format!("x = a{}", "()".repeat(2_900)),
        format!("x = {}1", "not ".repeat(2_900)),
        format!("x = 1{}", " + 1".repeat(2_900)),
        format!("x = {}1", "lambda: ".repeat(2_900)),
        format!("x = 1{}", " if a else 1".repeat(1_400)),
        format!("x = {}1{}", "[".repeat(199), "]".repeat(199)),
        (0..99).map(|level| format!("{}if a:\n", " ".repeat(level))).collect::<String>() + &" ".repeat(99) + "pass",
    ] {
        assert!(analyze(&code).is_ok_and(|program| program.syntax_error.is_none()), "{}", &code[..20]);
    }
}

#[test]
fn the_standard_library_is_sorted() {
    assert!(stdlib_modules().is_sorted());
    assert!(is_stdlib("json") && is_stdlib("tomllib") && !is_stdlib("numpy"));
}

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "if ",
        "else ",
        ":",
        "\n",
        "\n    ",
        "def f(",
        "class A",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "x",
        "=",
        "1",
        "'",
        "\"",
        "f'",
        "f\"{",
        "'''",
        "lambda ",
        "not ",
        "-",
        "**",
        "for x in ",
        "yield ",
        "await ",
        "import ",
        "from ",
        ".",
        "@",
        "\\\n",
        "#",
        "try:",
        "except* ",
        "match x:",
        "case _:",
        ";",
        "é",
        "\r",
        "\t",
        "*",
        "del ",
        "with ",
        ":=",
        "0x",
        "None",
        "async ",
        "return ",
        "raise ",
        "is ",
        "in ",
    ])
}

proptest! {
    #[test]
    fn no_text_panics(code in "\\PC{0,200}") {
        let _ = analyze(&code).map(|program| fit(&program, Engine::Monty));
    }

    #[test]
    fn no_token_soup_panics(tokens in prop::collection::vec(token(), 0..80)) {
        let _ = analyze(&tokens.concat()).map(|program| fit(&program, Engine::Monty));
    }
}
