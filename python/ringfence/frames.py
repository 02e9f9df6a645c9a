"""Frames: a length of 4 bytes, big endian, then one JSON object in UTF-8, at most 64 MiB.

Answers to: the connection, `exports` and the tests, which all speak frames.
Must not: read or write anything itself; bytes go in and frames come out.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from .errors import ProtocolError

MAX_FRAME = 64 << 20
"""The largest frame in bytes, without its length."""

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)


def pack(message: dict[str, Any]) -> bytes:
    """One frame. `TypeError` where text in it is not valid Unicode or it is too large."""
    try:
        body = _encoder.encode(message).encode("utf-8")
    except UnicodeEncodeError:
        raise TypeError("text with a lone surrogate cannot cross between guest and host") from None
    if len(body) > MAX_FRAME:
        raise TypeError(f"a message of {len(body)} bytes is over the limit of {MAX_FRAME} bytes")
    return len(body).to_bytes(4, "big") + body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"`{name}` is not JSON")


def unpack(body: bytes | bytearray) -> dict[str, Any]:
    """The object of one frame's body."""
    try:
        message = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError("a frame that is not a JSON object")
    return message


class Splitter:
    """Cuts the bytes that come in into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Adds bytes as they came."""
        self._bytes += chunk

    def next(self) -> dict[str, Any] | None:
        """The next whole frame, or None until more bytes are fed."""
        if len(self._bytes) < 4:
            return None
        length = int.from_bytes(self._bytes[:4], "big")
        if length > MAX_FRAME:
            raise ProtocolError(f"a frame of {length} bytes is over the limit of {MAX_FRAME} bytes")
        if len(self._bytes) < 4 + length:
            return None
        body = self._bytes[4 : 4 + length]
        del self._bytes[: 4 + length]
        return unpack(body)

    @property
    def inside(self) -> bool:
        """Whether the bytes so far end within a frame."""
        return bool(self._bytes)
