"""The files of a session: put, get, list, remove, and what it changed in copy-on-write mounts.

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


@dataclasses.dataclass(frozen=True)
class Change:
    """One path that a session made other than it is on the host.

    `kind` is `added`, `changed` or `removed`. Folders, and what was removed, have no hash; what was in
    a folder that was removed is not listed.
    """

    path: str
    kind: str
    folder: bool
    size: int
    sha256: str | None


@dataclasses.dataclass(frozen=True)
class Skipped:
    """Something that is not collected, and why: a link, a socket, what is too large or too deep."""

    path: str
    why: str


@dataclasses.dataclass(frozen=True)
class Changes:
    """The difference between the host's folders and what a session made of them, in copy-on-write mounts.

    Not `complete`: there was more than is collected.
    """

    changes: tuple[Change, ...]
    skipped: tuple[Skipped, ...]
    complete: bool


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

    def changes(self, to: str | os.PathLike[str] | None = None) -> Changes:
        """What differs from the host's folders in copy-on-write mounts; also once the session has ended.

        With `to`, a new or an empty folder of the host's, added and changed files are written to `to/files`
        and the list to `to/changes.json`.
        """
        return read_changes(self._request("changes", _folder(to)))

    def changed(self, path: str, to: os.PathLike[str] | None = None) -> bytes:
        """A file that the session added or changed in a copy-on-write mount, as `get`."""
        return _save(read_bytes(self._request("changed", {"path": path}), "content"), to)


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

    async def changes(self, to: str | os.PathLike[str] | None = None) -> Changes:
        """What differs from the host's folders in copy-on-write mounts; also once the session has ended.

        With `to`, a new or an empty folder of the host's, added and changed files are written to `to/files`
        and the list to `to/changes.json`.
        """
        return read_changes(await self._request("changes", _folder(to)))

    async def changed(self, path: str, to: os.PathLike[str] | None = None) -> bytes:
        """A file that the session added or changed in a copy-on-write mount, as `get`."""
        return _save(read_bytes(await self._request("changed", {"path": path}), "content"), to)


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


def _folder(to: str | os.PathLike[str] | None) -> dict[str, Any]:
    return {} if to is None else {"folder": str(Path(to).absolute())}


def read_changes(result: dict[str, Any]) -> Changes:
    """The changes as they came; `ProtocolError` where they are none."""
    try:
        return Changes(
            tuple(_change(row) for row in result["changes"]),
            tuple(Skipped(str(row["path"]), str(row["why"])) for row in result["skipped"]),
            bool(result["complete"]),
        )
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("the engine sent changes that can't be read") from None


def _change(row: dict[str, Any]) -> Change:
    sha256 = row["sha256"]
    return Change(
        str(row["path"]),
        str(row["kind"]),
        bool(row["folder"]),
        int(row["size"]),
        None if sha256 is None else str(sha256),
    )
