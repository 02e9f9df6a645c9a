"""What the library has wrong, put right: iterators, modules whose native half is not to be relied on.

Answers to: `mended.rs`, which puts METHODS into the interpreter's types. Must not: be a place for permissions.
"""

import re
import sys


def _backwards(rows, of):
    count = len(of)
    for row in rows:
        if len(of) != count:
            raise RuntimeError("dictionary changed size during iteration")
        yield row


def _reversed_dict(self, /):
    return _backwards(list(dict.keys(self))[::-1], self)


def _reversed_view(self, /):
    return _backwards(list(self)[::-1], self)


for _function in (_reversed_dict, _reversed_view):
    _function.__name__ = _function.__qualname__ = "__reversed__"

METHODS = [
    (dict, "__reversed__", _reversed_dict),
    *((type(view), "__reversed__", _reversed_view) for view in ({}.keys(), {}.values(), {}.items())),
]


def _expand(pattern, match, template):
    """What `Match.expand` asks of the module `re`."""
    from re import _parser

    parts = _parser.parse_template(template, pattern)
    empty = template[:0]
    return empty.join((match.group(part) or empty) if at % 2 else part for at, part in enumerate(parts))


_sources, _given = {}, {}


class _Made:
    """Finds and loads the modules that are written here."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _sources:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, _Made, origin="built-in")

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__
        module.__dict__.update(_given.get(name, {}))
        exec(compile(_sources[name], f"<ringfence {name}>", "exec"), module.__dict__)


def make_scanner(context):
    """The scanner of a decoder: ours, and the library's own one for what ours finds fault with."""
    strict = bool(context.strict)
    hooks = [context.object_hook, context.object_pairs_hook, context.parse_float, context.parse_int]
    hooks = [None if hook in (float, int) else hook for hook in hooks]
    constant = context.parse_constant
    hooks.append(None if getattr(constant, "__self__", None) == _CONSTANTS else constant)
    hooked = any(hook is not None for hook in hooks)

    def scan_once(string, index):
        found = _scan(string, index, strict) if index >= 0 else None
        if found is None:
            from json.scanner import py_make_scanner

            return py_make_scanner(context)(string, index)
        return _scan(string, index, strict, hooks) if hooked else found

    return scan_once


_CONSTANTS = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}


def install(sources, scan, row):
    """Once, while the interpreter is warmed and before what is mended is imported."""
    global _scan
    import _json

    _scan = scan
    _sources.update(sources)
    _given["_csv"] = {"_row": row}
    sys.meta_path.append(_Made)
    re._expand = _expand
    # The native scanner takes `007` for a number and dies of `1-2`.
    _json.make_scanner = make_scanner
