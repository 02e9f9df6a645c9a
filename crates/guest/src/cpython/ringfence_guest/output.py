"""Standard output and standard error: text streams whose bytes go to the host as frames.

Answers to: programs, which find these where Python has its own. Must not: write to the host's socket in a forked
child; there the bytes go to descriptors 1 and 2, which are pipes of the host's.
"""

from __future__ import annotations

import builtins
import codecs
import io
import os
import sys
import threading
import time

from . import wire

__builtins__ = dict(vars(builtins))

_GATHER = 16 << 10
_PIECE = 32 << 10
# Whole lines are sent at once, up to so many in this time; a program that prints more is printing in bulk.
_WINDOW = 0.05
_LINES_AT_ONCE = 512

_now, _write, _pack = time.monotonic, os.write, wire.frame
_TextIOWrapper, _BufferedIOBase, _BytesIO = io.TextIOWrapper, io.BufferedIOBase, io.BytesIO
_sys = sys
_TAGS = {1: b"\0", 2: b"\1"}


def escape(error: UnicodeError):
    """Bytes that were not text go out as the bytes they were; what else is no Unicode, as an escape."""
    if isinstance(error, UnicodeEncodeError):
        try:
            return _as_bytes(error)
        except UnicodeError:
            return _as_escape(error)
    raise error


_as_bytes, _as_escape = codecs.lookup_error("surrogateescape"), codecs.lookup_error("backslashreplace")
_ERRORS = "ringfence-escape"


class Gather:
    """What was written to both streams and not yet sent."""

    def __init__(self, link) -> None:
        self.link = link
        self._bytes = bytearray()
        self._number = 1
        self._window = 0.0
        self._sent = 0
        self.fresh_lock()

    def fresh_lock(self) -> None:
        """In a forked child: nobody holds it."""
        self._lock = threading.RLock()

    def put(self, number: int, data: bytes, now: bool) -> None:
        """Writes to one of the streams; `now` where it may not wait for more."""
        if not self.link.alive:
            _write_all(number, data)
            return
        with self._lock:
            if number != self._number:
                self.send()
                self._number = number
            for at in range(0, len(data), _PIECE):
                self._bytes += data[at : at + _PIECE]
                if len(self._bytes) >= _GATHER:
                    self.send()
            if self._bytes and (now or data.endswith(b"\n")) and self._may_send():
                self.send()

    def _may_send(self) -> bool:
        at = _now()
        if at - self._window > _WINDOW:
            self._window, self._sent = at, 0
        self._sent += 1
        return self._sent <= _LINES_AT_ONCE

    def send(self) -> None:
        """Sends on what there is."""
        with self._lock:
            if self._bytes and self.link.alive:
                data, self._bytes = self._bytes, bytearray()
                self.link.send(_pack(wire.PRINT, _TAGS[self._number] + data))


def _write_all(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[_write(number, rest) :]


class Bytes(io.BufferedIOBase):
    """The bytes below an [Output]: what `sys.stdout.buffer` is."""

    mode = "wb"

    def __init__(self, gather: Gather, number: int, name: str) -> None:
        self._gather = gather
        self._number = number
        self.name = name
        self.now = False

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """A pipe of the host's, for other processes and for code that knows no streams."""
        return self._number

    def isatty(self) -> bool:
        """No."""
        return False

    def write(self, data) -> int:
        """Writes bytes."""
        if self.closed:
            raise ValueError("write to closed file")
        if type(data) is not bytes:
            if isinstance(data, str):
                raise TypeError("a bytes-like object is required, not 'str'")
            data = bytes(memoryview(data).cast("B"))
        self._gather.put(self._number, data, self.now)
        return len(data)

    def flush(self) -> None:
        """Sends on what was written."""
        if self.closed:
            raise ValueError("flush of closed file")
        self._gather.send()

    @property
    def raw(self):
        """There is no layer below."""
        return self

    def detach(self):
        """There is no layer below."""
        return self

    def close(self) -> None:
        """Sends on what was written, and takes no more."""
        if not self.closed:
            self._gather.send()
        super().close()


class _Lines:
    """What the text layer writes to: its own flush, after each line, may be put off for a moment."""

    def __init__(self, below: Bytes) -> None:
        self._below = below
        self.write, self.fileno, self.isatty, self.close = below.write, below.fileno, below.isatty, below.close
        self.name, self.mode, self.raw = below.name, below.mode, below
        self.readable = self.seekable = lambda: False
        self.writable = below.writable

    closed = property(lambda self: self._below.closed)

    def flush(self) -> None:
        """Nothing is kept here."""


class Output(io.TextIOWrapper):
    """Standard output or standard error."""

    def __init__(self, gather: Gather, number: int, name: str) -> None:
        self._bytes = Bytes(gather, number, name)
        self.mode, self.open = "w", True
        super().__init__(_Lines(self._bytes), "utf-8", _ERRORS, "\n", line_buffering=True)

    @property
    def buffer(self):
        """The stream of bytes below."""
        return self._bytes

    def flush(self) -> None:
        """Sends on what was written."""
        _TextIOWrapper.flush(self)
        self._bytes.flush()

    def reconfigure(self, **options) -> None:
        """Changes the encoding and the like."""
        _TextIOWrapper.reconfigure(self, **options)
        self._bytes.now = self.write_through

    def detach(self):
        """The stream of bytes, for good."""
        _TextIOWrapper.detach(self)
        self.open = False
        return self._bytes

    def close(self) -> None:
        """Sends on what was written, and takes no more."""
        _TextIOWrapper.close(self)
        self.open = False


class _Input(io.BytesIO):
    name, mode = "<stdin>", "rb"

    def fileno(self) -> int:
        """Where other processes read."""
        return 0


def _input(text: str):
    given = _TextIOWrapper(_Input(text.encode("utf-8")), "utf-8", "surrogateescape")
    given.mode = "r"
    return given


class Streams:
    """A session's three streams."""

    def __init__(self, link) -> None:
        codecs.register_error(_ERRORS, escape)
        self.gather = Gather(link)
        self._empty = None

    def install(self) -> None:
        """Once: these streams in the place of the interpreter's own."""
        _sys.stdout = _sys.__stdout__ = Output(self.gather, 1, "<stdout>")
        _sys.stderr = _sys.__stderr__ = Output(self.gather, 2, "<stderr>")

    def prepare(self) -> None:
        """Ahead of a snippet: the input of one that is given none."""
        self._empty = _input("")

    def begin(self, stdin: str) -> None:
        """Before each snippet: its input, and streams where the program has none left."""
        given, self._empty = self._empty, None
        if stdin or given is None:
            given = _input(stdin)
        _sys.stdin = _sys.__stdin__ = given
        for name, number in (("stdout", 1), ("stderr", 2)):
            for attribute in (name, f"__{name}__"):
                if not _usable(getattr(_sys, attribute, None)):
                    setattr(_sys, attribute, self._known(name) or Output(self.gather, number, f"<{name}>"))

    def _known(self, name: str):
        known = getattr(_sys, f"__{name}__", None)
        return known if isinstance(known, Output) and _usable(known) else None

    def flush(self) -> None:
        """Sends on all that was written."""
        flushed = None
        for name in ("stdout", "__stdout__", "stderr", "__stderr__"):
            stream = getattr(_sys, name, None)
            if stream is flushed:
                continue
            flushed = stream
            if type(stream) is Output:
                # Nothing is caught here but what a signal handler raises, and that is the program's.
                if stream.open:
                    stream.flush()
            else:
                _flush_others(stream)
        self.gather.send()

    def note(self, text: str) -> None:
        """Says something on standard error."""
        self.gather.put(2, text.encode("utf-8", "backslashreplace") + b"\n", True)


def _flush_others(stream) -> None:
    """A stream of the program's own: what its flush does is its own affair."""
    try:
        if _usable(stream):
            stream.flush()
    except Exception:
        return


def _usable(stream: object) -> bool:
    try:
        return stream is not None and not stream.closed and callable(stream.write)
    except Exception:
        return False
