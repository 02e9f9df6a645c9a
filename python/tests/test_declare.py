"""Declarations: hints become JSON Schema and Python source; arguments that come in become the hint's type."""

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import re
import uuid
from types import SimpleNamespace
from typing import Annotated, Any, Dict, List, Literal, NamedTuple, NewType, Optional, TypedDict, Union  # noqa: UP035

import annotated_types
import pydantic
import pytest
from typing_extensions import NotRequired

from ringfence import Record, declare, sandbox_export
from ringfence.functions import HostFunction
from ringfence.hints import ArgumentError, shape_of
from ringfence.values import encode


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


@dataclasses.dataclass
class Tree:
    value: int
    children: "list[Tree]" = dataclasses.field(default_factory=list)


class Trip(TypedDict):
    city: str
    days: NotRequired[int]


class Loose(TypedDict, total=False):
    city: str


class Pair(NamedTuple):
    left: str
    right: int = 1


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Query(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    text: str = pydantic.Field(min_length=1, description="what to look for")
    limit: int = pydantic.Field(default=5, gt=0, le=50)
    at: Point | None = None


UserId = NewType("UserId", int)
POINT = {
    "type": "object",
    "title": "Point",
    "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
    "required": ["x"],
    "additionalProperties": False,
}
NULL = {"type": "null"}

SCHEMAS: list[tuple[Any, dict[str, Any], str]] = [
    (int, {"type": "integer"}, "int"),
    (float, {"type": "number"}, "float"),
    (bool, {"type": "boolean"}, "bool"),
    (str, {"type": "string"}, "str"),
    (None, NULL, "None"),
    (Any, {}, "Any"),
    (object, {}, "Any"),
    (UserId, {"type": "integer"}, "int"),
    (bytes, {"type": "string", "x-python": "bytes", "contentEncoding": "base64"}, "bytes"),
    (datetime.date, {"type": "string", "x-python": "date", "format": "date"}, "datetime.date"),
    (
        datetime.datetime,
        {"type": "string", "x-python": "datetime", "format": "date-time"},
        "datetime.datetime",
    ),
    (datetime.time, {"type": "string", "x-python": "time", "format": "time"}, "datetime.time"),
    (
        datetime.timedelta,
        {"type": "string", "x-python": "timedelta", "format": "duration"},
        "datetime.timedelta",
    ),
    (decimal.Decimal, {"type": "string", "x-python": "decimal"}, "decimal.Decimal"),
    (uuid.UUID, {"type": "string", "x-python": "uuid", "format": "uuid"}, "uuid.UUID"),
    (pathlib.Path, {"type": "string", "x-python": "path"}, "pathlib.PurePath"),
    (list, {"type": "array"}, "list[Any]"),
    (list[int], {"type": "array", "items": {"type": "integer"}}, "list[int]"),
    (List[int], {"type": "array", "items": {"type": "integer"}}, "list[int]"),  # noqa: UP006
    (collections.abc.Sequence[str], {"type": "array", "items": {"type": "string"}}, "list[str]"),
    (dict, {"type": "object"}, "dict[Any, Any]"),
    (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
    (Dict[str, Any], {"type": "object"}, "dict[str, Any]"),  # noqa: UP006
    (
        dict[int, str],
        {"type": "object", "additionalProperties": {"type": "string"}, "x-python-keys": {"type": "integer"}},
        "dict[int, str]",
    ),
    (
        tuple[int, str],
        {
            "type": "array",
            "x-python": "tuple",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
        "tuple[int, str]",
    ),
    (
        tuple[int, ...],
        {"type": "array", "x-python": "tuple", "items": {"type": "integer"}},
        "tuple[int, ...]",
    ),
    (
        set[int],
        {"type": "array", "x-python": "set", "items": {"type": "integer"}, "uniqueItems": True},
        "set[int]",
    ),
    (
        frozenset[str],
        {"type": "array", "x-python": "frozenset", "items": {"type": "string"}, "uniqueItems": True},
        "frozenset[str]",
    ),
    (Literal["C", 3, None], {"enum": ["C", 3, None]}, "Literal['C', 3, None]"),
    (Colour, {"enum": ["red", "blue"]}, "Literal['red', 'blue']"),
    (Optional[int], {"anyOf": [{"type": "integer"}, NULL]}, "int | None"),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "int | str"),
    (int | None, {"anyOf": [{"type": "integer"}, NULL]}, "int | None"),
    (int | Any, {}, "Any"),
    (Point, POINT, "Point"),
    (list[Point], {"type": "array", "items": POINT}, "list[Point]"),
    (
        Trip,
        {
            "type": "object",
            "title": "Trip",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "Trip",
    ),
    (
        Loose,
        {
            "type": "object",
            "title": "Loose",
            "properties": {"city": {"type": "string"}},
            "required": [],
            "additionalProperties": False,
        },
        "Loose",
    ),
    (
        Pair,
        {
            "type": "object",
            "title": "Pair",
            "properties": {"left": {"type": "string"}, "right": {"type": "integer"}},
            "required": ["left"],
            "additionalProperties": False,
        },
        "Pair",
    ),
    (
        Query,
        {
            "type": "object",
            "title": "Query",
            "properties": {
                "text": {"type": "string", "minLength": 1, "description": "what to look for"},
                "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 50},
                "at": {"anyOf": [POINT, NULL]},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
        "Query",
    ),
    (
        Tree,
        {
            "$ref": "#/$defs/Tree",
            "$defs": {
                "Tree": {
                    "type": "object",
                    "title": "Tree",
                    "properties": {
                        "value": {"type": "integer"},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        },
        "Tree",
    ),
    (
        Annotated[int, annotated_types.Ge(1), annotated_types.Lt(9)],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
        "int",
    ),
    (
        Annotated[int, annotated_types.Interval(gt=0, le=5)],
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 5},
        "int",
    ),
    (Annotated[str, annotated_types.Len(1, 3)], {"type": "string", "minLength": 1, "maxLength": 3}, "str"),
    (
        Annotated[list[int], annotated_types.MaxLen(2)],
        {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        "list[int]",
    ),
    (Annotated[str, re.compile("^a")], {"type": "string", "pattern": "^a"}, "str"),
    (Annotated[str, SimpleNamespace(pattern="b$")], {"type": "string", "pattern": "b$"}, "str"),
    (
        Annotated[str, {"format": "email", "maxLength": 99}],
        {"type": "string", "format": "email", "maxLength": 99},
        "str",
    ),
    (Annotated[str, "the city"], {"type": "string", "description": "the city"}, "str"),
    (
        Annotated[decimal.Decimal, annotated_types.Gt(0)],
        {"type": "string", "x-python": "decimal"},
        "decimal.Decimal",
    ),
]


@pytest.mark.parametrize(("hint", "schema", "source"), SCHEMAS, ids=[str(row[0])[:60] for row in SCHEMAS])
def test_hints_become_schemas_and_source(hint: Any, schema: dict[str, Any], source: str) -> None:
    shape = shape_of(hint, "here")
    assert (shape.schema, shape.source) == (schema, source)


CONVERTED: list[tuple[Any, Any, Any]] = [
    (float, 3, 3.0),
    (float | int, 3, 3),
    (Point, {"x": 1}, Point(1)),
    (Point, Record("Point", {"x": 1, "y": 2}), Point(1, 2.0)),
    (list[Point], [{"x": 1, "y": 2.5}], [Point(1, 2.5)]),
    (Optional[Point], None, None),
    (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (Trip, Record("Trip", {"city": "Oslo"}, "typeddict"), {"city": "Oslo"}),
    (Pair, {"left": "a"}, Pair("a", 1)),
    (Pair, ("a", 2), Pair("a", 2)),
    (Query, {"text": "x", "at": Record("Point", {"x": 1, "y": 2})}, Query(text="x", at=Point(1, 2.0))),
    (Colour, "red", Colour.RED),
    (Literal["a", 1], 1, 1),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 1], {1}),
    (frozenset[int], {1}, frozenset([1])),
    (datetime.date, "2024-01-02", datetime.date(2024, 1, 2)),
    (datetime.date, datetime.date(2024, 1, 2), datetime.date(2024, 1, 2)),
    (decimal.Decimal, 3, decimal.Decimal(3)),
    (uuid.UUID, "00000000-0000-0000-0000-000000000007", uuid.UUID(int=7)),
    (pathlib.Path, pathlib.PurePosixPath("/a"), pathlib.Path("/a")),
    (dict[int, Point], {1: {"x": 1}}, {1: Point(1)}),
    (bytearray, b"x", bytearray(b"x")),
]


@pytest.mark.parametrize(("hint", "value", "want"), CONVERTED)
def test_values_become_the_hints_type(hint: Any, value: Any, want: Any) -> None:
    got = shape_of(hint, "here").convert(value, "a")
    assert got == want and type(got) is type(want)


WRONG: list[tuple[Any, Any, str]] = [
    (int, True, "`a` must be int, not bool"),
    (int, 1.0, "`a` must be int, not float"),
    (str, None, "`a` must be str, not NoneType"),
    (float, 10**400, "`a` is too large for a float"),
    (list[int], [1, "x"], "`a[1]` must be int, not str"),
    (dict[str, int], {"k": "x"}, "`a.k` must be int, not str"),
    (Optional[int], "x", "`a` must be int or None, not str"),
    (Point, {"y": 1}, "`a` lacks the field `x`"),
    (Point, {"x": 1, "z": 1}, "`a` has a field `z` that `Point` has not"),
    (Point, 3, "`a` must be Point or dict, not int"),
    (tuple[int, int], (1,), "`a` must have 2 items, not 1"),
    (set[Any], [[]], "`a` holds a value that can't be in a set"),
    (Colour, "green", "`a` must be one of 'red', 'blue'"),
    (Literal[1], True, "`a` must be one of 1"),
    (datetime.date, "nope", "`a` is not the text of a datetime.date"),
    (datetime.date, datetime.datetime(2024, 1, 1), "`a` must be datetime.date, not datetime"),
    (Query, {"text": ""}, "`a.text` is not valid: String should have at least 1 character"),
    (Annotated[int, annotated_types.Ge(1)], 0, "`a` must be at least 1"),
    (Annotated[bytes, annotated_types.MaxLen(1)], b"xx", "`a` must have a length of at most 1"),
    (Annotated[decimal.Decimal, annotated_types.Gt(0)], 0, "`a` must be greater than 0"),
    (Annotated[str, re.compile("^a$")], "b", "`a` must match `^a$`"),
    (Annotated[int, annotated_types.Predicate(lambda n: n % 2 == 0)], 1, "`a` is not an allowed value"),
]


@pytest.mark.parametrize(("hint", "value", "message"), WRONG, ids=[row[2][:50] for row in WRONG])
def test_wrong_values_say_what_is_wrong(hint: Any, value: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        shape_of(hint, "here").convert(value, "a")
    assert str(caught.value) == message


def test_a_validators_own_text_stays_on_the_host() -> None:
    class Strict(pydantic.BaseModel):
        x: int

        @pydantic.field_validator("x")
        @classmethod
        def check(cls, value: int) -> int:
            raise ValueError("secret-123")

    with pytest.raises(ArgumentError) as caught:
        shape_of(Strict, "here").convert({"x": 1}, "a")
    assert str(caught.value) == "`a.x` is not valid"


def test_a_declaration_has_everything() -> None:
    def get_weather(
        city: str, /, days: int = 1, *rest: float, unit: Literal["C", "F"] = "C", **more: Any
    ) -> list[float]:
        """The weather.

        In detail.
        """
        return []

    assert declare(get_weather) == {
        "name": "get_weather",
        "doc": "The weather.\n\nIn detail.",
        "parameters": [
            {"name": "city", "kind": "positional_only", "annotation": "str", "schema": {"type": "string"}},
            {
                "name": "days",
                "kind": "positional_or_keyword",
                "annotation": "int",
                "schema": {"type": "integer"},
                "default": {"source": "1"},
            },
            {"name": "rest", "kind": "var_positional", "annotation": "float", "schema": {"type": "number"}},
            {
                "name": "unit",
                "kind": "keyword_only",
                "annotation": "Literal['C', 'F']",
                "schema": {"enum": ["C", "F"]},
                "default": {"source": "'C'"},
            },
            {"name": "more", "kind": "var_keyword", "annotation": "Any"},
        ],
        "is_async": False,
        "returns": "list[float]",
        "returns_schema": {"type": "array", "items": {"type": "number"}},
    }


def test_a_bare_function_accepts_anything() -> None:
    def f(a, b=...):  # type: ignore[no-untyped-def]
        return a

    assert declare(f) == {
        "name": "f",
        "doc": "",
        "parameters": [
            {"name": "a", "kind": "positional_or_keyword"},
            {"name": "b", "kind": "positional_or_keyword", "default": {"source": "..."}},
        ],
        "is_async": False,
    }


async def waits(x: int) -> int:
    return x


class Tool:
    def method(self, x: int) -> int:
        return x

    async def __call__(self, x: "int") -> int:
        return x


def test_methods_partials_and_callables_are_declared() -> None:
    assert declare(waits)["is_async"] is True
    assert [p["name"] for p in declare(Tool().method)["parameters"]] == ["x"]
    assert declare(functools.partial(waits, 1))["is_async"] is True
    tool = sandbox_export(name="tool")(Tool())
    assert (declare(tool)["name"], declare(tool)["is_async"]) == ("tool", True)
    assert declare(tool)["parameters"][0]["schema"] == {"type": "integer"}


def complex_number(z: complex) -> None: ...
def bad_result() -> dict[str, type]:
    return {}


def unknown_name(city: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def generator():  # type: ignore[no-untyped-def]
    yield 1


def callback(f: collections.abc.Callable[[], int]) -> None: ...


REFUSED: list[tuple[Any, str]] = [
    (complex_number, "parameter `z` of `complex_number`: the type `complex` has no plain data form"),
    (bad_result, "result of `bad_result`: the type `type` has no plain data form"),
    (
        unknown_name,
        "parameter `city` of `unknown_name`: the type `Nowhere` could not be looked up: name 'Nowhere' is not defined",
    ),
    (
        callback,
        "parameter `f` of `callback`: the type `collections.abc.Callable[[], int]` has no plain data form",
    ),
    (generator, "`generator` is a generator, which can't cross; return a list"),
    (lambda: 1, "`<lambda>` can't be a host function's name; give one with `@sandbox_export(name=...)`"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED)
def test_what_cannot_be_declared_names_function_and_parameter(function: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare(function)
    assert str(caught.value) == message


DEFAULTS: list[tuple[Any, str]] = [
    (None, "None"),
    ("x'y", '"x\'y"'),
    (1.5, "1.5"),
    (float("inf"), "float('inf')"),
    ((1,), "(1,)"),
    ({"a": [1]}, "{'a': [1]}"),
    (Colour.RED, "'red'"),
    (object(), "..."),
    ([object()], "..."),
]


@pytest.mark.parametrize(("default", "source"), DEFAULTS)
def test_defaults_are_written_as_source(default: Any, source: str) -> None:
    def f(x=default):  # type: ignore[no-untyped-def]
        return x

    assert declare(f)["parameters"][0]["default"] == {"source": source}


def add(a: int, b: int = 10, *rest: int, scale: int = 1, **extra: int) -> int:
    return (a + b + sum(rest) + sum(extra.values())) * scale


CALLS: list[tuple[list[Any], dict[str, Any], dict[str, Any]]] = [
    ([1], {}, {"value": 11}),
    ([1, 2, 3, 4], {"scale": 2, "more": 5}, {"value": 30}),
    ([], {"a": 1, "b": 2}, {"value": 3}),
    ([], {}, {"error": {"type": "TypeError", "message": "add(): missing a required argument: 'a'"}}),
    ([1, 2, "x"], {}, {"error": {"type": "TypeError", "message": "`rest[0]` must be int, not str"}}),
    ([1], {"k": "x"}, {"error": {"type": "TypeError", "message": "`k` must be int, not str"}}),
    (
        [{"$type": "nope"}],
        {},
        {"error": {"type": "TypeError", "message": "`args[0]` is not a value: unknown `$type` `nope`"}},
    ),
]


@pytest.mark.parametrize(("args", "kwargs", "answer"), CALLS)
def test_calls_are_bound_and_converted(
    args: list[Any], kwargs: dict[str, Any], answer: dict[str, Any]
) -> None:
    assert (
        HostFunction(add).call([encode(arg) if not isinstance(arg, dict) else arg for arg in args], kwargs)
        == answer
    )
