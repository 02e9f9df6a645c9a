"""What makes an interpreter a session: its streams, its values' plain forms, its host functions.

Answers to: the engine, which calls these functions by name. Must not: be a place where a limit or a permission is
kept. The program can reach and change all of this; the host decides.
"""

import _ringfence
import builtins
import collections
import dataclasses
import datetime
import decimal
import inspect
import io
import pathlib
import random
import sys
import uuid


class Output(io.TextIOBase):
    """Standard output or standard error."""

    encoding, errors, newlines, line_buffering, mode, closed = "utf-8", "backslashreplace", None, True, "w", False

    def __init__(self, number, name):
        self.name, self._number = name, number
        self.write = _ringfence.write_out if number == 1 else _ringfence.write_err
        self.buffer = io.BufferedWriter(RawOutput(number, name), 1)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        self.buffer.flush()
        self.write("")  # an empty piece sends on what the worker has gathered

    def close(self):
        pass

    def detach(self):
        return self.buffer

    def reconfigure(self, **options):
        pass

    def isatty(self):
        return False

    def fileno(self):
        return self._number

    def readable(self):
        return False

    def writable(self):
        return True

    def seekable(self):
        return False

    def __repr__(self):
        return f"<_io.TextIOWrapper name={self.name!r} mode='w' encoding='utf-8'>"


class RawOutput(io.RawIOBase):
    """The bytes below an [Output]."""

    def __init__(self, number, name):
        self._number, self.name, self.mode = number, name, "wb"

    def writable(self):
        return True

    def fileno(self):
        return self._number

    def write(self, data):
        data = bytes(data)
        _ringfence.write(self._number, data)
        return len(data)


class Input(io.BytesIO):
    """The bytes of standard input."""

    name, mode = "<stdin>", "rb"


def begin(stdin):
    """Before each snippet."""
    given = io.TextIOWrapper(Input(stdin), "utf-8", "surrogateescape")
    given.mode = "r"
    sys.stdin = sys.__stdin__ = given


def input(prompt="", /):
    """Read a line from standard input."""
    if prompt != "":
        print(prompt, end="", flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError("EOF when reading a line")
    return line[:-1] if line.endswith("\n") else line


def end():
    """After each snippet."""
    _tell_unawaited()
    _commit()
    for stream in (sys.stdout, sys.stderr):
        if type(stream) is Output:
            stream.buffer.flush()


def install():
    """Once, while the interpreter is warmed."""
    global _commit
    import posix

    _commit = posix._commit_all
    sys.stdout = sys.__stdout__ = Output(1, "<stdout>")
    sys.stderr = sys.__stderr__ = Output(2, "<stderr>")
    input.__module__ = "builtins"
    builtins.input = input
    begin(b"")


def reseed():
    """After the fork: nothing random may be shared between sessions."""
    random.seed()
    for name in ("_node", "_last_timestamp", "_last_timestamp_v7", "_last_counter_v7"):
        if hasattr(uuid, name):
            setattr(uuid, name, 0 if name == "_last_counter_v7" else None)


# --- values ---------------------------------------------------------------------------------------------------------

_date, _time, _datetime = datetime.date, datetime.time, datetime.datetime
_delta, _zone, _Decimal, _UUID, _PurePath = datetime.timedelta, datetime.timezone, decimal.Decimal, uuid.UUID, pathlib.PurePath
_mro = type.__dict__["__mro__"].__get__
_namespace = type.__dict__["__dict__"].__get__
_name = type.__dict__["__name__"].__get__
_read = object.__getattribute__
_iso = {kind: kind.isoformat for kind in (_date, _time, _datetime)}
_decimal_text, _path_text, _utcoffset = _Decimal.__str__, _PurePath.__str__, _datetime.utcoffset


def plain(value):
    """The plain form of an object that is no builtin, or None: a kind, and what the engine makes a value of.

    It reads the data of the standard classes, whatever a subclass says about itself.
    """
    kinds = _mro(type(value))
    for kind in kinds:
        if kind is _datetime:
            parts = [_read(value, "_" + name) for name in "year month day hour minute second microsecond".split()]
            return "datetime", _iso[_datetime](_datetime(*parts, _offset(value), fold=_read(value, "_fold")))
        if kind is _date:
            return "date", _iso[_date](_date(_read(value, "_year"), _read(value, "_month"), _read(value, "_day")))
        if kind is _time:
            parts = [_read(value, "_" + name) for name in "hour minute second microsecond".split()]
            return "time", _iso[_time](_time(*parts, _offset(value)))
        if kind is _delta:
            return "timedelta", tuple(_read(value, "_" + name) for name in "days seconds microseconds".split())
        if kind is _Decimal:
            return "decimal", _decimal_text(_Decimal(value))
        if kind is _UUID:
            return "uuid", _read(value, "int").to_bytes(16, "big")
        if kind is _PurePath:
            return "path", _path_text(value)
    return _record(value, kinds)


def _offset(value):
    """The fixed offset of a time, as a zone."""
    zone = _read(value, "_tzinfo")
    if zone is None or type(zone) is _zone:
        return zone
    offset = zone.utcoffset(value if isinstance(value, _datetime) else None)
    return None if offset is None else _zone(offset)


def _record(value, kinds):
    for kind in kinds:
        names = _namespace(kind)
        fields = names.get("__dataclass_fields__")
        if type(fields) is dict:
            rows = [(name, _read(value, name)) for name, field in fields.items() if field._field_type is dataclasses._FIELD]
            return "dataclass", _name(type(value)), rows
        fields = names.get("_fields")
        if type(fields) is tuple and isinstance(value, tuple) and len(fields) == tuple.__len__(value):
            if all(type(field) is str for field in fields):
                return "namedtuple", _name(type(value)), list(zip(fields, tuple.__iter__(value)))
    return None


_classes = {}


def record(kind, name, fields):
    """A record from the host: an instance of a class made for that name and those fields."""
    key = kind, name, tuple(fields)
    made = _classes.get(key)
    if made is None:
        if len(_classes) >= 256:
            _classes.clear()
        if kind == "namedtuple":
            made = collections.namedtuple(name, list(fields), module="__main__")
        else:
            made = dataclasses.make_dataclass(name, list(fields), module="__main__")
        _classes[key] = made
    return made(*fields.values())


def standard(kind, data):
    """A value of the standard library from its plain form."""
    if kind == "date":
        return _date.fromisoformat(data)
    if kind == "datetime":
        return _datetime.fromisoformat(data)
    if kind == "time":
        return _time.fromisoformat(data)
    if kind == "timedelta":
        return _delta(*data)
    if kind == "decimal":
        return _Decimal(data)
    if kind == "uuid":
        return _UUID(bytes=data)
    return pathlib.Path(data)


# --- host functions -------------------------------------------------------------------------------------------------


def declare(heads, name, doc, is_async, scope):
    """Makes a host function and puts it among the program's names.

    The first of `heads` that compiles gives the signature: what a call must fit before it is sent on as written.
    """
    for head in heads:
        space = {"__name__": "__main__"}
        try:
            exec(compile(f"from __future__ import annotations\n{head}: ...", "<host function>", "exec"), space)
            break
        except Exception:
            continue
    fits = space[name]
    if is_async:

        def function(*args, **kwargs):
            fits(*args, **kwargs)
            begun = [False]
            coroutine = _awaited(begun, name, args, kwargs)
            coroutine.__name__ = coroutine.__qualname__ = name
            _remember(begun, coroutine, name)
            return coroutine

        function._is_coroutine_marker = _coroutine_mark

    else:

        def function(*args, **kwargs):
            fits(*args, **kwargs)
            return _call(name, args, kwargs)

    fits.__module__ = function.__module__ = "__main__"
    fits.__doc__ = function.__doc__ = doc or None
    function.__name__ = function.__qualname__ = name
    function.__annotations__ = fits.__annotations__
    function.__wrapped__ = fits
    scope[name] = function


_call = _ringfence.call
_coroutine_mark = getattr(inspect, "_is_coroutine_mark", None)
_unawaited = []
_references = sys.getrefcount


async def _awaited(begun, name, args, kwargs):
    begun[0] = True
    return await _defer(name, args, kwargs)


def _remember(begun, coroutine, name):
    """Keeps a call that nobody awaits yet, to tell of it at the snippet's end."""
    if len(_unawaited) >= 256:
        _unawaited[:] = [entry for entry in _unawaited if not entry[0][0]][:255]
    _unawaited.append((begun, coroutine, name))


def _tell_unawaited():
    """As the interpreter does where a coroutine goes away that never began. What the program keeps may begin yet."""
    kept = []
    while _unawaited:
        begun, coroutine, name = _unawaited.pop(0)
        if begun[0]:
            continue
        if _references(coroutine) > _OURS:
            kept.append((begun, coroutine, name))
            continue
        coroutine.close()
        try:
            sys.stderr.write(f"RuntimeWarning: coroutine '{name}' was never awaited\n")
        except Exception:
            pass
    _unawaited[:] = kept


def _count_ours():
    """How many references a coroutine has that only this module knows, taken in the place where it is asked."""
    waiting = [([False], _awaited([False], "", (), {}), "")]
    begun, coroutine, name = waiting.pop(0)
    count = _references(coroutine)
    coroutine.close()
    return count


_OURS = _count_ours()


def _defer(name, args, kwargs):
    return sys.modules["ringfence_loop"].defer(name, args, kwargs)
