"""The `posix` module of a session: files are the session's own, and nothing else of a machine is there.

Answers to: `os`, `pathlib`, `shutil`, `tempfile` and `open`, which are written over this module.
Must not: reach a real file, process or descriptor. All it does goes through `_ringfence`.
"""

import errno as _errno
import _ringfence
from collections import namedtuple as _namedtuple

O_RDONLY, O_WRONLY, O_RDWR, O_ACCMODE = 0, 1, 2, 3
O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, O_APPEND = 64, 128, 256, 512, 1024
O_NONBLOCK, O_DIRECTORY, O_NOFOLLOW, O_CLOEXEC = 2048, 65536, 131072, 524288
F_OK, X_OK, W_OK, R_OK = 0, 1, 2, 4
WNOHANG, EX_OK = 1, 0
_S_IFREG, _S_IFDIR = 0o100000, 0o040000
_LIMIT = 256

error = OSError
environ = {b"HOME": b"/workspace"}
_cwd = "/workspace"
_nodes = {}
_descriptors = {}


class stat_result(tuple):
    """What `stat` tells; times are fixed, since a session's files have none."""

    st_mode = property(lambda self: self[0])
    st_ino = property(lambda self: self[1])
    st_dev = property(lambda self: self[2])
    st_nlink = property(lambda self: self[3])
    st_uid = property(lambda self: self[4])
    st_gid = property(lambda self: self[5])
    st_size = property(lambda self: self[6])
    st_atime = property(lambda self: float(self[7]))
    st_mtime = property(lambda self: float(self[8]))
    st_ctime = property(lambda self: float(self[9]))
    st_atime_ns = property(lambda self: self[7] * 10**9)
    st_mtime_ns = property(lambda self: self[8] * 10**9)
    st_ctime_ns = property(lambda self: self[9] * 10**9)

    def __repr__(self):
        names = "mode ino dev nlink uid gid size atime mtime ctime".split()
        return "os.stat_result(%s)" % ", ".join(f"st_{n}={v}" for n, v in zip(names, self))


class terminal_size(_namedtuple("terminal_size", "columns lines")):
    """A tuple of (columns, lines), made of a sequence of the two."""

    __slots__ = ()
    __module__ = "os"

    def __new__(cls, sequence, /):
        values = tuple(sequence)
        if len(values) != 2:
            raise TypeError(f"os.terminal_size() takes a 2-sequence ({len(values)}-sequence given)")
        return tuple.__new__(cls, values)

    def __repr__(self):
        return f"os.terminal_size(columns={self.columns!r}, lines={self.lines!r})"


uname_result = _namedtuple("uname_result", "sysname nodename release version machine")
sched_param = _namedtuple("sched_param", "sched_priority")
times_result = _namedtuple("times_result", "user system children_user children_system elapsed")
statvfs_result = _namedtuple("statvfs_result", "f_bsize f_frsize f_blocks f_bfree f_bavail f_files f_ffree f_favail f_flag f_namemax")


def _fail(number, path=None):
    import os

    if path is None:
        raise OSError(number, os.strerror(number))
    raise OSError(number, os.strerror(number), path)


def strerror(code):
    return _TEXTS.get(code, f"Unknown error {code}")


_have_functions = []
_TEXTS = {
    1: "Operation not permitted",
    2: "No such file or directory",
    9: "Bad file descriptor",
    13: "Permission denied",
    17: "File exists",
    20: "Not a directory",
    21: "Is a directory",
    22: "Invalid argument",
    24: "Too many open files",
    25: "Inappropriate ioctl for device",
    28: "No space left on device",
    38: "Function not implemented",
    39: "Directory not empty",
}


def _text(path):
    """A path argument as text; descriptors are looked up."""
    import os

    if type(path) is int:
        return _descriptor(path).path
    path = os.fspath(path)
    return path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else path


def _full(path):
    """The absolute, normalised form of a path argument."""
    text = _text(path)
    if not text:
        _fail(2, path)
    if "\0" in text:
        raise ValueError("embedded null byte")
    parts = []
    for part in (text if text[0] == "/" else _cwd + "/" + text).split("/"):
        if part == "..":
            parts and parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


class _Node:
    """The content of a file that is open; written back when it has grown enough, and when it is closed."""

    __slots__ = ("path", "data", "users", "ahead")

    def __init__(self, path, data):
        self.path, self.data, self.users, self.ahead = path, data, 0, 0

    def grew(self, count):
        self.ahead += count
        if self.ahead > 65536 and self.ahead > len(self.data) // 4:
            self.commit()

    def commit(self):
        if self.ahead:
            self.ahead = 0
            _ringfence.file_write(self.path, bytes(self.data))


class _Descriptor:
    __slots__ = ("path", "node", "position", "flags")

    def __init__(self, path, node, flags):
        self.path, self.node, self.position, self.flags = path, node, 0, flags


def _descriptor(fd):
    try:
        return _descriptors[fd]
    except KeyError:
        _fail(9)


def _commit_all():
    for node in list(_nodes.values()):
        node.commit()


def _state(path):
    """(whether it is a folder, its size), or None."""
    node = _nodes.get(path)
    return (False, len(node.data)) if node is not None else _ringfence.file_stat(path)


def open(path, flags, mode=0o777, *, dir_fd=None):
    full = _full(path)
    writes = flags & O_ACCMODE != O_RDONLY
    state = _state(full)
    if state is None:
        if not flags & O_CREAT:
            _fail(2, path)
        _named(path, _ringfence.file_write, full, b"")
    elif flags & O_CREAT and flags & O_EXCL:
        _fail(17, path)
    elif state[0] and writes:
        _fail(21, path)
    if len(_descriptors) >= _LIMIT:
        _fail(24, path)
    node = None
    if state is None or not state[0]:
        node = _nodes.get(full)
        if node is None:
            node = _Node(full, bytearray(_named(path, _ringfence.file_read, full)))
        if writes and state is not None:
            content = b"" if flags & O_TRUNC else bytes(node.data)
            _named(path, _ringfence.file_write, full, content)
            if flags & O_TRUNC:
                node.data.clear()
                node.ahead = 0
        _nodes[full] = node
        node.users += 1
    fd = 3
    while fd in _descriptors:
        fd += 1
    _descriptors[fd] = _Descriptor(full, node, flags)
    return fd


def _named(path, function, *args):
    """Calls, and names the path in the error as the caller wrote it."""
    try:
        return function(*args)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def close(fd):
    if fd in (0, 1, 2):
        return
    descriptor = _descriptor(fd)
    del _descriptors[fd]
    node = descriptor.node
    if node is not None:
        node.users -= 1
        if not node.users:
            _nodes.pop(node.path, None)
        node.commit()


def closerange(low, high):
    for fd in [fd for fd in _descriptors if low <= fd < high]:
        close(fd)


def _file(fd, write):
    descriptor = _descriptor(fd)
    if descriptor.node is None:
        _fail(21)
    if (descriptor.flags & O_ACCMODE) == (O_RDONLY if write else O_WRONLY):
        _fail(9)
    return descriptor


def read(fd, length):
    if fd == 0:
        return b""
    descriptor = _file(fd, False)
    start = descriptor.position
    data = bytes(descriptor.node.data[start : start + length])
    descriptor.position += len(data)
    return data


def write(fd, data):
    data = bytes(data)
    if fd in (1, 2):
        _ringfence.write(fd, data)
        return len(data)
    descriptor = _file(fd, True)
    content = descriptor.node.data
    start = len(content) if descriptor.flags & O_APPEND else descriptor.position
    if start > len(content):
        content.extend(bytes(start - len(content)))
    content[start : start + len(data)] = data
    descriptor.position = start + len(data)
    descriptor.node.grew(len(data))
    return len(data)


def lseek(fd, position, how):
    descriptor = _descriptor(fd)
    if fd < 3 or descriptor.node is None:
        _fail(29)
    base = (0, descriptor.position, len(descriptor.node.data))[how]
    if base + position < 0:
        _fail(22)
    descriptor.position = base + position
    return descriptor.position


def ftruncate(fd, length):
    content = _file(fd, True).node.data
    if length < 0:
        _fail(22)
    if length > 1 << 30:
        _fail(28)
    if length < len(content):
        del content[length:]
    else:
        content.extend(bytes(length - len(content)))
    _descriptor(fd).node.ahead += 1


def truncate(path, length):
    fd = path if type(path) is int else open(path, O_WRONLY)
    try:
        ftruncate(fd, length)
    finally:
        if fd is not path:
            close(fd)


def fsync(fd):
    node = _descriptor(fd).node
    if node is not None:
        node.commit()


fdatasync = fsync


def dup(fd, /):
    descriptor = _descriptor(fd)
    return open(descriptor.path, descriptor.flags & ~(O_TRUNC | O_EXCL))


def isatty(fd):
    return False


def fstat(fd):
    if fd in (0, 1, 2):
        return stat_result((0o010600, fd, 1, 1, 1000, 1000, 0, 0, 0, 0))
    return stat(_descriptor(fd).path)


def stat(path, *, dir_fd=None, follow_symlinks=True):
    full = _full(path)
    state = _state(full)
    if state is None:
        _fail(2, path)
    mode = _S_IFDIR | 0o755 if state[0] else _S_IFREG | 0o644
    return stat_result((mode, hash(full) & 0x7FFFFFFF, 1, 1, 1000, 1000, state[1], 0, 0, 0))


def lstat(path, *, dir_fd=None):
    return stat(path)


def access(path, mode, *, dir_fd=None, effective_ids=False, follow_symlinks=True):
    full = _full(path)
    if _state(full) is None:
        return False
    if mode & W_OK:
        return full.startswith(("/workspace", "/tmp"))
    return True


class DirEntry:
    """One row of `scandir`."""

    __slots__ = ("name", "path", "_folder")

    def __init__(self, name, path, folder):
        self.name, self.path, self._folder = name, path, folder

    def is_dir(self, *, follow_symlinks=True):
        return self._folder

    def is_file(self, *, follow_symlinks=True):
        return not self._folder

    def is_symlink(self):
        return False

    def is_junction(self):
        return False

    def stat(self, *, follow_symlinks=True):
        return stat(self.path)

    def inode(self):
        return stat(self.path).st_ino

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return f"<DirEntry {self.name!r}>"


class _Scan:
    def __init__(self, rows):
        self._rows = iter(rows)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._rows)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._rows = iter(())


def scandir(path="."):
    text = "." if path is None else _text(path)
    rows = _named(path, _ringfence.file_list, _full(text))
    start = text if text.endswith("/") else text + "/"
    return _Scan([DirEntry(name, start + name, folder) for name, folder in rows])


def listdir(path="."):
    path = "." if path is None else path
    return [name for name, _ in _named(path, _ringfence.file_list, _full(path))]


def mkdir(path, mode=0o777, *, dir_fd=None):
    full = _full(path)
    if _state(full) is not None:
        _fail(17, path)
    folder = _state(full.rpartition("/")[0] or "/")
    if folder is None:
        _fail(2, path)
    if not folder[0]:
        _fail(20, path)
    _named(path, _ringfence.file_mkdir, full)


def unlink(path, *, dir_fd=None):
    full = _full(path)
    state = _state(full)
    if state is None:
        _fail(2, path)
    if state[0]:
        _fail(21, path)
    _named(path, _ringfence.file_remove, full)
    node = _nodes.pop(full, None)
    if node is not None:
        node.ahead = 0


remove = unlink


def rmdir(path, *, dir_fd=None):
    full = _full(path)
    state = _state(full)
    if state is None:
        _fail(2, path)
    if not state[0]:
        _fail(20, path)
    if _ringfence.file_list(full):
        _fail(39, path)
    _named(path, _ringfence.file_remove, full)


def rename(src, dst, *, src_dir_fd=None, dst_dir_fd=None):
    _commit_all()
    old, new = _full(src), _full(dst)
    state, there = _state(old), _state(new)
    if state is None:
        _fail(2, src)
    if old == new:
        return
    if there is not None and there[0] != state[0]:
        _fail(21 if there[0] else 20, dst)
    if not state[0]:
        _move(old, new, src, dst)
        return
    if (new + "/").startswith(old + "/"):
        _fail(22, dst)
    if there is None:
        mkdir(new)
    elif listdir(new):
        _fail(39, dst)
    for name in listdir(old):
        rename(f"{old}/{name}", f"{new}/{name}")
    rmdir(old)


def _move(old, new, src, dst):
    _named(dst, _ringfence.file_write, new, _named(src, _ringfence.file_read, old))
    _named(src, _ringfence.file_remove, old)


replace = rename


def getcwd():
    return _cwd


def getcwdb():
    return _cwd.encode()


def chdir(path):
    global _cwd
    full = _full(path)
    state = _state(full)
    if state is None:
        _fail(2, path)
    if not state[0]:
        _fail(20, path)
    _cwd = full


def chmod(path, mode, *, dir_fd=None, follow_symlinks=True):
    stat(path)


def utime(path, times=None, *, ns=None, dir_fd=None, follow_symlinks=True):
    stat(path)


def readlink(path, *, dir_fd=None):
    stat(path)
    _fail(22, path)


def umask(mask):
    return 0o022


def urandom(size):
    return _ringfence.urandom(size)


def getrandom(size, flags=0):
    return _ringfence.urandom(size)


def getpid():
    return 1


def getppid():
    return 0


def getuid():
    return 1000


getgid = geteuid = getegid = getuid


def getlogin():
    return "guest"


def cpu_count():
    return 1


def register_at_fork(**hooks):
    """Nothing forks here."""


def uname():
    return uname_result("Linux", "ringfence", "0", "0", "x86_64")


def times():
    import time

    used = time.process_time()
    return times_result(used, 0.0, 0.0, 0.0, time.monotonic())


def get_terminal_size(fd=1):
    _fail(25)


def putenv(name, value):
    pass


def unsetenv(name):
    pass


def _refused(name):
    def refuse(*args, **kwargs):
        raise PermissionError(_errno.EPERM, f"os.{name} is not available in a sandboxed session")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


for _name in (
    "_exit abort fork forkpty kill killpg system execv execve posix_spawn posix_spawnp pipe pipe2 waitpid wait "
    "symlink link mkfifo mknod chown lchown fchown fchmod chroot mount setuid setgid setsid setpgid nice "
    "openpty ttyname dup2 sendfile memfd_create statvfs fstatvfs sched_setaffinity"
).split():
    globals()[_name] = _refused(_name)
del _name
