"""From a type hint: its JSON Schema, its Python source, and how a value that came in is converted.

Answers to: `declare` (schemas and stubs) and `functions` (arguments of a call).
Must not: import pydantic or any other package by itself, or guess: a hint that has no plain
data form is a `TypeError` that names the function and the parameter.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

from .constraints import Check, read_constraints

Convert = Callable[[Any, str], Any]
"""Turns a value that came in into one of the hint's type; the text names the place in errors."""


class ArgumentError(Exception):
    """An argument of the wrong type or form. The message is safe to show to the guest."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is known of one type hint. An empty schema accepts anything."""

    schema: dict[str, Any]
    source: str
    convert: Convert


def shape_of(hint: Any, where: str) -> Shape:
    """Reads one hint. `where` names it in errors: ``parameter `city` of `get_weather` ``."""
    reader = Reader(where)
    shape = reader.read(hint)
    if reader.definitions:
        return dataclasses.replace(shape, schema={**shape.schema, "$defs": reader.definitions})
    return shape


def wrong(at: str, wanted: str, value: Any) -> ArgumentError:
    """The error for a value of the wrong type."""
    return ArgumentError(f"`{at}` must be {wanted}, not {type(value).__name__}")


def anything(value: Any, at: str) -> Any:
    """Takes the value as it is."""
    return value


class Reader:
    """One walk over a hint. Classes that contain themselves become `$defs`."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.definitions: dict[str, Any] = {}
        self._open: dict[Any, str] = {}
        self._recursive: set[Any] = set()
        self._converters: dict[Any, list[Convert]] = {}

    def unsupported(self, hint: Any, why: str = "has no plain data form") -> TypeError:
        """The error for a hint that can't be used."""
        return TypeError(f"{self.where}: the type `{_name(hint)}` {why}")

    def read(self, hint: Any) -> Shape:
        """The shape of any hint."""
        if hint is Any or hint is object:
            return Shape({}, "Any", anything)
        if hint is None or hint is type(None):
            return _exact("None", {"type": "null"}, type(None))
        if isinstance(hint, str):
            raise self.unsupported(hint, "is a name that could not be looked up")
        if hasattr(hint, "__supertype__"):  # NewType
            return self.read(hint.__supertype__)
        if type(hint).__name__ == "TypeAliasType":
            return self.read(hint.__value__)
        origin = typing.get_origin(hint)
        if origin is None:
            return self._plain(hint)
        return self._generic(hint, origin, typing.get_args(hint))

    def _plain(self, hint: Any) -> Shape:
        if not isinstance(hint, type):
            bare = {typing.List: list, typing.Dict: dict, typing.Set: set, typing.Tuple: tuple}  # noqa: UP006
            try:
                known = bare.get(hint)
            except TypeError:
                known = None
            if known is None:
                raise self.unsupported(hint)
            return self._plain(known)
        if hint in _SCALARS:
            return _SCALARS[hint]
        if issubclass(hint, enum.Enum):
            return _enum(hint, self)
        if hint in _CONTAINERS:
            return self._generic(hint, hint, ())
        if issubclass(hint, pathlib.PurePath):
            return _text_form(pathlib.PurePath, "path", "pathlib.PurePath", lambda text: hint(str(text)))
        from .records import read_record

        shape = read_record(hint, self)
        if shape is None:
            raise self.unsupported(hint)
        return shape

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Shape:
        if origin is typing.Annotated:
            return self._annotated(arguments[0], hint.__metadata__)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments)
        if origin is typing.Literal:
            return _literal(arguments, self)
        if getattr(origin, "__name__", getattr(origin, "_name", "")) in (
            "Required",
            "NotRequired",
            "ReadOnly",
        ):
            return self.read(arguments[0])
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _MAPPINGS:
            return self._dict(arguments)
        if origin in _SEQUENCES:
            item = self.read(arguments[0] if arguments else Any)
            return _sequence(origin, item)
        raise self.unsupported(hint)

    def _annotated(self, hint: Any, metadata: tuple[Any, ...]) -> Shape:
        shape = self.read(hint)
        words, checks = read_constraints(metadata, shape.schema)
        return dataclasses.replace(
            shape, schema={**shape.schema, **words}, convert=_checked(shape.convert, checks)
        )

    def _union(self, arguments: tuple[Any, ...]) -> Shape:
        shapes = [self.read(argument) for argument in arguments]
        source = " | ".join(shape.source for shape in shapes)
        if any(shape.schema == {} for shape in shapes):
            return Shape({}, "Any", anything)

        def convert(value: Any, at: str) -> Any:
            # A member that takes the value unchanged wins: `1` stays an int in `float | int`.
            found: list[Any] = []
            for shape in shapes:
                try:
                    converted = shape.convert(value, at)
                except ArgumentError:
                    continue
                if type(converted) is type(value):
                    return converted
                found.append(converted)
            if found:
                return found[0]
            raise wrong(at, " or ".join(shape.source for shape in shapes), value)

        return Shape({"anyOf": [shape.schema for shape in shapes]}, source, convert)

    def _tuple(self, arguments: tuple[Any, ...]) -> Shape:
        if not arguments or (len(arguments) == 2 and arguments[1] is Ellipsis):
            return _sequence(tuple, self.read(arguments[0] if arguments else Any))
        if arguments == ((),):
            arguments = ()
        shapes = [self.read(argument) for argument in arguments]
        schema = {
            "type": "array",
            "x-python": "tuple",
            "prefixItems": [shape.schema for shape in shapes],
            "minItems": len(shapes),
            "maxItems": len(shapes),
        }

        def convert(value: Any, at: str) -> Any:
            if not isinstance(value, (tuple, list)):
                raise wrong(at, "tuple", value)
            if len(value) != len(shapes):
                raise ArgumentError(f"`{at}` must have {len(shapes)} items, not {len(value)}")
            pairs = enumerate(zip(shapes, value, strict=True))
            return tuple(shape.convert(item, f"{at}[{index}]") for index, (shape, item) in pairs)

        return Shape(schema, f"tuple[{', '.join(shape.source for shape in shapes) or '()'}]", convert)

    def _dict(self, arguments: tuple[Any, ...]) -> Shape:
        key, item = (self.read(argument) for argument in arguments or (Any, Any))
        schema: dict[str, Any] = {"type": "object"}
        if item.schema:
            schema["additionalProperties"] = item.schema
        if key.schema.get("type") == "string" and "x-python" not in key.schema:
            if len(key.schema) > 1:
                schema["propertyNames"] = key.schema
        elif key.schema:
            schema["x-python-keys"] = key.schema

        def convert(value: Any, at: str) -> Any:
            if not isinstance(value, dict):
                raise wrong(at, "dict", value)
            return {
                key.convert(name, f"{at} (key)"): item.convert(entry, f"{at}.{name}")
                for name, entry in value.items()
            }

        return Shape(schema, f"dict[{key.source}, {item.source}]", convert)

    def recursive(self, hint: Any, name: str, build: Callable[[], Shape]) -> Shape:
        """Builds a class's shape once; a use of it inside itself refers back to it."""
        if hint in self._open:
            self._recursive.add(hint)
            late = self._converters.setdefault(hint, [])
            return Shape({"$ref": f"#/$defs/{name}"}, name, lambda value, at: late[0](value, at))
        self._open[hint] = name
        try:
            shape = build()
        finally:
            del self._open[hint]
        if hint not in self._recursive:
            return shape
        self._converters[hint].append(shape.convert)
        self.definitions[name] = shape.schema
        return dataclasses.replace(shape, schema={"$ref": f"#/$defs/{name}"})


def _name(hint: Any) -> str:
    plain = (
        isinstance(hint, type) and typing.get_origin(hint) is None
    )  # Python 3.10 takes `list[int]` for a type
    return hint.__qualname__ if plain else str(hint).replace("typing.", "")


def _checked(convert: Convert, checks: list[Check]) -> Convert:
    if not checks:
        return convert

    def run(value: Any, at: str) -> Any:
        converted = convert(value, at)
        for check in checks:
            try:
                problem = check(converted)
            except TypeError:
                problem = f"can't be compared: {type(converted).__name__}"
            if problem:
                raise ArgumentError(f"`{at}` {problem}")
        return converted

    return run


def _exact(source: str, schema: dict[str, Any], kind: type) -> Shape:
    def convert(value: Any, at: str) -> Any:
        if type(value) is not kind:
            raise wrong(at, source, value)
        return value

    return Shape(schema, source, convert)


def _number(value: Any, at: str) -> float:
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ArgumentError(f"`{at}` is too large for a float") from None
    if type(value) is not float:
        raise wrong(at, "float", value)
    return value


def _text_form(
    kind: type, tag: str, source: str, make: Callable[[Any], Any], form: str | None = None
) -> Shape:
    """A type that JSON lacks; its text is accepted too, for front doors that speak plain JSON."""
    schema: dict[str, Any] = {"type": "string", "x-python": tag}
    if form:
        schema["format"] = form

    def convert(value: Any, at: str) -> Any:
        if isinstance(value, kind) and tag != "path":
            return value
        if not isinstance(value, (str, kind)):
            raise wrong(at, source, value)
        try:
            return make(value)
        except (ValueError, ArithmeticError):
            raise ArgumentError(f"`{at}` is not the text of a {source}") from None

    return Shape(schema, source, convert)


def _decimal() -> Shape:
    shape = _text_form(decimal.Decimal, "decimal", "decimal.Decimal", decimal.Decimal)

    def convert(value: Any, at: str) -> Any:
        return decimal.Decimal(value) if type(value) is int else shape.convert(value, at)

    return dataclasses.replace(shape, convert=convert)


def _date(value: Any, at: str) -> Any:
    if type(value) is datetime.datetime:
        raise wrong(at, "datetime.date", value)
    return _DATE.convert(value, at)


_DATE = _text_form(datetime.date, "date", "datetime.date", datetime.date.fromisoformat, "date")
_BYTES = _exact("bytes", {"type": "string", "x-python": "bytes", "contentEncoding": "base64"}, bytes)
_TIMEDELTA = {"type": "string", "x-python": "timedelta", "format": "duration"}

_SCALARS: dict[type, Shape] = {
    bool: _exact("bool", {"type": "boolean"}, bool),
    int: _exact("int", {"type": "integer"}, int),
    float: Shape({"type": "number"}, "float", _number),
    str: _exact("str", {"type": "string"}, str),
    bytes: _BYTES,
    bytearray: dataclasses.replace(_BYTES, convert=lambda value, at: bytearray(_BYTES.convert(value, at))),
    datetime.date: dataclasses.replace(_DATE, convert=_date),
    datetime.datetime: _text_form(
        datetime.datetime, "datetime", "datetime.datetime", datetime.datetime.fromisoformat, "date-time"
    ),
    datetime.time: _text_form(datetime.time, "time", "datetime.time", datetime.time.fromisoformat, "time"),
    datetime.timedelta: _exact("datetime.timedelta", _TIMEDELTA, datetime.timedelta),
    decimal.Decimal: _decimal(),
    uuid.UUID: _text_form(uuid.UUID, "uuid", "uuid.UUID", uuid.UUID, "uuid"),
}

_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SEQUENCES: dict[Any, type] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_CONTAINERS = (*_MAPPINGS, *_SEQUENCES)


def _sequence(origin: Any, item: Shape) -> Shape:
    kind = _SEQUENCES[origin]
    schema: dict[str, Any] = {"type": "array"}
    if kind is not list:
        schema["x-python"] = kind.__name__
    if item.schema:
        schema["items"] = item.schema
    if kind in (set, frozenset):
        schema["uniqueItems"] = True
    accepted = (list, tuple) if kind in (list, tuple) else (set, frozenset, list, tuple)

    def convert(value: Any, at: str) -> Any:
        if not isinstance(value, accepted):
            raise wrong(at, kind.__name__, value)
        items = (item.convert(entry, f"{at}[{index}]") for index, entry in enumerate(value))
        try:
            return kind(items)
        except TypeError:
            raise ArgumentError(f"`{at}` holds a value that can't be in a set") from None

    source = f"tuple[{item.source}, ...]" if kind is tuple else f"{kind.__name__}[{item.source}]"
    return Shape(schema, source, convert)


def _literal(values: tuple[Any, ...], reader: Reader) -> Shape:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    for value in plain:
        if not isinstance(value, (str, int, bool, type(None))):
            raise reader.unsupported(f"Literal[{value!r}]")

    def convert(value: Any, at: str) -> Any:
        for wanted, data in zip(values, plain, strict=True):
            if type(value) is type(data) and value == data:
                return wanted
        raise ArgumentError(f"`{at}` must be one of {', '.join(repr(value) for value in plain)}")

    return Shape({"enum": plain}, f"Literal[{', '.join(repr(value) for value in plain)}]", convert)


def _enum(kind: type[enum.Enum], reader: Reader) -> Shape:
    members = list(kind)
    if not members:
        raise reader.unsupported(kind, "has no members")
    by_value = all(_is_json_scalar(member.value) for member in members)
    if not by_value:
        raise reader.unsupported(kind, "has members whose values are not text, numbers, True, False or None")
    values = [member.value for member in members]

    def convert(value: Any, at: str) -> Any:
        for member in members:
            if type(value) is type(member.value) and value == member.value:
                return member
        raise ArgumentError(f"`{at}` must be one of {', '.join(repr(value) for value in values)}")

    source = f"Literal[{', '.join(repr(value) for value in values)}]"
    if any(isinstance(value, float) for value in values):
        source = "float"
    return Shape({"enum": values}, source, convert)


def _is_json_scalar(value: Any) -> bool:
    return type(value) in (str, int, bool, type(None)) or (type(value) is float and math.isfinite(value))
