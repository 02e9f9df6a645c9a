"""Values as JSON: every kind comes back as it was, and what can't cross says where it sits."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import pickle
import uuid
from typing import Any, NamedTuple

import pytest

from ringfence import Record
from ringfence.values import decode, encode, int_from_text, int_text


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5


class Pair(NamedTuple):
    left: str
    right: int


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


UTC = datetime.timezone.utc
WRITTEN = [
    (None, None),
    (True, True),
    (7, 7),
    ((1 << 63) - 1, (1 << 63) - 1),
    (1 << 63, {"$type": "int", "value": "9223372036854775808"}),
    (-(1 << 63) - 1, {"$type": "int", "value": "-9223372036854775809"}),
    (1.5, 1.5),
    (math.inf, {"$type": "float", "value": "inf"}),
    (-math.inf, {"$type": "float", "value": "-inf"}),
    ("é\u2028", "é\u2028"),
    (b"x", {"$type": "bytes", "base64": "eA=="}),
    ([1, [2]], [1, [2]]),
    ((1,), {"$type": "tuple", "items": [1]}),
    ({1}, {"$type": "set", "items": [1]}),
    (frozenset(["a"]), {"$type": "frozenset", "items": ["a"]}),
    ({"a": {"b": 1}}, {"a": {"b": 1}}),
    ({}, {}),
    ({1: "x"}, {"$type": "dict", "items": [[1, "x"]]}),
    (
        {"a": 1, (1, 2): None},
        {"$type": "dict", "items": [["a", 1], [{"$type": "tuple", "items": [1, 2]}, None]]},
    ),
    (
        {"$type": "bytes", "base64": "eA=="},
        {"$type": "dict", "items": [["$type", "bytes"], ["base64", "eA=="]]},
    ),
    ({"$": 1}, {"$type": "dict", "items": [["$", 1]]}),
    (datetime.date(2024, 2, 29), {"$type": "date", "value": "2024-02-29"}),
    (datetime.datetime(2024, 1, 2, 3, 4, 5, 6), {"$type": "datetime", "value": "2024-01-02T03:04:05.000006"}),
    (datetime.datetime(2024, 1, 2, tzinfo=UTC), {"$type": "datetime", "value": "2024-01-02T00:00:00+00:00"}),
    (datetime.time(1, 2, 3), {"$type": "time", "value": "01:02:03"}),
    (
        datetime.timedelta(microseconds=-1),
        {"$type": "timedelta", "days": -1, "seconds": 86399, "microseconds": 999999},
    ),
    (decimal.Decimal("1.10"), {"$type": "decimal", "value": "1.10"}),
    (uuid.UUID(int=7), {"$type": "uuid", "value": "00000000-0000-0000-0000-000000000007"}),
    (pathlib.PurePosixPath("/a/b"), {"$type": "path", "value": "/a/b"}),
    (
        Record("Point", {"x": 1, "y": (2,)}),
        {
            "$type": "dataclass",
            "name": "Point",
            "fields": [["x", 1], ["y", {"$type": "tuple", "items": [2]}]],
        },
    ),
    (
        Record("T", {"$type": 1}, "typeddict"),
        {"$type": "typeddict", "name": "T", "fields": [["$type", 1]]},
    ),
    (Record("P", {"a": 1}, "namedtuple"), {"$type": "namedtuple", "name": "P", "fields": [["a", 1]]}),
]


@pytest.mark.parametrize(("value", "data"), WRITTEN, ids=[repr(value)[:40] for value, _ in WRITTEN])
def test_values_are_written_so_and_come_back(value: Any, data: Any) -> None:
    written = encode(value)
    assert written == data and type(written) is type(data)
    back = decode(json.loads(json.dumps(written)))
    assert back == value and type(back) is type(value)


def test_nan_minus_zero_and_z_come_back() -> None:
    assert math.isnan(decode(encode(math.nan)))
    assert math.copysign(1, decode(encode(-0.0))) == -1
    assert decode({"$type": "datetime", "value": "2024-01-02T00:00:00Z"}) == datetime.datetime(
        2024, 1, 2, tzinfo=UTC
    )


ONE_WAY = [
    (Point(1), {"$type": "dataclass", "name": "Point", "fields": [["x", 1], ["y", 0.5]]}),
    (Pair("a", 2), {"$type": "namedtuple", "name": "Pair", "fields": [["left", "a"], ["right", 2]]}),
    (Colour.RED, "red"),
    (Level.LOW, 1),
    (bytearray(b"x"), {"$type": "bytes", "base64": "eA=="}),
    (pathlib.Path("a"), {"$type": "path", "value": "a"}),
]


@pytest.mark.parametrize(("value", "data"), ONE_WAY)
def test_classes_are_written_as_plain_data(value: Any, data: Any) -> None:
    assert encode(value) == data


def test_a_record_is_read_by_attribute_and_by_name() -> None:
    record = decode(encode(Pair("a", 2)))
    assert (record.left, record["right"], record[0], repr(record)) == ("a", 2, "a", "Pair(left='a', right=2)")
    assert pickle.loads(pickle.dumps(record)) == record
    with pytest.raises(AttributeError, match="`Pair` has no field `other`"):
        _ = record.other
    with pytest.raises(AttributeError):
        record.left = "b"


NUMBERS = [0, -1, 10**3999, 10**4000, -(10**4001), 7**40_000, (1 << 100_000) - 1]


@pytest.mark.parametrize("number", NUMBERS, ids=[f"{number.bit_length()} bits" for number in NUMBERS])
def test_ints_of_any_size_become_text_and_back(number: int) -> None:
    text = int_text(number)
    assert int_from_text(text) == number
    assert text.lstrip("-").isdigit() and (len(text.lstrip("-")) == 1 or not text.lstrip("-").startswith("0"))


def cycle() -> list[Any]:
    items: list[Any] = [1]
    items.append({"inner": items})
    return items


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CANNOT = "cannot cross between guest and host"
REFUSED = [
    ({"rows": [1, 2, 3, print]}, f"a value of type `builtin_function_or_method` at `args.rows[3]` {CANNOT}"),
    ([iter([1])], f"a value of type `list_iterator` at `args[0]` {CANNOT}"),
    (object(), f"a value of type `object` at `args` {CANNOT}"),
    (Point, f"a value of type `type` at `args` {CANNOT}"),
    (1j, f"a value of type `complex` at `args` {CANNOT}"),
    (cycle(), f"the value at `args[1].inner` contains itself and {CANNOT}"),
    ({"a": "\ud800"}, f"the text at `args.a` holds a lone surrogate and {CANNOT}"),
    (Point(1, open), f"a value of type `builtin_function_or_method` at `args.y` {CANNOT}"),  # type: ignore[arg-type]
    ([1 << 400_000], "the int at `args[0]` is over the limit of 100000 digits"),
    (nested(65), "the value at `args" + "[0]" * 64 + "` is over the limit of 64 levels"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_cannot_cross_says_where_it_is(value: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        encode(value, "args")
    assert str(caught.value) == message


def test_the_same_object_twice_is_no_cycle() -> None:
    shared = [1]
    assert encode([shared, shared]) == [[1], [1]]
    assert encode(nested(64)) == nested(64)


def test_a_long_int_comes_in_hexadecimal() -> None:
    assert decode({"$type": "int", "hex": "-" + "f" * 8_000_000}) == -(16**8_000_000 - 1)
    assert encode(10**100_000 - 1) == {"$type": "int", "value": "9" * 100_000}
    with pytest.raises(TypeError, match="over the limit of 100000 digits"):
        encode(10**100_000)


def test_long_keys_over_many_values_take_no_time() -> None:
    # With whole places, 100 GB would be copied.
    wide: dict[Any, Any] = {"k" * (1 << 20): [None] * 100_000}
    assert decode(encode(wide)) == wide
    wide[1 << 400_000] = None
    with pytest.raises(TypeError, match="over the limit of 100000 digits"):
        encode(wide)


BROKEN = [
    ({"$type": "nope"}, "`value` is not a value: unknown `$type` `nope`"),
    ({"$type": 1}, "`value` is not a value: unknown `$type` `1`"),
    ([{"$type": "bytes", "base64": "?"}], "`value[0]` is not a value: a broken `bytes` (Error)"),
    ({"$type": "bytes"}, "`value` is not a value: a broken `bytes` (KeyError)"),
    ({"$type": "tuple", "items": 3}, "`value` is not a value: a broken `tuple` (TypeError)"),
    ({"$type": "dict", "items": [[1]]}, "`value` is not a value: a pair is a list of two"),
    ({"$type": "dict", "items": [[[], 1]]}, "`value` is not a value: a broken `dict` (TypeError)"),
    ({"$type": "float", "value": "big"}, "`value` is not a value: a broken `float` (KeyError)"),
    ({"$type": "decimal", "value": "x"}, "`value` is not a value: a broken `decimal` (InvalidOperation)"),
    (nested(65), "the value at `value" + "[0]" * 64 + "` is over the limit of 64 levels"),
    ({"$type": "int", "value": "1_0"}, "not a whole number"),
    ({"$type": "int", "value": "-" + "9" * 100_001}, "an int is over the limit of 100000 digits"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN, ids=[message[-40:] for _, message in BROKEN])
def test_broken_data_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        decode(data)
    assert str(caught.value) == message
