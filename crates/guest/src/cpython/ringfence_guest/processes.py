"""Other processes of the program: output in order before they start, and no way to the host from inside them.

Answers to: `os`, `subprocess` and `multiprocessing`, below which it sits. Must not: cost anything where no process is
started, which is why it is no audit hook.
"""

from __future__ import annotations

import _posixsubprocess
import ast
import builtins
import functools
import os
import sys

__builtins__ = dict(vars(builtins))

_STARTERS = ("system", "posix_spawn", "posix_spawnp", "execv", "execve")

_exists = os.path.lexists
_flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_open, _write, _close = os.open, os.write, os.close

_session = None


class Processes:
    """What happens around the start of a process."""

    def __init__(self, link, streams, snippets) -> None:
        self._link = link
        self._streams = streams
        self._snippets = snippets
        self._source = ""
        self._script = None
        self._lent = None

    def install(self) -> None:
        """Once, in the session's first process."""
        global _session
        _session = self
        os.register_at_fork(before=_before, after_in_child=_in_child)
        posix = sys.modules["posix"]
        for name in _STARTERS:
            real = getattr(os, name, None)
            if real is not None:
                wrapped = _announced(real)
                setattr(os, name, wrapped)
                setattr(posix, name, wrapped)
        os._exit = posix._exit = _flushed(os._exit)
        wrapped = _announced(_posixsubprocess.fork_exec)
        _posixsubprocess.fork_exec = wrapped
        loaded = sys.modules.get("subprocess")
        if hasattr(loaded, "_fork_exec"):
            loaded._fork_exec = wrapped

    def running(self, script: str, source: str) -> None:
        """The snippet that is about to run, and the file that it is taken for."""
        self._script, self._source = script, source

    def before(self) -> None:
        """A process is about to start: all that was printed is with the host first."""
        if self._link.alive:
            self._streams.flush()
            self._link.sync()

    def exiting(self) -> None:
        """The process is about to end without a word."""
        if self._link.alive:
            self._streams.gather.send()

    def in_child(self) -> None:
        """This is a forked child."""
        self._link.leave()
        self._streams.gather.fresh_lock()

    def lend_script(self) -> None:
        """Processes that start anew find the program's functions by running its file, so there must be one."""
        if self._script is None or _exists(self._script):
            return
        try:
            file = _open(self._script, _flags, 0o644)
            try:
                data = self._whole().encode("utf-8", "backslashreplace")
                while data:
                    data = data[_write(file, data) :]
            finally:
                _close(file)
        except OSError:
            return
        self._lent = self._script

    def _whole(self) -> str:
        """The definitions of the snippets before, then the snippet itself."""
        earlier = [_definitions(source) for source in self._snippets.sources()[:-1]]
        return "\n".join([part for part in earlier if part] + [self._source])

    def finish(self) -> None:
        """After a snippet: what was lent is taken away."""
        lent, self._lent = self._lent, None
        if lent is not None:
            try:
                os.unlink(lent)
            except OSError:
                return


def _definitions(source: str) -> str:
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    try:
        body = [part for part in ast.parse(source).body if isinstance(part, kept)]
        return ast.unparse(ast.Module(body, []))
    except Exception:
        return ""


def _before() -> None:
    if _session is not None:
        _session.before()


def _in_child() -> None:
    if _session is not None:
        _session.in_child()


def _announced(real):
    @functools.wraps(real)
    def start(*args, **kwargs):
        if _session is not None:
            if args and type(args[0]) in (list, tuple) and any("multiprocessing" in str(word) for word in args[0]):
                _session.lend_script()
            _session.before()
        return real(*args, **kwargs)

    return start


def _flushed(real):
    @functools.wraps(real)
    def _exit(status):
        """Exit to the system with specified status, without normal exit processing."""
        if _session is not None:
            _session.exiting()
        real(status)

    return _exit
