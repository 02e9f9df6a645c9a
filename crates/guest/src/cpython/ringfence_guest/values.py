"""Values in both directions: Python objects as plain data, and plain data as Python objects.

Answers to: host calls, inputs, and the last expression's value. Must not: write what the host would refuse, ask a
builtin's subclass what it is (the data below is read), or turn an object into text because it has no better form.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import datetime
import decimal
import keyword
import pathlib
import sys
import uuid

from .wire import Broken, Reader, f64, i64, u32

__builtins__ = dict(vars(builtins))

NONE, FALSE, TRUE, INT, BIG_INT, FLOAT, STR, BYTES, LIST, TUPLE, DICT, SET, FROZEN_SET = range(13)
DATE, DATE_TIME, TIME, TIME_DELTA, DECIMAL, UUID, PATH, DATACLASS, NAMED_TUPLE, TYPED_DICT = range(13, 23)

BYTES_IN_ALL = 4 << 20
LEVELS = 64
VALUES = 200_000
SHORT_TEXT = 4096
RECORD_NAME = 256

_date, _time, _datetime, _delta = datetime.date, datetime.time, datetime.datetime, datetime.timedelta
_Decimal, _UUID, _PurePath, _Path = decimal.Decimal, uuid.UUID, pathlib.PurePath, pathlib.Path
_FIELD = dataclasses._FIELD
_mro = type.__dict__["__mro__"].__get__
_namespace = type.__dict__["__dict__"].__get__
_name = type.__dict__["__name__"].__get__
_getattribute = object.__getattribute__
_TAG = [bytes((number,)) for number in range(23)]
_NONE, _FALSE, _TRUE, _INT, _FLOAT, _STR, _BYTES = (_TAG[n] for n in (NONE, FALSE, TRUE, INT, FLOAT, STR, BYTES))
_modules = sys.modules


class NotPlain(Exception):
    """A value that can't cross: its message names the place, as in `value.rows[3]`."""

    is_cycle = False


class Cycle(NotPlain):
    """A container that contains itself."""

    is_cycle = True


def _not_plain(path: str, value: object, hint: str = "") -> NotPlain:
    name = _name(type(value))[:120]
    return NotPlain(f"a value of type `{name}` at `{path}` cannot cross between guest and host{hint}")


def _too_large(path: str, allowed: int, what: str) -> NotPlain:
    return NotPlain(f"the value at `{path}` is over the limit of {allowed} {what}")


class Writer:
    """Writes values one after another, all under one budget."""

    def __init__(self) -> None:
        self.out = bytearray()
        self._nodes = 0
        self._open: list[int] = []

    def value(self, path: str, value: object) -> None:
        """Writes `value`, which errors call `path`."""
        self._walk(value, path, 1)

    def _walk(self, value: object, path: str, depth: int) -> None:
        self._nodes += 1
        if self._nodes > VALUES:
            raise _too_large(path, VALUES, "values")
        if depth > LEVELS:
            raise _too_large(path, LEVELS, "levels")
        write = _WRITERS.get(id(type(value)))
        if write is None:
            write = self._by_ancestor(value)
        if write is None:
            self._other(value, path, depth)
        else:
            write(self, value, path, depth)
        if len(self.out) > BYTES_IN_ALL:
            raise _too_large(path, BYTES_IN_ALL, "bytes")

    def _by_ancestor(self, value: object):
        """What writes a subclass of a builtin, and remembers no class: a program makes them by the thousand."""
        kinds = _mro(type(value))
        for kind in kinds:
            found = _WRITERS.get(id(kind))
            if found is not None:
                return found
        return None

    def _none(self, value, path: str, depth: int) -> None:
        self.out += _NONE

    def _bool(self, value, path: str, depth: int) -> None:
        self.out += _TRUE if value is True else _FALSE

    def _int(self, value, path: str, depth: int) -> None:
        bits = int.bit_length(value)
        if bits < 64:
            self.out += _INT + int.to_bytes(value, 8, "little", signed=True)
        elif bits == 64 and int.__eq__(value, -(1 << 63)):
            self.out += _INT + i64(-(1 << 63))
        else:
            self._room(bits // 8, path)
            magnitude = int.__abs__(value)
            data = int.to_bytes(magnitude, (bits + 7) // 8, "little")
            self.out += _TAG[BIG_INT] + (b"\1" if int.__lt__(value, 0) else b"\0") + u32(len(data)) + data

    def _float(self, value, path: str, depth: int) -> None:
        self.out += _FLOAT + f64(value)

    def _str(self, value, path: str, depth: int) -> None:
        self.out += _STR
        self._text(value, path)

    def _text(self, value: str, path: str) -> None:
        self._room(str.__len__(value), path)
        try:
            data = str.encode(value, "utf-8")
        except UnicodeEncodeError:
            message = f"the text at `{path}` holds a lone surrogate and cannot cross between guest and host"
            raise NotPlain(message) from None
        self.out += u32(len(data))
        self.out += data

    def _bytes(self, value, path: str, depth: int) -> None:
        data = memoryview(value).cast("B")
        self._room(len(data), path)
        self.out += _BYTES + u32(len(data))
        self.out += data

    def _room(self, count: int, path: str) -> None:
        """Refuses bytes before they are copied."""
        if len(self.out) + count > BYTES_IN_ALL:
            raise _too_large(path, BYTES_IN_ALL, "bytes")

    def _enter(self, value: object, path: str, count: int) -> None:
        if id(value) in self._open:
            raise Cycle(f"the value at `{path}` contains itself and cannot cross between guest and host")
        if self._nodes + count > VALUES:
            raise _too_large(path, VALUES, "values")
        self._open.append(id(value))

    def _items(self, tag: int, value: object, items, count: int, path: str, depth: int) -> None:
        self._enter(value, path, count)
        items = list(items)
        self.out += _TAG[tag] + u32(len(items))
        deeper = depth + 1
        # The path is only ever shown; beyond this length it says no more.
        short = len(path) < 200
        for index, item in enumerate(items):
            self._walk(item, f"{path}[{index}]" if short else path, deeper)
        self._open.pop()

    def _list(self, value, path: str, depth: int) -> None:
        self._items(LIST, value, list.__iter__(value), list.__len__(value), path, depth)

    def _tuple(self, value, path: str, depth: int) -> None:
        if type(value) is not tuple and self._named_tuple(value, path, depth):
            return
        self._items(TUPLE, value, tuple.__iter__(value), tuple.__len__(value), path, depth)

    def _set(self, value, path: str, depth: int) -> None:
        self._items(SET, value, set.__iter__(value), set.__len__(value), path, depth)

    def _frozen_set(self, value, path: str, depth: int) -> None:
        self._items(FROZEN_SET, value, frozenset.__iter__(value), frozenset.__len__(value), path, depth)

    def _dict(self, value, path: str, depth: int) -> None:
        self._enter(value, path, 2 * dict.__len__(value))
        pairs = list(dict.items(value))
        self.out += _TAG[DICT] + u32(len(pairs))
        short = len(path) < 200
        for index, (key, item) in enumerate(pairs):
            at = path
            if short:
                at = f"{path}.{key}" if type(key) is str and _is_name(key) else f"{path}[{index}]"
            self._walk(key, at, depth + 1)
            self._walk(item, at, depth + 1)
        self._open.pop()

    def _fields(self, tag: int, value: object, rows, path: str, depth: int) -> None:
        name = _name(type(value))
        if len(str.encode(name, "utf-8", "replace")) > RECORD_NAME:
            raise _too_large(path, RECORD_NAME, "bytes")
        self._enter(value, path, len(rows))
        self.out += _TAG[tag]
        self._text(name, path)
        self.out += u32(len(rows))
        short = len(path) < 200
        for field, item in rows:
            at = f"{path}.{field}" if short else path
            self._text(field, at)
            self._walk(item, at, depth + 1)
        self._open.pop()

    def _named_tuple(self, value, path: str, depth: int) -> bool:
        for kind in _mro(type(value)):
            names = _namespace(kind).get("_fields")
            if type(names) is tuple and len(names) == tuple.__len__(value):
                if all(type(name) is str for name in names):
                    self._fields(NAMED_TUPLE, value, list(zip(names, tuple.__iter__(value))), path, depth)
                    return True
        return False

    def _short(self, tag: int, data: str, path: str) -> None:
        if len(str.encode(data, "utf-8", "replace")) > SHORT_TEXT:
            raise _too_large(path, SHORT_TEXT, "bytes")
        self.out += _TAG[tag]
        self._text(data, path)

    def _date(self, value, path: str, depth: int) -> None:
        self._short(DATE, _date.isoformat(value), path)

    def _datetime(self, value, path: str, depth: int) -> None:
        if _name(type(value)) == "NaTType":
            raise _not_plain(path, value)
        self._short(DATE_TIME, _told(_datetime.isoformat, value, path), path)

    def _time(self, value, path: str, depth: int) -> None:
        self._short(TIME, _told(_time.isoformat, value, path), path)

    def _timedelta(self, value, path: str, depth: int) -> None:
        days, seconds, rest = (part.__get__(value) for part in _DELTA_PARTS)
        self.out += _TAG[TIME_DELTA] + i64(days) + u32(seconds) + u32(rest)

    def _decimal(self, value, path: str, depth: int) -> None:
        self._short(DECIMAL, _Decimal.__str__(value), path)

    def _uuid(self, value, path: str, depth: int) -> None:
        self.out += _TAG[UUID] + int.to_bytes(_getattribute(value, "int"), 16, "big")

    def _path(self, value, path: str, depth: int) -> None:
        self._short(PATH, _PurePath.__str__(value), path)

    def _other(self, value: object, path: str, depth: int) -> None:
        """Dataclasses, and what numpy has of single values."""
        for kind in _mro(type(value)):
            fields = _namespace(kind).get("__dataclass_fields__")
            if type(fields) is dict and not isinstance(value, type):
                names = [name for name, field in fields.items() if field._field_type is _FIELD]
                try:
                    rows = [(name, _getattribute(value, name)) for name in names]
                except AttributeError:
                    break
                self._fields(DATACLASS, value, rows, path, depth)
                return
            if _name(kind) == "generic" and _namespace(kind).get("__module__") == "numpy":
                self._scalar(value, path, depth)
                return
        raise _not_plain(path, value, hint_for(value))

    def _scalar(self, value, path: str, depth: int) -> None:
        """A numpy scalar as the Python object that it stands for, where that has the same meaning."""
        kind = getattr(getattr(value, "dtype", None), "kind", None)
        plain = value.item()
        if type(plain) not in _SCALARS or (kind in ("M", "m") and type(plain) is int):
            raise _not_plain(path, value)
        _WRITERS[id(type(plain))](self, plain, path, depth)


def _told(describe, value: object, path: str) -> str:
    """What a value with a time zone tells: the zone's own code runs."""
    try:
        return describe(value)
    except Exception:
        raise _not_plain(path, value) from None


def _is_name(word: str) -> bool:
    return len(word) <= 64 and all(letter.isalnum() or letter == "_" for letter in word)


_DELTA_PARTS = tuple(_delta.__dict__[name] for name in ("days", "seconds", "microseconds"))
_SCALARS = (bool, int, float, str, bytes, _datetime, _date, _delta)
_WRITERS_OF = {
    type(None): Writer._none,
    bool: Writer._bool,
    int: Writer._int,
    float: Writer._float,
    str: Writer._str,
    bytes: Writer._bytes,
    bytearray: Writer._bytes,
    list: Writer._list,
    tuple: Writer._tuple,
    dict: Writer._dict,
    set: Writer._set,
    frozenset: Writer._frozen_set,
    _datetime: Writer._datetime,
    _date: Writer._date,
    _time: Writer._time,
    _delta: Writer._timedelta,
    _Decimal: Writer._decimal,
    _UUID: Writer._uuid,
    _PurePath: Writer._path,
}
# By identity: to hash a class is to ask its metaclass.
_WRITERS = {id(kind): write for kind, write in _WRITERS_OF.items()}

_HINTS = {
    "DataFrame": "; give `.to_dict('records')` or print it",
    "Series": "; give `.to_list()` or print it",
    "Index": "; give `.to_list()` or print it",
    "ndarray": "; give `.tolist()` or print it",
    "Tensor": "; give `.tolist()` or print it",
}


def hint_for(value: object) -> str:
    """How the data of a well-known class is made plain."""
    for kind in _mro(type(value)):
        module = _namespace(kind).get("__module__")
        if type(module) is str and module.split(".")[0] in ("numpy", "pandas", "polars", "torch"):
            hint = _HINTS.get(_name(kind))
            if hint is not None:
                return hint
    return ""


# --- from the host --------------------------------------------------------------------------------------------------


def read(reader: Reader):
    """The object for the next value."""
    return _at(reader, 1)


def _at(reader: Reader, depth: int):
    if depth > LEVELS:
        raise Broken
    tag = reader.u8()
    simple = _READERS.get(tag)
    if simple is not None:
        return simple(reader)
    if tag in (LIST, TUPLE, SET, FROZEN_SET):
        items = [_at(reader, depth + 1) for _ in range(reader.count())]
        return items if tag == LIST else _KINDS[tag](items)
    if tag == DICT:
        return {_at(reader, depth + 1): _at(reader, depth + 1) for _ in range(reader.count())}
    if tag in (DATACLASS, NAMED_TUPLE, TYPED_DICT):
        name = reader.text()
        return _record(tag, name, {reader.text(): _at(reader, depth + 1) for _ in range(reader.count())})
    raise Broken


def _read_big_int(reader: Reader) -> int:
    negative = reader.flag()
    number = int.from_bytes(reader.bytes(), "little")
    return -number if negative else number


_KINDS = {TUPLE: tuple, SET: set, FROZEN_SET: frozenset}
_READERS = {
    NONE: lambda reader: None,
    FALSE: lambda reader: False,
    TRUE: lambda reader: True,
    INT: Reader.i64,
    BIG_INT: _read_big_int,
    FLOAT: Reader.f64,
    STR: Reader.text,
    BYTES: Reader.bytes,
    DATE: lambda reader: _date.fromisoformat(reader.text()),
    DATE_TIME: lambda reader: _datetime.fromisoformat(reader.text()),
    TIME: lambda reader: _time.fromisoformat(reader.text()),
    TIME_DELTA: lambda reader: _delta(reader.i64(), reader.u32(), reader.u32()),
    DECIMAL: lambda reader: _Decimal(reader.text()),
    UUID: lambda reader: _UUID(bytes=reader.take(16)),
    PATH: lambda reader: _Path(reader.text()),
}

_classes: dict = {}


def _record(tag: int, name: str, fields: dict):
    """An instance of a class made for that name and those fields; a dict where Python has no such class."""
    if tag == TYPED_DICT:
        return fields
    key = tag, name, tuple(fields)
    made = _classes.get(key)
    if made is None:
        if not name.isidentifier() or any(not at.isidentifier() or keyword.iskeyword(at) for at in (name, *fields)):
            return fields
        if len(_classes) >= 256:
            _classes.clear()
        try:
            if tag == NAMED_TUPLE:
                made = collections.namedtuple(name, list(fields), module="__main__")
            else:
                made = dataclasses.make_dataclass(name, list(fields))
                made.__module__ = "__main__"
        except ValueError:
            return fields
        _classes[key] = made
    return made(*fields.values())
