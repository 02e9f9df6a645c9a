//! What CPython has and monty 0.0.23 may lack, as data: an exception that names one of these is a gap, not a fault.
//!
//! Answers to: `raise`. Must not: list what CPython doesn't have either.

/// Built-in names of CPython 3.11 that monty lacks. A `NameError` for one of them is never the program's fault.
pub(super) const BUILTINS: &[&str] = &[
    "__build_class__",
    "__debug__",
    "__doc__",
    "__file__",
    "__import__",
    "__loader__",
    "__name__",
    "__package__",
    "__spec__",
    "aiter",
    "anext",
    "ascii",
    "bytearray",
    "callable",
    "classmethod",
    "compile",
    "complex",
    "delattr",
    "dir",
    "eval",
    "exec",
    "format",
    "globals",
    "help",
    "input",
    "issubclass",
    "locals",
    "memoryview",
    "object",
    "property",
    "slice",
    "staticmethod",
    "super",
    "vars",
    "BaseExceptionGroup",
    "BlockingIOError",
    "BrokenPipeError",
    "BufferError",
    "BytesWarning",
    "ChildProcessError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "DeprecationWarning",
    "EOFError",
    "EnvironmentError",
    "ExceptionGroup",
    "FloatingPointError",
    "FutureWarning",
    "GeneratorExit",
    "IOError",
    "ImportWarning",
    "IndentationError",
    "InterruptedError",
    "PendingDeprecationWarning",
    "ProcessLookupError",
    "ReferenceError",
    "ResourceWarning",
    "RuntimeWarning",
    "StopAsyncIteration",
    "SyntaxWarning",
    "SystemError",
    "TabError",
    "UnicodeError",
    "UnicodeTranslateError",
    "UnicodeWarning",
    "UserWarning",
    "Warning",
];

/// Parts of the errors that monty raises for what it has not built yet.
pub(super) const ERRORS: &[&str] = &[
    "'file' argument is not supported",
    "type() bases are not supported",
    "can only be called with zero or one string argument",
    "not slice",
    "object is not an iterator",
    "type int doesn't define __round__ method",
    "float() argument must be a string or a real number, not 'int'",
    "must be real number, not int",
    "int too large to convert to factorial",
    "cannot use 'set' as",
    "cannot convert 'list' object to bytes",
];

/// Types between which monty has every operator that CPython has, but for those told elsewhere.
pub(super) const PLAIN: &[&str] = &[
    "int",
    "float",
    "bool",
    "str",
    "bytes",
    "list",
    "tuple",
    "dict",
    "NoneType",
    "set",
    "frozenset",
    "range",
    "type",
    "function",
    "builtin_function_or_method",
];

/// Methods and attributes of CPython's own types.
pub(super) const METHODS: &[(&str, &str)] = &[
    (
        "str",
        "capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha \
         isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower \
         lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip \
         split splitlines startswith strip swapcase title translate upper zfill",
    ),
    (
        "bytes",
        "capitalize center count decode endswith expandtabs find fromhex hex index isalnum isalpha isascii isdigit \
         islower isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace \
         rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper \
         zfill",
    ),
    (
        "int",
        "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes \
         is_integer",
    ),
    ("bool", "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes"),
    ("float", "as_integer_ratio conjugate fromhex hex imag is_integer real"),
    ("list", "append clear copy count extend index insert pop remove reverse sort"),
    ("tuple", "count index"),
    ("dict", "clear copy fromkeys get items keys pop popitem setdefault update values"),
    ("collections.Counter", "elements most_common subtract total update"),
    (
        "set",
        "add clear copy difference difference_update discard intersection intersection_update isdisjoint issubset \
         issuperset pop remove symmetric_difference symmetric_difference_update union update",
    ),
    ("frozenset", "copy difference intersection isdisjoint issubset issuperset symmetric_difference union"),
    ("range", "count index start step stop"),
    ("function", "__name__ __qualname__ __doc__ __module__ __wrapped__ __dict__ __defaults__ __annotations__"),
    ("type", "__mro__ __bases__ __subclasses__ __qualname__ __module__ __dict__ mro"),
    ("re.Pattern", "flags fullmatch findall finditer groupindex groups match pattern scanner search split sub subn"),
    ("re.Match", "end endpos expand group groupdict groups lastgroup lastindex pos re regs span start string"),
];
