//! Rich results: `display`, the last expression, pandas and matplotlib.
//!
//! Answers to: stand-ins for the libraries on every machine, and the libraries themselves where the interpreter has
//! them; where it has not, the test says so by its text.

use crate::support::Guest;

#[test]
fn objects_are_shown_as_they_say() {
    let mut guest = Guest::new();
    guest.asks("display(1, 'a')", &["show text/plain=1", "show text/plain='a'"]);
    guest.asks(
        "display({'text/html': '<b>', 'image/png': b'\\x89PNG\\xff'}, raw=True)",
        &["show text/html=<b>, image/png=a picture"],
    );
    guest.asks(
        "class H:\n    def _repr_html_(self): return '<b>h</b>'\n    def __repr__(self): return 'H()'\nH()",
        &["show text/html=<b>h</b>, text/plain=H()"],
    );
    guest.check("H()", "no value: a value of type `H` at `value` cannot cross between guest and host");
    guest.asks(
        "class M:\n    def _repr_mimebundle_(self, include, exclude): return {'text/markdown': '*m*'}, {}\n    def _repr_json_(self): return {'a': [1]}\n    def __repr__(self): return 'M()'\ndisplay(M())",
        &["show text/markdown=*m*, application/json={\"a\": [1]}, text/plain=M()"],
    );
    guest.asks(
        "class P:\n    def _repr_png_(self): return 'iVBORw0KGgo='\n    def _repr_svg_(self): return '<svg/>'\n    def _repr_html_(self): 1 / 0\n    def __repr__(self): raise ValueError\nP()",
        &["show image/svg+xml=<svg/>, image/png=a picture, text/plain=<P object; its repr() failed>"],
    );
    guest.asks(
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: int\n    def _repr_html_(self): return 'd'\nD(1)",
        &["show text/html=d, text/plain=D(x=1)"],
    );
    for plain in ["1", "'a'", "[H()]", "H", "object()", "print", "(n for n in ())", "None"] {
        guest.asks(plain, &[]);
    }
}

#[test]
fn a_bundle_too_large_loses_its_largest_part() {
    let mut guest = Guest::new();
    let ran = guest.run("display({'text/html': 'x' * 9_000_000, 'text/plain': 'small'}, raw=True)");
    assert_eq!(ran.log, ["show text/plain=small"]);
    assert_eq!(ran.err, "display: text/html of 9000000 bytes is left out; at most 8388608 bytes fit\n");
    let ran = guest.run("display({'text/html': 'x' * 9_000_000}, raw=True)");
    assert!(ran.log.is_empty(), "{:?}", ran.log);
}

/// Modules that look like the libraries from where the driver stands.
const STAND_INS: &str = r#"
import sys, types
np = sys.modules["numpy"] = types.ModuleType("numpy")
class ndarray:
    __module__ = "numpy"
    def __repr__(self): return "array([1, 2])"
class Series:
    __module__ = "pandas.core.series"
    def __repr__(self): return "0    1"
    def to_frame(self): return DataFrame()
class DataFrame:
    __module__ = "pandas.core.frame"
    def __repr__(self): return "   a\n0  1"
    def _repr_html_(self): return "<table>"
"#;

#[test]
fn tables_are_shown_as_html_and_text() {
    let mut guest = Guest::new();
    guest.check(STAND_INS, "None");
    guest.asks("DataFrame()", &["show text/html=<table>, text/plain=   a\n0  1"]);
    guest.asks("Series()", &["show text/html=<table>, text/plain=0    1"]);
    guest.asks("ndarray()", &["show text/plain=array([1, 2])"]);
    let cannot = |kind: &str, hint: &str| {
        format!(
            "no value: a value of type `{kind}` at `value` cannot cross between guest and host; give `{hint}` or print it"
        )
    };
    guest.check("DataFrame()", &cannot("DataFrame", ".to_dict('records')"));
    guest.check("Series()", &cannot("Series", ".to_list()"));
    guest.check("ndarray()", &cannot("ndarray", ".tolist()"));
}

/// A `matplotlib` of four functions, in the workspace, since it is the import that is looked at.
const PLOTTING: &str = r#"
import io, os
os.makedirs("matplotlib")
def put(name, text):
    with io.open(f"matplotlib/{name}.py", "w") as file: file.write(text)
put("__init__", "")
put("figure", '''
class Figure:
    def __init__(self, number): self.number = number
    def savefig(self, out, format, bbox_inches): out.write(b"\\x89PNG\\xff" + bytes([self.number]))
    def __repr__(self): return f"Figure({self.number})"
''')
put("pyplot", '''
from matplotlib.figure import Figure
_open = {}
def figure(number=None):
    number = number or len(_open) + 1
    return _open.setdefault(number, Figure(number))
def get_fignums(): return sorted(_open)
def close(number): _open.pop(number, None)
def show(*args, **kwargs): raise RuntimeError("not interactive")
''')
"#;

#[test]
fn open_figures_are_sent() {
    let mut guest = Guest::new();
    guest.check(PLOTTING, "None");
    let figure = |number: u32| format!("show image/png=a picture, text/plain=Figure({number})");
    guest.asks("import matplotlib.pyplot as plt\n_ = plt.figure(), plt.figure()", &[&figure(1), &figure(2)]);
    guest.asks("plt.get_fignums()", &[]);
    guest.sees("_ = plt.figure()\nprint('a')\nplt.show()\nprint('b')", "a\n[shown]b\n");
    guest.asks("plt.figure()", &[&figure(1)]);
    guest.asks("f = plt.figure()\ndisplay(f)", &[&figure(1)]);
    guest.asks("from matplotlib.figure import Figure\nFigure(9)", &[&figure(9)]);
    guest.asks("_ = plt.figure()\n1 / 0", &[&figure(1)]);
}

#[test]
fn the_libraries_themselves_where_they_are() {
    let mut guest = Guest::new();
    for (library, code, want) in [
        (
            "numpy",
            "import numpy as np\n[np.int64(5), np.float32(0.5), np.bool_(True), np.str_('a')]",
            "List([Int(5), Float(0.5), Bool(true), Str(\"a\")])",
        ),
        (
            "numpy",
            "import numpy as np\nnp.arange(3)",
            "no value: a value of type `ndarray` at `value` cannot cross between guest and host; give `.tolist()` or print it",
        ),
        (
            "pandas",
            "import pandas as pd\npd.DataFrame({'a': [1]}).to_dict('records')",
            "List([Dict([(Str(\"a\"), Int(1))])])",
        ),
        (
            "pandas",
            "import pandas as pd\npd.DataFrame({'a': [1]})",
            "no value: a value of type `DataFrame` at `value` cannot cross between guest and host; give `.to_dict('records')` or print it",
        ),
        (
            "matplotlib",
            "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nlen(plt.get_fignums())",
            "Int(0)",
        ),
    ] {
        let found =
            guest.run(&format!("import importlib.util\nimportlib.util.find_spec('{library}') is not None")).ended;
        if found == "Bool(true)" {
            guest.check(code, want);
        } else {
            println!("{library} is not installed for {}: only its stand-in was tested", crate::support::python());
        }
    }
}
