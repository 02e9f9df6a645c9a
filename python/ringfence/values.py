"""Values as JSON: plain where JSON has the type, tagged with `$type` where it has not.

Answers to: everything that sends or receives a value; `crates/types/src/json.rs` is its twin.
Must not: call anything that a value defines beyond what its type promises, import a class by
a name that came in, or turn an unknown object into its repr.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import sys
import uuid
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

MAX_DEPTH = 64
"""How deep containers may nest, the same bound as the engine's."""

MAX_DIGITS = 100_000
"""How long an int in decimal may be: turning text into a longer one would hold up the host for seconds."""

PLACE = 200
"""How much of a place in a value is told in errors."""

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_FIRST_LONG = 10**MAX_DIGITS
_CHUNK = 4000  # decimal digits that Python converts whatever `sys.set_int_max_str_digits` says


class Record:
    """A dataclass, named tuple or TypedDict whose class is not known here.

    Fields are read as attributes or by name: `r.x`, `r["x"]`. Equal to another record with
    the same kind, name and fields.
    """

    __slots__ = ("_fields", "_kind", "_name")
    _fields: dict[str, Any]
    _kind: str
    _name: str

    def __init__(self, name: str, fields: dict[str, Any], kind: str = "dataclass") -> None:
        if kind not in ("dataclass", "namedtuple", "typeddict"):
            raise ValueError(f"`{kind}` is not a kind of record; use dataclass, namedtuple or typeddict")
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_fields", dict(fields))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f"`{self._name}` has no field `{name}`") from None

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a record can't be changed: `{self._name}.{name}`")

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int) and self._kind == "namedtuple":
            return list(self._fields.values())[key]
        return self._fields[str(key)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (self._kind, self._name, self._fields) == (other._kind, other._name, other._fields)

    def __hash__(self) -> int:
        return hash((self._kind, self._name, tuple(self._fields.items())))

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(f'{name}={value!r}' for name, value in self._fields.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Record, (self._name, self._fields, self._kind))

    def _asdict(self) -> dict[str, Any]:
        return dict(self._fields)


def record_fields(record: Record) -> dict[str, Any]:
    """The fields of a record, in order."""
    return record._asdict()


def encode(value: Any, at: str = "value") -> Any:
    """Writes a value as JSON data. `at` names it in errors, as in `args.rows[3]`."""
    return _Encoder().write(value, at, 1)


class _Encoder:
    """One walk over a value, with the containers that are open, so that a cycle shows."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def write(self, value: Any, at: str, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return _text(value, at)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if _SMALLEST <= value <= _LARGEST else _big_int(value, at)
        if kind is float:
            return value if math.isfinite(value) else {"$type": "float", "value": _float_name(value)}
        scalar = _scalar(value, at)
        return scalar if scalar is not None else self._container(value, at, depth)

    def _container(self, value: Any, at: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise TypeError(f"the value at `{at}` is over the limit of {MAX_DEPTH} levels")
        if id(value) in self._open:
            raise TypeError(f"the value at `{at}` contains itself and cannot cross between guest and host")
        self._open.add(id(value))
        try:
            return self._inside(value, at, depth + 1)
        finally:
            self._open.discard(id(value))

    def _inside(self, value: Any, at: str, depth: int) -> Any:
        if isinstance(value, Record):
            return self._record(value._kind, value._name, value._fields, at, depth)
        if isinstance(value, list):
            return self._items(value, at, depth)
        if isinstance(value, tuple):
            if hasattr(value, "_fields"):
                fields = dict(zip(value._fields, value, strict=True))
                return self._record("namedtuple", type(value).__name__, fields, at, depth)
            return {"$type": "tuple", "items": self._items(value, at, depth)}
        if isinstance(value, dict):
            return self._dict(value, at, depth)
        if isinstance(value, (set, frozenset)):
            tag = "set" if isinstance(value, set) else "frozenset"
            return {"$type": tag, "items": self._items(value, at, depth)}
        fields_of = _fields_of(value)
        if fields_of is None:
            name = type(value).__name__
            raise TypeError(f"a value of type `{name}` at `{at}` cannot cross between guest and host")
        return self._record("dataclass", type(value).__name__, fields_of, at, depth)

    def _items(self, items: Iterable[Any], at: str, depth: int) -> list[Any]:
        return [self.write(item, _below(at, f"[{index}]"), depth) for index, item in enumerate(items)]

    def _dict(self, value: dict[Any, Any], at: str, depth: int) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {
                _text(key, at): self.write(item, _below(at, "." + key[:PLACE]), depth)
                for key, item in value.items()
            }
        pairs = []
        for index, (key, item) in enumerate(value.items()):
            place = _below(at, "." + key[:PLACE] if isinstance(key, str) else f"[{_short(key)}]")
            keys = _below(at, f".keys[{index}]")
            pairs.append([self.write(key, keys, depth), self.write(item, place, depth)])
        return {"$type": "dict", "items": pairs}

    def _record(self, kind: str, name: str, fields: dict[str, Any], at: str, depth: int) -> Any:
        written = [
            [_text(field, at), self.write(item, _below(at, "." + field[:PLACE]), depth)]
            for field, item in fields.items()
        ]
        return {"$type": kind, "name": _text(name, at), "fields": written}


def _scalar(value: Any, at: str) -> Any:
    """The JSON of a value that holds no others; None where it is not one."""
    if isinstance(value, enum.Enum):
        return _Encoder().write(value.value, at, 1)
    if isinstance(value, str):
        return _text(str.__str__(value), at)
    if isinstance(value, int):
        return _Encoder().write(int(value), at, 1)
    if isinstance(value, float):
        return _Encoder().write(float(value), at, 1)
    if isinstance(value, (bytes, bytearray)):
        return {"$type": "bytes", "base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime.datetime):
        return {"$type": "datetime", "value": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"$type": "date", "value": value.isoformat()}
    if isinstance(value, datetime.time):
        return {"$type": "time", "value": value.isoformat()}
    if isinstance(value, datetime.timedelta):
        parts = {"days": value.days, "seconds": value.seconds, "microseconds": value.microseconds}
        return {"$type": "timedelta", **parts}
    if isinstance(value, decimal.Decimal):
        return {"$type": "decimal", "value": str(value)}
    if isinstance(value, uuid.UUID):
        return {"$type": "uuid", "value": str(value)}
    if isinstance(value, pathlib.PurePath):
        return {"$type": "path", "value": _text(str(value), at)}
    return None


def _fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or of a pydantic model; None for anything else."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return None


def _text(text: str, at: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        at = at.encode("utf-8", "backslashreplace").decode("utf-8")
        why = "holds a lone surrogate and cannot cross between guest and host"
        raise TypeError(f"the text at `{at}` {why}") from None
    return text


def _below(at: str, step: str) -> str:
    """A place below another. It grows no further than it is told: keys may be long, and many below them."""
    return at if len(at) > PLACE else at + step


def _short(key: Any) -> str:
    if isinstance(key, int) and not _SMALLEST <= key <= _LARGEST:
        return "int"  # its digits would take long, and may be more than Python writes
    return repr(key)[:40] if isinstance(key, (int, float, bool, bytes)) or key is None else type(key).__name__


def _float_name(number: float) -> str:
    if math.isnan(number):
        return "nan"
    return "inf" if number > 0 else "-inf"


def _big_int(number: int, at: str) -> dict[str, str]:
    if number.bit_length() > 332_193 or abs(number) >= _FIRST_LONG:
        raise TypeError(f"the int at `{at}` is over the limit of {MAX_DIGITS} digits")
    return {"$type": "int", "value": int_text(number)}


def int_text(number: int) -> str:
    """The decimal text of an int of any size."""
    if number < 0:
        return "-" + int_text(-number)
    digits = max(1, int(number.bit_length() * 0.30103))
    if digits <= _CHUNK:
        return str(number)
    low_digits = digits // 2
    high, low = divmod(number, 10**low_digits)
    return int_text(high) + int_text(low).rjust(low_digits, "0")


def int_from_text(text: str) -> int:
    """The int of a decimal text of any size."""
    if text.startswith(("-", "+")):
        return -int_from_text(text[1:]) if text[0] == "-" else int_from_text(text[1:])
    if not (text.isascii() and text.isdigit()):
        raise ValueError("not a whole number")
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an int is over the limit of {MAX_DIGITS} digits")
    if len(text) <= _CHUNK:
        return int(text)
    low_digits = len(text) // 2
    high, low = int_from_text(text[:-low_digits]), int_from_text(text[-low_digits:])
    return high * int(10**low_digits) + low


def decode(data: Any, at: str = "value") -> Any:
    """Reads a value back from JSON data; `ValueError` where it is not one."""
    return _read(data, at, 1)


def _read(data: Any, at: str, depth: int) -> Any:
    if data is None or isinstance(data, (str, bool, int, float)):
        return data
    if depth > MAX_DEPTH:
        raise ValueError(f"the value at `{at}` is over the limit of {MAX_DEPTH} levels")
    if isinstance(data, list):
        return [_read(item, _below(at, f"[{index}]"), depth + 1) for index, item in enumerate(data)]
    if not isinstance(data, dict):
        raise ValueError(f"`{at}` is not a value: not JSON data")
    if "$type" not in data:
        return {key: _read(item, _below(at, "." + key[:PLACE]), depth + 1) for key, item in data.items()}
    tag = data["$type"]
    reader = _TAGS.get(tag) if isinstance(tag, str) else None
    if reader is None:
        raise ValueError(f"`{at}` is not a value: unknown `$type` `{str(tag)[:40]}`")
    try:
        return reader(data, at, depth + 1)
    except (KeyError, TypeError, binascii.Error, decimal.InvalidOperation, OverflowError) as error:
        raise ValueError(f"`{at}` is not a value: a broken `{tag}` ({type(error).__name__})") from None


_Reader = Callable[[dict[str, Any], str, int], Any]


def _from_text(make: Callable[[str], Any]) -> _Reader:
    def read(data: dict[str, Any], at: str, depth: int) -> Any:
        return make(_str(data["value"]))

    return read


def _from_items(make: Callable[[list[Any]], Any]) -> _Reader:
    def read(data: dict[str, Any], at: str, depth: int) -> Any:
        items = data["items"]
        if not isinstance(items, list):
            raise TypeError("`items` is not a list")
        return make([_read(item, _below(at, f"[{index}]"), depth) for index, item in enumerate(items)])

    return read


def _read_dict(data: dict[str, Any], at: str, depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for index, pair in enumerate(data["items"]):
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f"`{at}` is not a value: a pair is a list of two")
        key = _read(pair[0], _below(at, f".keys[{index}]"), depth)
        result[key] = _read(pair[1], _below(at, f"[{_short(key)}]"), depth)
    return result


def _read_float(data: dict[str, Any], at: str, depth: int) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[data["value"]]


def _read_bytes(data: dict[str, Any], at: str, depth: int) -> bytes:
    return base64.b64decode(_str(data["base64"]), validate=True)


def _read_timedelta(data: dict[str, Any], at: str, depth: int) -> datetime.timedelta:
    parts = {name: data[name] for name in ("days", "seconds", "microseconds")}
    if not all(type(part) is int for part in parts.values()):
        raise TypeError("a part is not a whole number")
    return datetime.timedelta(**parts)


def _read_record(data: dict[str, Any], at: str, depth: int) -> Record:
    name, fields = _str(data["name"]), {}
    for field in data["fields"]:
        field_name, item = field
        fields[_str(field_name)] = _read(item, _below(at, "." + field_name[:PLACE]), depth)
    return Record(name, fields, data["$type"])


def _read_datetime(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(_offset(text))


def _read_time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(_offset(text))


def _offset(text: str) -> str:
    return text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text  # Python 3.10 does not read `Z`


def _str(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError("not text")
    return text


def _read_int(data: dict[str, Any], at: str, depth: int) -> int:
    if "hex" in data:  # of more than `MAX_DIGITS` digits: reading it takes as long as copying it
        return int(_str(data["hex"]), 16)
    return int_from_text(_str(data["value"]))


_TAGS: dict[str, _Reader] = {
    "int": _read_int,
    "float": _read_float,
    "bytes": _read_bytes,
    "tuple": _from_items(tuple),
    "set": _from_items(set),
    "frozenset": _from_items(frozenset),
    "dict": _read_dict,
    "date": _from_text(datetime.date.fromisoformat),
    "datetime": _from_text(_read_datetime),
    "time": _from_text(_read_time),
    "timedelta": _read_timedelta,
    "decimal": _from_text(decimal.Decimal),
    "uuid": _from_text(uuid.UUID),
    "path": _from_text(pathlib.PurePosixPath),
    "dataclass": _read_record,
    "namedtuple": _read_record,
    "typeddict": _read_record,
}
