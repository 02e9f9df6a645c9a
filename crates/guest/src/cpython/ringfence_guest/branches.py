"""Branches of a session: processes forked from its interpreter between two snippets, each with a host of its own.

Answers to: `session`, where the host asks. Must not: fork unasked, or let anything of the program's run in a branch
before the host has put its process where it belongs.
"""

from __future__ import annotations

import asyncio
import builtins
import ctypes
import fcntl
import os
import socket
import struct
import sys

from . import wire
from .wire import Reader, text

__builtins__ = dict(vars(builtins))

_SESSION, _OUT, _ERR = 3, 1, 2
_HIGH = 10

_MACHINE = os.uname().machine
_CLONE = {"x86_64": 56, "aarch64": 220}.get(_MACHINE)
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_MAKE_BLOCK = 1 << 11
_SOCKETS_AND_SIGNALS = 3
_FIRST_WITH_SIGNALS = 6
_ANY_CHILD = 0x40000000  # __WALL: also one that ends without a signal

# It keeps the interpreter's lock: there is no other thread.
_libc = ctypes.PyDLL(None, use_errno=True)
_call = _libc.syscall
_call.restype = ctypes.c_long

_fork, _end, _wait, _close = os.fork, os._exit, os.waitpid, os.close
_read, _write, _dup2, _setsid, _list = os.read, os.write, os.dup2, os.setsid, os.listdir
_code_of, _strerror, _errno = os.waitstatus_to_exitcode, os.strerror, ctypes.get_errno
_recv_fds, _CLOEXEC = socket.recv_fds, getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_Socket, _duplicate, _DUPLICATE = socket.socket, fcntl.fcntl, fcntl.F_DUPFD_CLOEXEC
_all_tasks, _modules = asyncio.all_tasks, sys.modules

_NO_FORM, _NO_BRANCH = 70, 71
_NO_ROOM = "no descriptor is left for its socket and pipes; close files, or raise `limits.open_files`"


def _refused(why: str) -> bytes:
    return wire.frame(wire.UNSUPPORTED, text(why) + wire.optional(None))


class Branches:
    """What the host asks for by one frame: so many processes that go on from here."""

    def __init__(self, link, runner, reseed) -> None:
        self._link = link
        self._runner = runner
        self._reseed = reseed
        self._given = None
        self._left: list = []

    def install(self) -> None:
        """Once, before any program: what this does in a child comes before what a program has registered."""
        os.register_at_fork(after_in_child=self._born)

    def make(self, body: bytes) -> None:
        """Makes them, one after another. It returns in the session and in each branch."""
        reader = Reader(body)
        count = reader.u32()
        reader.finish()
        there = self._link
        try:
            why = self._hindrance()
        except OSError:
            why = _NO_ROOM
        if why is not None:
            there.send(_refused(why))
            return
        for made in range(count):
            there.send(wire.frame(wire.BRANCHED, wire.u32(made)))
            given = self._take()
            try:
                if len(given) != 3:
                    there.send(_refused(_NO_ROOM))
                    return
                if self._branch(given):
                    return
            except OSError as error:
                there.send(_refused(f"a process can't be forked: {error.strerror}; `limits.processes` may be too low"))
                return
            finally:
                self._let_go(given)
        there.send(wire.frame(wire.BRANCHED, wire.u32(count)))
        self._part()

    def _hindrance(self) -> str | None:
        threads = len(_list("/proc/self/task"))
        if threads != 1:
            return f"it has {threads - 1} threads besides its first, which a fork would lose; let them end first"
        loop = self._runner._loop
        if loop is not None and not loop.is_closed() and _all_tasks(loop):
            return "tasks of its event loop are under way, which a fork would lose; await them first"
        return None if _CLONE else f"processors of the kind `{_MACHINE}` are not known to it"

    def _part(self) -> None:
        """Goes on by a socket that no branch has: a program may have kept the one before under another number. No branch
        has begun yet."""
        given = self._take()
        if len(given) != 1:
            _end(_NO_FORM)
        self._link.move_to(given[0])

    def _take(self) -> list:
        """A branch's socket and its two pipes, or this session's next socket: one byte of the host's, with descriptors."""
        there = _Socket(fileno=self._link.fd)
        try:
            said, given, _, _ = _recv_fds(there, 1, 3, _CLOEXEC)
        except OSError:
            _end(0)
        finally:
            there.detach()
        if not said:
            _end(0)
        return given

    @staticmethod
    def _let_go(given: list) -> None:
        while given:
            _close(given.pop())

    def _branch(self, given: list) -> bool:
        """Whether this is the branch. A process between the session and the branch ends at once, so that the branch is
        nobody's child here, and nobody has to wait for it. It ends without a signal."""
        between = _call(_CLONE, 0, 0, 0, 0, 0)
        if between < 0:
            number = _errno()
            raise OSError(number, _strerror(number))
        if between > 0:
            code = _code_of(_wait(between, _ANY_CHILD)[1])
            if code:
                raise OSError(code, _strerror(code))
            return False
        try:
            self._link.alive = False
            self._given = given
            if _fork() == 0:
                return True
        except OSError as error:
            _end(error.errno or _NO_BRANCH)
        _end(0)

    def _born(self) -> None:
        """In every child of the session's, first of all: where it is a branch, it becomes one."""
        given = self._given
        if given is None:
            return
        try:
            self._begin(given)
        except BaseException as error:
            self._tell(f"a branch can't begin: {error}")
            _end(_NO_BRANCH)

    def _tell(self, why: str) -> None:
        try:
            _write(_SESSION, _refused(why))
        except OSError:
            return

    def _begin(self, given: list) -> None:
        # The numbers may be taken by one another: first out of the way, then into place.
        high = [_duplicate(number, _DUPLICATE, _HIGH) for number in given]
        self._let_go(given)
        for number, at in zip(high, (_SESSION, _OUT, _ERR)):
            _dup2(number, at, at != _SESSION)
            _close(number)
        self._given = None
        _setsid()
        _own_domain()
        _write(_SESSION, wire.frame(wire.READY, wire.u32(wire.VERSION)))
        self._wait_for_leave()
        self._link.begin_anew(_SESSION)
        self._forget_the_session()
        self._reseed()

    @staticmethod
    def _wait_for_leave() -> None:
        """The host puts this process where it is bounded, or lets go."""
        want, said = wire.frame(wire.SYNCED), b""
        while len(said) < len(want):
            more = _read(_SESSION, len(want) - len(said))
            if not more:
                _end(0)
            said += more
        if said != want:
            _end(_NO_FORM)

    def _forget_the_session(self) -> None:
        """What belongs to the process that this one came from."""
        # Its loop watches by a descriptor that both have: closing it here would take from there.
        self._left.append(self._runner._loop)
        self._runner._loop = None
        asyncio.set_event_loop(None)
        children = getattr(_modules.get("multiprocessing.process"), "_children", None)
        if isinstance(children, set):
            children.clear()


def _own_domain() -> None:
    """From here on this process and what comes from it can't signal, trace or read other branches and the session that
    it came from, as far as this kernel's Landlock knows that. What is denied besides was denied before."""
    version = _call(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    scoped = _SOCKETS_AND_SIGNALS if version >= _FIRST_WITH_SIGNALS else 0
    fields = struct.pack("=QQQ", _MAKE_BLOCK, 0, scoped)
    size = 24 if version >= _FIRST_WITH_SIGNALS else 8
    made = _call(_CREATE_RULESET, fields, ctypes.c_size_t(size), 0)
    if made < 0 or _call(_RESTRICT_SELF, made, 0) < 0:
        number = _errno()
        raise OSError(number, f"it was forked too often in a row ({_strerror(number)})")
    _close(made)
