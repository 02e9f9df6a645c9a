"""`open` and `io.FileIO` over the session's own files.

Answers to: `io`, `builtins.open` and all that is written over them. Must not: use a real descriptor.
"""

import _io
import os
import posix

_MODES = {"r": posix.O_RDONLY, "w": posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC}
_MODES["x"] = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL
_MODES["a"] = posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND


class FileIO(_io._RawIOBase):
    """A raw binary file."""

    _fd = -1

    def __init__(self, file, mode="r", closefd=True, opener=None):
        kind = [letter for letter in mode if letter in _MODES]
        if len(kind) != 1 or set(mode) - set("rwxab+"):
            raise ValueError("Must have exactly one of create/read/write/append mode and at most one plus")
        flags = _MODES[kind[0]]
        self._readable = "+" in mode or kind[0] == "r"
        self._writable = "+" in mode or kind[0] != "r"
        if "+" in mode:
            flags = flags & ~posix.O_ACCMODE | posix.O_RDWR
        self.mode = {"r": "rb", "w": "wb", "x": "xb", "a": "ab"}[kind[0]] + ("+" if "+" in mode else "")
        self.name = file
        self.closefd = closefd
        if isinstance(file, int):
            if file < 0:
                raise ValueError("negative file descriptor")
            posix.fstat(file)
            self._fd = file
            return
        if not closefd:
            raise ValueError("Cannot use closefd=False with file name")
        fd = opener(file, flags) if opener is not None else posix.open(file, flags, 0o666)
        if posix.fstat(fd).st_mode & 0o040000:
            posix.close(fd)
            posix._fail(21, file)
        self._fd = fd
        if kind[0] == "a":
            posix.lseek(fd, 0, 2)

    def _check(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def fileno(self):
        self._check()
        return self._fd

    def readable(self):
        self._check()
        return self._readable

    def writable(self):
        self._check()
        return self._writable

    def seekable(self):
        self._check()
        return self._fd > 2

    def isatty(self):
        self._check()
        return False

    def read(self, size=-1):
        self._check()
        if not self._readable:
            raise _io.UnsupportedOperation("File not open for reading")
        return self.readall() if size is None or size < 0 else posix.read(self._fd, size)

    def readall(self):
        self._check()
        return posix.read(self._fd, 1 << 40)

    def readinto(self, buffer):
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def write(self, data):
        self._check()
        if not self._writable:
            raise _io.UnsupportedOperation("File not open for writing")
        return posix.write(self._fd, data)

    def seek(self, position, whence=0):
        self._check()
        return posix.lseek(self._fd, position, whence)

    def tell(self):
        self._check()
        return posix.lseek(self._fd, 0, 1)

    def truncate(self, size=None):
        self._check()
        if not self._writable:
            raise _io.UnsupportedOperation("File not open for writing")
        size = self.tell() if size is None else size
        posix.ftruncate(self._fd, size)
        return size

    def close(self):
        if self.closed:
            return
        try:
            _io._RawIOBase.close(self)
        finally:
            fd, self._fd = self._fd, -1
            if self.closefd and fd > 2:
                posix.close(fd)

    def __repr__(self):
        return f"<_io.FileIO name={self.name!r} mode={self.mode!r} closefd={self.closefd}>"


FileIO.__module__ = "_io"


def open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    """Open a file of the session and return a stream."""
    if not isinstance(file, int):
        file = os.fspath(file)
    if not isinstance(mode, str):
        raise TypeError(f"open() argument 'mode' must be str, not {type(mode).__name__}")
    letters = set(mode)
    if letters - set("axrwb+t") or len(mode) > len(letters):
        raise ValueError(f"invalid mode: {mode!r}")
    binary = "b" in letters
    if len(letters & set("axrw")) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    if binary and "t" in letters:
        raise ValueError("can't have text and binary mode at once")
    for value, name in ((encoding, "an encoding"), (errors, "an errors"), (newline, "a newline")):
        if binary and value is not None:
            raise ValueError(f"binary mode doesn't take {name} argument")
    raw = FileIO(file, "".join(sorted(letters - set("bt"))), closefd, opener)
    try:
        return _wrapped(raw, letters, mode, buffering, encoding, errors, newline)
    except BaseException:
        raw.close()
        raise


def _wrapped(raw, letters, mode, buffering, encoding, errors, newline):
    if buffering == 0:
        if "b" not in letters:
            raise ValueError("can't have unbuffered text I/O")
        return raw
    size = buffering if buffering > 1 else 65536
    if "+" in letters:
        buffer = _io.BufferedRandom(raw, size)
    elif "r" in letters:
        buffer = _io.BufferedReader(raw, size)
    else:
        buffer = _io.BufferedWriter(raw, size)
    if "b" in letters:
        return buffer
    encoding = "utf-8" if encoding in (None, "locale") else encoding
    text = _io.TextIOWrapper(buffer, encoding, errors, newline, buffering == 1)
    text.mode = mode
    return text


def open_code(path):
    """Open a file to import from; sessions import frozen modules only."""
    return open(path, "rb")


def install():
    """Puts these in the place of the interpreter's own."""
    import builtins
    import io

    for module in (_io, io):
        module.FileIO, module.open, module.open_code = FileIO, open, open_code
    io.RawIOBase.register(FileIO)
    builtins.open = open
