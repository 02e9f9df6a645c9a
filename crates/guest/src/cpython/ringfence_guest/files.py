"""The host's operations on the session's files, with the session's own rights.

Answers to: the host. Must not: follow a link, wait for a FIFO, or read what is larger than a frame may be. A path is
walked folder by folder, so that nothing the program does meanwhile leads elsewhere.
"""

from __future__ import annotations

import builtins
import errno
import os
import stat

from . import wire
from .wire import Broken, Reader, text, u32, u64

__builtins__ = dict(vars(builtins))

PUT, GET, LIST, REMOVE = range(4)
_DONE, _CONTENT, _ENTRIES, _FAULT = range(4)
_BAD_PATH, _NOT_FOUND, _IS_FOLDER, _NOT_FOLDER, _DENIED, _NO_SPACE = range(6)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST_DEEP = 64

_open, _close, _fstat, _stat, _read, _write = os.open, os.close, os.fstat, os.stat, os.read, os.write
_mkdir, _rename, _unlink, _rmdir, _listdir, _fchmod = os.mkdir, os.replace, os.unlink, os.rmdir, os.listdir, os.fchmod
_urandom = os.urandom

_FAULTS = {
    errno.ENOENT: _NOT_FOUND,
    errno.EISDIR: _IS_FOLDER,
    errno.ENOTDIR: _NOT_FOLDER,
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EMFILE: _NO_SPACE,
    errno.ENAMETOOLONG: _BAD_PATH,
    errno.EINVAL: _BAD_PATH,
}


class _TooLarge(Exception):
    """A file that no frame can carry."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def serve(body: bytes) -> bytes:
    """Carries an operation out; the frame that answers it."""
    reader = Reader(body)
    operation, path = reader.u8(), reader.text()
    content, read_only = b"", False
    if operation == PUT:
        content, read_only = reader.bytes(), reader.flag()
    reader.finish()
    if operation > REMOVE or not path.startswith("/") or "\0" in path:
        raise Broken
    parts = [part for part in path.split("/") if part]
    try:
        if operation == PUT:
            reply = _put(parts, content, read_only)
        else:
            reply = (_get, _list, _remove)[operation - 1](parts)
    except _TooLarge as large:
        return wire.limit(large.size)
    except OSError as error:
        reply = bytes((_FAULT, _FAULTS.get(error.errno, _DENIED))) + text(path)
    return wire.bounded(wire.FILED, reply)


def _folder(parts: list, make: bool = False) -> int:
    """The folder of these names, opened without following a link."""
    at = _open("/", _FOLDER)
    try:
        for part in parts:
            if make:
                try:
                    _mkdir(part, 0o755, dir_fd=at)
                except FileExistsError:
                    pass
                except OSError as error:
                    # Where it is there already, that it may not be made is no matter.
                    if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                        raise
            deeper = _open(part, _FOLDER, dir_fd=at)
            _close(at)
            at = deeper
    except BaseException:
        _close(at)
        raise
    return at


def _put(parts: list, content: bytes, read_only: bool) -> bytes:
    if not parts:
        raise IsADirectoryError(errno.EISDIR, "folder")
    folder = _folder(parts[:-1], make=True)
    beside = f".ringfence-{_urandom(8).hex()}"
    try:
        file = _open(beside, _FILE | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
        try:
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[_write(file, rest) :]
                if read_only:
                    _fchmod(file, 0o444)
            finally:
                _close(file)
            _rename(beside, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            _unlink(beside, dir_fd=folder)
            raise
    finally:
        _close(folder)
    return bytes((_DONE,))


def _get(parts: list) -> bytes:
    if not parts:
        raise IsADirectoryError(errno.EISDIR, "folder")
    folder = _folder(parts[:-1])
    try:
        file = _open(parts[-1], _FILE | os.O_RDONLY, dir_fd=folder)
    finally:
        _close(folder)
    try:
        about = _fstat(file)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, "folder")
        if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
            raise PermissionError(errno.EACCES, "no ordinary file")
        if about.st_size > wire.FILE:
            raise _TooLarge(about.st_size)
        content = bytearray()
        while len(content) <= wire.FILE:
            piece = _read(file, 1 << 20)
            if not piece:
                return bytes((_CONTENT,)) + u32(len(content)) + content
            content += piece
        raise _TooLarge(len(content))
    finally:
        _close(file)


def _list(parts: list) -> bytes:
    folder = _folder(parts)
    base = "".join("/" + part for part in parts)
    rows = []
    try:
        for name in sorted(_listdir(folder)):
            path = f"{base}/{name}"
            try:
                if len(path.encode("utf-8")) > 1024:
                    continue
                about = _stat(name, dir_fd=folder, follow_symlinks=False)
            except (UnicodeEncodeError, FileNotFoundError):
                continue
            is_folder = stat.S_ISDIR(about.st_mode)
            # What is neither file nor folder can't be fetched, so it is not offered.
            if is_folder or stat.S_ISREG(about.st_mode):
                rows.append(text(path) + u64(0 if is_folder else about.st_size) + (b"\1" if is_folder else b"\0"))
    finally:
        _close(folder)
    return bytes((_ENTRIES,)) + u32(len(rows)) + b"".join(rows)


def _remove(parts: list) -> bytes:
    if not parts:
        raise PermissionError(errno.EACCES, "the root")
    folder = _folder(parts[:-1])
    try:
        _discard(folder, parts[-1], 0)
    finally:
        _close(folder)
    return bytes((_DONE,))


def _discard(folder: int, name: str, depth: int) -> None:
    if not stat.S_ISDIR(_stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        _unlink(name, dir_fd=folder)
        return
    if depth >= _MOST_DEEP:
        raise PermissionError(errno.EACCES, "too deep")
    inner = _open(name, _FOLDER, dir_fd=folder)
    try:
        for below in _listdir(inner):
            _discard(inner, below, depth + 1)
    finally:
        _close(inner)
    _rmdir(name, dir_fd=folder)
