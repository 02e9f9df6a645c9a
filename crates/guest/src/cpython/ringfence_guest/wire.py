"""Frames as bytes: numbers of fixed width, little-endian, and lengths before texts.

Answers to: every other module here. Must not: touch a socket, or let a frame grow past what its kind may have.
It is the worker's side of `crates/wire`, which it must match to the byte.
"""

from __future__ import annotations

import builtins
import struct

__builtins__ = dict(vars(builtins))  # what a program does to its builtins is its own affair

VERSION = 2
HEADER = 5
MIB = 1 << 20
SMALL = 64 << 10
FILE = 64 * MIB
VALUE = 4 * MIB + SMALL

# From the worker to the host.
READY, CALL, AWAIT, PRINT, SHOWN, DONE, RAISED, LIMIT = range(8)
UNSUPPORTED, SNAPSHOTTED, RESTORED, FILED, NO_VALUE, SYNC, BRANCHED = range(8, 15)
# From the host to the worker.
SETUP, FEED, ANSWER, SNAPSHOT, RESTORE, FILES, SYNCED, FORK = range(8)

CAPS = {CALL: VALUE, AWAIT: SMALL, PRINT: SMALL, SHOWN: 8 * MIB, DONE: VALUE, RAISED: 8 * SMALL, FILED: FILE + SMALL}
GIVEN_CAPS = {
    SETUP: 4 * MIB,
    FEED: 16 * MIB + VALUE,
    ANSWER: VALUE,
    SNAPSHOT: 0,
    RESTORE: 512 * MIB,
    FILES: FILE + SMALL,
    SYNCED: 0,
    FORK: 4,
}

SIZE_LIMIT = 8
"""The tag of the limit that a frame breaks which is too large for its kind."""

u32 = struct.Struct("<I").pack
u64 = struct.Struct("<Q").pack
i64 = struct.Struct("<q").pack
f64 = struct.Struct("<d").pack
_head = struct.Struct("<IB")
_pack_head = _head.pack
parse_head = _head.unpack_from
_read_u32 = struct.Struct("<I").unpack_from
_read_u64 = struct.Struct("<Q").unpack_from
_read_i64 = struct.Struct("<q").unpack_from
_read_f64 = struct.Struct("<d").unpack_from


class Broken(Exception):
    """The host's bytes are no frame: nothing can be said any more."""


def frame(kind: int, body: bytes = b"") -> bytes:
    """The whole frame."""
    return _pack_head(len(body), kind) + body


def text(given: str) -> bytes:
    """A text with its length. Lone surrogates are written as escapes, since the wire knows Unicode only."""
    data = str.encode(given, "utf-8", "backslashreplace")
    return u32(len(data)) + data


def optional(part: bytes | None) -> bytes:
    """A part that may be absent."""
    return b"\0" if part is None else b"\1" + part


def limit(reached: int) -> bytes:
    """The frame in place of one that is too large."""
    return frame(LIMIT, bytes((SIZE_LIMIT,)) + u64(reached))


def bounded(kind: int, body: bytes) -> bytes:
    """The whole frame, or the limit that it breaks."""
    return frame(kind, body) if len(body) <= CAPS.get(kind, SMALL) else limit(len(body) + HEADER)


class Reader:
    """Reads the body of a frame from the host."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes:
        """So many bytes."""
        at = self.at
        end = at + count
        if end > len(self.data):
            raise Broken
        self.at = end
        return self.data[at:end]

    def number(self, read, width: int):
        """A number of fixed width."""
        at = self.at
        if at + width > len(self.data):
            raise Broken
        self.at = at + width
        return read(self.data, at)[0]

    def u8(self) -> int:
        """A byte."""
        at = self.at
        if at >= len(self.data):
            raise Broken
        self.at = at + 1
        return self.data[at]

    def u32(self) -> int:
        """An unsigned number."""
        return self.number(_read_u32, 4)

    def u64(self) -> int:
        """An unsigned number."""
        return self.number(_read_u64, 8)

    def i64(self) -> int:
        """A signed number."""
        return self.number(_read_i64, 8)

    def f64(self) -> float:
        """A float."""
        return self.number(_read_f64, 8)

    def flag(self) -> bool:
        """Yes or no."""
        found = self.u8()
        if found > 1:
            raise Broken
        return found == 1

    def bytes(self):
        """Bytes with their length."""
        return self.take(self.u32())

    def text(self) -> str:
        """A text with its length."""
        try:
            return self.take(self.u32()).decode("utf-8")
        except UnicodeDecodeError:
            raise Broken from None

    def count(self) -> int:
        """How many items follow, of at least a byte each."""
        count = self.u32()
        if count > len(self.data) - self.at:
            raise Broken
        return count

    def finish(self) -> None:
        """Nothing may be left over."""
        if self.at != len(self.data):
            raise Broken
