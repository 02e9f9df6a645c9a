//! What is known of the engines, as data.
//!
//! Answers to: the checks. Must not: list anything for monty that was not seen to behave exactly as in CPython; each
//! omission from a list is a decision, and the known reasons stand beside it.

use crate::FeatureKind::{self, Eval, Files, Input, Network, Processes, Threads};
use crate::kinds::{ANY, BOOL, BYTES, DICT, FLOAT, INT, Kinds, LAZY, LIST, NONE, SET, STR, TUPLE};

/// Modules that RustPython 0.5 lacks or that can't work in a locked worker, and why.
pub(crate) const RUSTPYTHON_LACKS: &[(&str, &str)] = &[
    ("asyncore", "it needs sockets"),
    ("ctypes", "it calls native code"),
    ("cffi", "it calls native code"),
    ("curses", "there is no terminal"),
    ("dbm", "native databases are not there"),
    ("ensurepip", "packages can't be installed"),
    ("fcntl", "there are no file descriptors"),
    ("ftplib", "there is no network"),
    ("grp", "there are no users"),
    ("http", "there is no network"),
    ("imaplib", "there is no network"),
    ("lib2to3", "it is not built in"),
    ("mmap", "there is no shared memory"),
    ("multiprocessing", "processes can't be started"),
    ("nis", "there is no network"),
    ("poplib", "there is no network"),
    ("pty", "processes can't be started"),
    ("pwd", "there are no users"),
    ("readline", "there is no terminal"),
    ("resource", "limits are set from outside"),
    ("selectors", "it needs sockets"),
    ("select", "it needs sockets"),
    ("smtplib", "there is no network"),
    ("socket", "there is no network"),
    ("socketserver", "there is no network"),
    ("sqlite3", "the database is not built in"),
    ("ssl", "there is no network"),
    ("subprocess", "processes can't be started"),
    ("syslog", "there is no system log"),
    ("telnetlib", "there is no network"),
    ("termios", "there is no terminal"),
    ("tkinter", "there is no screen"),
    ("turtle", "there is no screen"),
    ("tty", "there is no terminal"),
    ("venv", "processes can't be started"),
    ("webbrowser", "processes can't be started"),
    ("xml.sax", "it needs the network's modules"),
    ("xml.dom.pulldom", "it needs the network's modules"),
    ("xmlrpc", "there is no network"),
];

/// Modules that mean a feature by themselves.
pub(crate) const MODULE_FEATURES: &[(&str, FeatureKind)] = &[
    ("threading", Threads),
    ("concurrent", Threads),
    ("_thread", Threads),
    ("queue", Threads),
    ("multiprocessing", Processes),
    ("subprocess", Processes),
    ("pty", Processes),
    ("socket", Network),
    ("ssl", Network),
    ("http", Network),
    ("smtplib", Network),
    ("ftplib", Network),
    ("requests", Network),
    ("httpx", Network),
    ("aiohttp", Network),
    ("shutil", Files),
    ("tempfile", Files),
    ("glob", Files),
];

/// Built-in functions that mean a feature by themselves.
pub(crate) const CALL_FEATURES: &[(&str, FeatureKind)] =
    &[("eval", Eval), ("exec", Eval), ("compile", Eval), ("open", Files), ("input", Input)];

/// Attributes that lead from an object into the interpreter.
pub(crate) const REFLECTION: &[&str] = &[
    "__bases__",
    "__base__",
    "__mro__",
    "__subclasses__",
    "__globals__",
    "__code__",
    "__closure__",
    "__builtins__",
    "__getattribute__",
    "__reduce__",
    "__reduce_ex__",
    "__loader__",
    "gi_frame",
    "tb_frame",
    "f_globals",
    "f_back",
    "f_locals",
    "f_builtins",
    "cr_frame",
    "ag_frame",
];

/// Built-in functions, the kinds they return, and the keywords they take. Left out: `round` with digits (wrong last
/// digit), `iter`/`next` (iterators are lists), `hash`, `id`, `getattr`, `bytes`, `pow`, `open`.
pub(crate) const BUILTINS: &[(&str, Kinds, &str)] = &[
    ("abs", INT | FLOAT, ""),
    ("all", BOOL, ""),
    ("any", BOOL, ""),
    ("bin", STR, ""),
    ("bool", BOOL, ""),
    ("chr", STR, ""),
    ("dict", DICT, "*"),
    ("divmod", TUPLE, ""),
    ("enumerate", LAZY, "start"),
    ("filter", LAZY, ""),
    ("float", FLOAT, ""),
    ("frozenset", SET, ""),
    ("hex", STR, ""),
    ("int", INT, ""),
    ("isinstance", BOOL, ""),
    ("len", INT, ""),
    ("list", LIST, ""),
    ("map", LAZY, ""),
    ("max", ANY, "key default"),
    ("min", ANY, "key default"),
    ("oct", STR, ""),
    ("ord", INT, ""),
    ("print", NONE, "sep end"),
    ("range", LIST, ""),
    ("repr", STR, ""),
    ("reversed", LAZY, ""),
    ("round", INT | FLOAT, ""),
    ("set", SET, ""),
    ("sorted", LIST, "key reverse"),
    ("str", STR, ""),
    ("sum", INT | FLOAT | STR | LIST, ""),
    ("tuple", TUPLE, ""),
    ("type", ANY, ""),
    ("zip", LAZY, "strict"),
];

/// Built-in callables that may be handed to `key=`, `map` and `defaultdict`.
pub(crate) const CALLABLE_VALUES: &[&str] =
    &["int", "str", "float", "len", "list", "dict", "abs", "ord", "sum", "max", "min", "bool", "tuple", "sorted"];

/// Names that may stand in `isinstance`, annotations and comparisons of `type(x)`.
pub(crate) const TYPE_NAMES: &[&str] =
    &["int", "str", "float", "list", "dict", "bool", "tuple", "set", "bytes", "object"];

/// Exceptions that may be raised and caught.
pub(crate) const EXCEPTIONS: &[&str] = &[
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "Exception",
    "FileNotFoundError",
    "IndexError",
    "KeyError",
    "LookupError",
    "NameError",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PermissionError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "TimeoutError",
    "TypeError",
    "ValueError",
    "ZeroDivisionError",
];

/// Exceptions that a gap of monty may raise instead of a value: a handler for one hides the gap.
pub(crate) const HIDES_GAPS: &[&str] = &[
    "ArithmeticError",
    "AttributeError",
    "BaseException",
    "Exception",
    "NameError",
    "NotImplementedError",
    "OverflowError",
    "RuntimeError",
    "TypeError",
];

/// Exceptions whose handler may meet a `KeyError`.
pub(crate) const MAY_BE_KEY_ERROR: &[&str] = &["BaseException", "Exception", "KeyError", "LookupError"];

/// Exceptions whose handler may meet a `ValueError`.
pub(crate) const MAY_BE_VALUE_ERROR: &[&str] = &["BaseException", "Exception", "ValueError"];

/// Methods by name, whatever they are called on, with the kinds they return and the keywords they take. Left out:
/// `casefold`, `center` (other padding), `isprintable`, `translate`, `splitlines` with an argument, `set.pop`.
pub(crate) const METHODS: &[(&str, Kinds, &str)] = &[
    ("capitalize", STR, ""),
    ("count", INT, ""),
    ("encode", BYTES, ""),
    ("decode", STR, ""),
    ("endswith", BOOL, ""),
    ("find", INT, ""),
    ("index", INT, ""),
    ("isalnum", BOOL, ""),
    ("isalpha", BOOL, ""),
    ("isascii", BOOL, ""),
    ("isdecimal", BOOL, ""),
    ("isdigit", BOOL, ""),
    ("isidentifier", BOOL, ""),
    ("islower", BOOL, ""),
    ("isnumeric", BOOL, ""),
    ("isspace", BOOL, ""),
    ("istitle", BOOL, ""),
    ("isupper", BOOL, ""),
    ("join", STR, ""),
    ("ljust", STR, ""),
    ("lower", STR, ""),
    ("lstrip", STR, ""),
    ("partition", TUPLE, ""),
    ("removeprefix", STR, ""),
    ("removesuffix", STR, ""),
    ("replace", ANY, ""),
    ("rfind", INT, ""),
    ("rindex", INT, ""),
    ("rjust", STR, ""),
    ("rpartition", TUPLE, ""),
    ("rsplit", LIST, ""),
    ("rstrip", STR, ""),
    ("split", LIST, ""),
    ("splitlines", LIST, ""),
    ("startswith", BOOL, ""),
    ("strip", STR, ""),
    ("swapcase", STR, ""),
    ("title", STR, ""),
    ("upper", STR, ""),
    ("zfill", STR, ""),
    ("append", NONE, ""),
    ("clear", NONE, ""),
    ("copy", ANY, ""),
    ("extend", NONE, ""),
    ("insert", NONE, ""),
    ("pop", ANY, ""),
    ("remove", NONE, ""),
    ("reverse", NONE, ""),
    ("sort", NONE, "key reverse"),
    ("get", ANY, ""),
    ("items", LIST, ""),
    ("keys", LIST, ""),
    ("values", LIST, ""),
    ("popitem", TUPLE, ""),
    ("setdefault", ANY, ""),
    ("update", NONE, "*"),
    ("add", NONE, ""),
    ("discard", NONE, ""),
    ("union", SET, ""),
    ("intersection", SET, ""),
    ("difference", SET, ""),
    ("symmetric_difference", SET, ""),
    ("issubset", BOOL, ""),
    ("issuperset", BOOL, ""),
    ("isdisjoint", BOOL, ""),
];

/// Methods of values that only a module makes: known once the module is imported.
pub(crate) const MODULE_METHODS: &[(&str, &str)] = &[
    ("datetime", "strftime isoformat weekday isoweekday total_seconds date"),
    ("re", "group groups groupdict start end span"),
    ("collections", "most_common"),
];

/// Attributes of such values.
pub(crate) const MODULE_ATTRIBUTES: &[(&str, &str)] = &[("datetime", "days year month day hour minute second")];

/// Modules with the names that may be used of them; `name()` is a function with the keywords in the brackets.
/// Left out of `math`: `factorial` (fails over 20), `gamma` (last digit), `hypot`, `prod` and others (missing).
/// Left out of `re`: `split` (groups are lost), `finditer` (a list), `compile`. Left out of `datetime`: `now`, `today`.
pub(crate) const MODULES: &[(&str, &str)] = &[
    ("json", "dumps(indent,sort_keys,ensure_ascii) loads()"),
    (
        "math",
        "sqrt() floor() ceil() fabs() trunc() isnan() isinf() isfinite() gcd() lcm() isqrt() isclose() fmod() \
         copysign() pi e tau",
    ),
    ("re", "findall() search() match() fullmatch() sub()"),
    (
        "datetime",
        "date() datetime() timedelta(days,hours,minutes,weeks) date.fromisoformat() datetime.fromisoformat() \
         datetime.strptime() datetime.date() datetime.datetime() datetime.timedelta(days,hours,minutes,weeks) \
         datetime.date.fromisoformat() datetime.datetime.fromisoformat() datetime.datetime.strptime()",
    ),
    ("collections", "Counter() defaultdict()"),
    ("functools", "reduce()"),
    ("typing", "Any Callable Dict Iterable List Mapping Optional Sequence Set Tuple Union"),
    ("dataclasses", "dataclass"),
    ("asyncio", "gather() run()"),
    ("__future__", "annotations"),
];

/// Methods that a class may define: others are never called, or called where a host function can't be.
pub(crate) const DUNDERS: &[&str] = &["__init__", "__repr__", "__str__", "__eq__"];
