"""Exceptions as the host is told them: type, message, the program's own frames with their source, causes and notes.

Answers to: `runner`. Must not: grow without bound, or fail where a program's own `__str__` does.
"""

from __future__ import annotations

import builtins
import collections
import linecache
import os
import sys
import sysconfig

from . import wire
from .wire import optional, text, u32

__builtins__ = dict(vars(builtins))

_MESSAGE, _NAME, _NOTE = 64 << 10, 512, 4096
_CAUSES, _NOTES = 7, 16
_OUTERMOST, _INNERMOST = 20, 80
_SNIPPETS = 256

_name = type.__dict__["__name__"].__get__
_get_lines = linecache.getlines
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _library() -> tuple:
    """Folders whose code is not the program's."""
    found = {
        path for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    found.update(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    return (_HERE, *(path.rstrip(os.sep) + os.sep for path in found if path))


_LIBRARY = _library()


def refresh() -> None:
    """Looks again at where the library is."""
    global _LIBRARY
    _LIBRARY = _library()


class Snippets:
    """The snippets that ran, newest last: which code is the program's, and its text."""

    def __init__(self) -> None:
        self._known: collections.deque = collections.deque(maxlen=_SNIPPETS)
        self._files: set = set()

    def add(self, file: str, source: str, codes: list) -> None:
        """Remembers one."""
        self._files.add(file)
        self._known.append((codes, source))

    def forget(self) -> None:
        """Forgets them all."""
        self._files.clear()
        self._known.clear()

    def sources(self) -> list:
        """The texts of those that are remembered."""
        return [source for _, source in self._known]

    def is_programs(self, file: str) -> bool:
        """Whether code of this file is the program's own."""
        return file in self._files or not file.startswith(("<", *_LIBRARY))

    def line(self, code, number: int):
        """The source line of a piece of code, where it is known."""
        for codes, source in reversed(self._known):
            if any(_holds(outer, code) for outer in codes):
                return line_of(source, number)
        try:
            lines = _get_lines(code.co_filename)
        except Exception:
            return None
        return cut(lines[number - 1].strip(), _NAME) if 0 < number <= len(lines) else None


def _holds(outer, code) -> bool:
    if outer is code:
        return True
    return any(type(inner) is type(code) and _holds(inner, code) for inner in outer.co_consts)


def line_of(source: str, number: int):
    """A line of a text, or None."""
    lines = source.split("\n")
    return cut(lines[number - 1].strip(), _NAME) if 0 < number <= len(lines) else None


def cut(given: str, most: int) -> str:
    """The beginning of a text that would be too long."""
    if len(given) * 4 <= most:
        return given
    data = given.encode("utf-8", "backslashreplace")
    if len(data) <= most:
        return given
    return data[:most].decode("utf-8", "ignore") + "…"


def told(error: BaseException, snippets: Snippets, streams) -> bytes:
    """The frame for an exception that ended a snippet."""
    for causes, notes in ((_CAUSES, _NOTES), (1, _NOTES), (0, 1)):
        body = _told(error, snippets, streams if causes == _CAUSES else None, causes, notes)
        if len(body) <= wire.CAPS[wire.RAISED]:
            break
    return wire.frame(wire.RAISED, body)


def out_of_memory() -> bytes:
    """The frame for an exception that there is no memory to tell of."""
    return wire.frame(wire.RAISED, text("MemoryError") + text("") + u32(0) + u32(0) + b"\0\0")


def in_short(error: BaseException) -> bytes:
    """The frame where nothing more can be told."""
    return wire.frame(
        wire.RAISED, text(_name(type(error))) + text(cut(_message(error), _NOTE)) + u32(0) + u32(0) + b"\0\0"
    )


def not_compiled(error: SyntaxError, source: str, file: str) -> bytes:
    """The frame for a source that did not compile."""
    message = error.msg if type(error.msg) is str else str(error)
    number = error.lineno if type(error.lineno) is int and error.lineno > 0 else 1
    frame = _frame(file, number, "<module>", line_of(source, number))
    body = text(_name(type(error))) + text(cut(message, _MESSAGE)) + u32(1) + frame + u32(0) + b"\0\0"
    return wire.frame(wire.RAISED, body)


def _frame(file: str, number: int, function: str, source) -> bytes:
    source = optional(None if source is None else text(source))
    return text(cut(file, _NAME)) + u32(min(max(number, 0), 0xFFFFFFFF)) + text(cut(function, _NAME)) + source


def _told(
    error: BaseException, snippets: Snippets, streams, causes: int, most_notes: int, outermost: bool = True
) -> bytes:
    code = _exit_code(error, streams) if outermost and isinstance(error, SystemExit) else None
    message = "" if code == 0 else _message(error)
    frames = _frames(error, snippets)
    notes = _notes(error)[:most_notes]
    body = text(cut(_name(type(error)), _NAME)) + text(cut(message, _MESSAGE))
    body += u32(len(frames)) + b"".join(frames) + u32(len(notes)) + b"".join(text(cut(note, _NOTE)) for note in notes)
    body += optional(None if code is None else u32(code & 0xFFFFFFFF))
    cause = error.__cause__
    if cause is None and not error.__suppress_context__:
        cause = error.__context__
    if cause is None or cause is error or causes == 0:
        return body + optional(None)
    return body + optional(_told(cause, snippets, None, causes - 1, most_notes, False))


def _message(error: BaseException) -> str:
    try:
        found = str(error)
    except BaseException:
        return "<exception str() failed>"
    return str.__str__(found)


def _frames(error: BaseException, snippets: Snippets) -> list:
    """The program's own frames, outermost first."""
    places: list = []
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if snippets.is_programs(code.co_filename):
            places.append((code, at.tb_lineno or 0))
            if len(places) > _OUTERMOST + _INNERMOST:
                del places[_OUTERMOST]
        at = at.tb_next
    frames = []
    for code, number in places:
        frames.append(_frame(code.co_filename, number, code.co_name, snippets.line(code, number)))
    return frames


def _notes(error: BaseException) -> list:
    notes = getattr(error, "__notes__", None)
    found = [note for note in notes if isinstance(note, str)] if type(notes) is list else []
    group = getattr(builtins, "BaseExceptionGroup", None)
    if group is not None and isinstance(error, group):
        for number, inner in enumerate(error.exceptions[:_NOTES], 1):
            found.append(f"sub-exception {number}: {_name(type(inner))}: {_message(inner)}")
    return found[:_NOTES]


def _exit_code(error: SystemExit, streams) -> int:
    """The code of an exit; a text is printed, as the interpreter does on its way out."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        code = int.__index__(code)
        return code if -(1 << 31) <= code < 1 << 31 else -1
    if streams is not None:
        try:
            streams.note(cut(str(code), _MESSAGE))
        except Exception:
            return 1
    return 1
