"""The files of a session: put, get, list, remove.

Answers to: users, as `box.files`.
Must not: touch a file of the host's other than one that the caller named.
"""

from __future__ import annotations

import builtins
import dataclasses
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from .errors import ProtocolError
from .options import read_bytes, write_bytes

Request = Callable[[str, dict[str, Any]], dict[str, Any]]
AsyncRequest = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
Content = bytes | str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class FileEntry:
    """One row of a listing. The size of a folder is 0."""

    path: str
    size: int
    folder: bool


class Files:
    """Files of a sandbox. Paths are the guest's; relative ones are under `/workspace`."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def put(self, path: str, content: Content) -> None:
        """Writes a file: bytes, text as UTF-8, or what is in the host file of a `Path`."""
        self._request("put", {"path": path, "content": write_bytes(content)})

    def get(self, path: str, to: os.PathLike[str] | None = None) -> bytes:
        """Reads a file whole, and writes it to the host path `to` where one is given."""
        return _save(read_bytes(self._request("get", {"path": path}), "content"), to)

    def list(self, path: str = "/workspace") -> builtins.list[FileEntry]:
        """What is in a folder."""
        return _entries(self._request("list", {"path": path}))

    def remove(self, path: str) -> None:
        """Removes a file, or a folder and all in it."""
        self._request("remove", {"path": path})


class AsyncFiles:
    """Files of an async sandbox. Paths are the guest's; relative ones are under `/workspace`."""

    def __init__(self, request: AsyncRequest) -> None:
        self._request = request

    async def put(self, path: str, content: Content) -> None:
        """Writes a file: bytes, text as UTF-8, or what is in the host file of a `Path`."""
        await self._request("put", {"path": path, "content": write_bytes(content)})

    async def get(self, path: str, to: os.PathLike[str] | None = None) -> bytes:
        """Reads a file whole, and writes it to the host path `to` where one is given."""
        return _save(read_bytes(await self._request("get", {"path": path}), "content"), to)

    async def list(self, path: str = "/workspace") -> builtins.list[FileEntry]:
        """What is in a folder."""
        return _entries(await self._request("list", {"path": path}))

    async def remove(self, path: str) -> None:
        """Removes a file, or a folder and all in it."""
        await self._request("remove", {"path": path})


def _save(content: bytes, to: os.PathLike[str] | None) -> bytes:
    if to is not None:
        Path(to).write_bytes(content)
    return content


def _entries(result: dict[str, Any]) -> builtins.list[FileEntry]:
    try:
        return [
            FileEntry(str(entry["path"]), int(entry["size"]), bool(entry["folder"]))
            for entry in result["entries"]
        ]
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("the engine sent a listing that can't be read") from None
