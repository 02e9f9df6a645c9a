"""What `Annotated` adds to a type: bounds, lengths, patterns, descriptions, JSON Schema keywords.

Answers to: `hints`. Objects are known by their attributes (`gt`, `max_length`, `pattern` ...),
so that annotated_types, pydantic's `Field` and one's own classes all work without an import.
Must not: drop a constraint that it understood. Each goes into the schema where JSON Schema
has a word for it, and is checked again on the Python value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

Check = Callable[[Any], "str | None"]
"""Says what is wrong with a value, or None."""

_BOUNDS: dict[str, tuple[str, str, Callable[[Any, Any], bool]]] = {
    "gt": ("exclusiveMinimum", "greater than", lambda value, bound: bool(value > bound)),
    "ge": ("minimum", "at least", lambda value, bound: bool(value >= bound)),
    "lt": ("exclusiveMaximum", "less than", lambda value, bound: bool(value < bound)),
    "le": ("maximum", "at most", lambda value, bound: bool(value <= bound)),
    "multiple_of": ("multipleOf", "a multiple of", lambda value, bound: bool(value % bound == 0)),
}
_LENGTHS: dict[str, tuple[str, str, Callable[[int, int], bool]]] = {
    "min_length": ("min", "at least", lambda length, bound: length >= bound),
    "max_length": ("max", "at most", lambda length, bound: length <= bound),
}
_LENGTH_WORDS = {"string": "Length", "array": "Items", "object": "Properties"}


def read_constraints(metadata: Iterable[Any], schema: dict[str, Any]) -> tuple[dict[str, Any], list[Check]]:
    """The schema keywords and the checks of one `Annotated`; `schema` is that of the bare type."""
    words: dict[str, Any] = {}
    checks: list[Check] = []
    for item in metadata:
        if isinstance(item, str):
            words.setdefault("description", item)
        elif isinstance(item, dict):
            words.update(item)
        elif isinstance(item, re.Pattern):
            _pattern(item, words, checks)
        elif not isinstance(item, type):
            _attributes(item, schema, words, checks)
    return words, checks


def _attributes(item: Any, schema: dict[str, Any], words: dict[str, Any], checks: list[Check]) -> None:
    for name, (word, text, holds) in _BOUNDS.items():
        bound = getattr(item, name, None)
        if bound is not None:
            checks.append(_bound_check(text, bound, holds))
            if type(bound) in (int, float) and "x-python" not in schema:
                words[word] = bound
    for name, (prefix, text, length_holds) in _LENGTHS.items():
        length = getattr(item, name, None)
        if type(length) is int and (length > 0 or name == "max_length"):
            checks.append(_length_check(text, length, length_holds))
            suffix = _LENGTH_WORDS.get(schema.get("type", ""))
            if suffix and schema.get("x-python") != "bytes":
                words[prefix + suffix] = length
    pattern = getattr(item, "pattern", None) or getattr(item, "regex", None)
    if isinstance(pattern, (str, re.Pattern)):
        _pattern(pattern, words, checks)
    description = getattr(item, "description", None) or getattr(item, "documentation", None)
    if isinstance(description, str):
        words.setdefault("description", description)
    if type(item).__name__ == "Predicate" and callable(getattr(item, "func", None)):
        checks.append(lambda value: None if item.func(value) else "is not an allowed value")
    inner = getattr(item, "metadata", None)
    if isinstance(inner, (list, tuple)):  # pydantic's Field keeps its bounds in here
        more, more_checks = read_constraints(inner, schema)
        words.update(more)
        checks.extend(more_checks)


def _bound_check(text: str, bound: Any, holds: Callable[[Any, Any], bool]) -> Check:
    return lambda value: None if holds(value, bound) else f"must be {text} {bound}"


def _length_check(text: str, length: int, holds: Callable[[int, int], bool]) -> Check:
    return lambda value: None if holds(len(value), length) else f"must have a length of {text} {length}"


def _pattern(pattern: str | re.Pattern[str], words: dict[str, Any], checks: list[Check]) -> None:
    compiled = re.compile(pattern)
    words["pattern"] = compiled.pattern
    checks.append(lambda value: None if compiled.search(value) else f"must match `{compiled.pattern}`")
