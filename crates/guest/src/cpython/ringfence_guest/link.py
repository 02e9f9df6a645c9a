"""The worker's end of its socket: whole frames out in order, frames in, each to whom it is for.

Answers to: all that sends or waits, from any thread, from a signal handler, under any event loop. Must not: start a
thread, tear a frame, or return where the host is gone or breaks the form; the process ends then.

One thread at a time reads, the one that waits and finds nobody reading; it hands every answer to whom it is for. An
event loop with calls under way watches the descriptor too, and reads where nobody else does.
"""

from __future__ import annotations

import _signal
import _thread
import builtins
import collections
import contextlib
import os
import select

from . import wire
from .wire import Broken, Reader

__builtins__ = dict(vars(builtins))

GONE, NO_FORM = 0, 70
"""How the process ends where the host is gone, and where it breaks the form."""

SYNCED, INBOX = "synced", "inbox"
"""What one can wait for beside the answer to a call."""

_MANY = 64 << 10
# A frame up to this size goes into the socket whole or not at all.
_WHOLE = 8 << 10
# Nobody waits longer without a look: another may have read what this one waits for.
_TICK = 0.5

_readv, _write, _end, _getpid = os.readv, os.write, os._exit, os.getpid
_dup2, _close = os.dup2, os.close
_me, _RLock, _new_lock = _thread.get_ident, _thread.RLock, _thread.allocate_lock
_select, _deque = select.select, collections.deque
_mask, _BLOCK, _SET = _signal.pthread_sigmask, _signal.SIG_BLOCK, _signal.SIG_SETMASK
_ALL = frozenset(_signal.valid_signals())


class Elsewhere(RuntimeError):
    """The process is a child of the session's: it has no host."""


class Link:
    """Frames on one socket."""

    def __init__(self) -> None:
        self.fd = -1
        self.alive = False
        self.serve_file_operation = None
        self._incoming = bytearray()
        self._room = bytearray(_MANY)
        self.holds_signals = False
        self._numbers = 0
        self._frames_since_sync = False
        self._inbox: collections.deque = _deque()
        self._fresh_locks()

    def begin(self, fd: int) -> None:
        """From here on it speaks on this descriptor."""
        self.fd = fd
        self.alive = True

    @contextlib.contextmanager
    def unheard(self):
        """Whatever is sent meanwhile is thrown away."""
        self._push = len
        yield
        del self._push
        self._frames_since_sync = False

    def move_to(self, fd: int) -> None:
        """From here on its descriptor is another socket's, which nothing that was forked before has."""
        _dup2(fd, self.fd, False)
        _close(fd)

    def begin_anew(self, fd: int) -> None:
        """In a branch: nothing that was under way is."""
        self._incoming.clear()
        self._inbox.clear()
        self._frames_since_sync = False
        self.begin(fd)

    def _fresh_locks(self) -> None:
        self._sending = _RLock()
        self._change = _RLock()
        self._sleepers: list = []
        self._reader = None
        self._arrived: dict = {}
        self._awaited: set = set()
        self._over: set = set()
        self._wanted: dict = {}
        self._syncs = self._synced = 0

    def leave(self) -> None:
        """In a forked child: the socket is the parent's alone."""
        self.alive = False
        self._fresh_locks()
        # Once only: in a child of this child the number is another file's.
        fd, self.fd = self.fd, -1
        try:
            os.close(fd)
        except OSError:
            pass

    # --- out ---

    def send(self, frame: bytes) -> None:
        """Sends one frame whole."""
        if not self.alive:
            raise Elsewhere("only the session's first process can speak to the host")
        # A signal handler of this thread may send too: it comes before or after this frame, never inside.
        with self._sending:
            self._push(frame)

    def end(self, frame: bytes) -> None:
        """Sends the last frame of a snippet, with which the host forgets what it did not answer."""
        with self._sending:
            self.send(frame)
            with self._change:
                self._over = {key for key in self._awaited if type(key) is int and key not in self._arrived}

    def _push(self, frame: bytes) -> None:
        self._frames_since_sync = True
        try:
            if len(frame) <= _WHOLE:
                sent = _write(self.fd, frame)
                if sent == len(frame):
                    return
                frame = frame[sent:]
            self._push_pieces(memoryview(frame))
        except OSError:
            _end(GONE)

    def _push_pieces(self, rest: memoryview) -> None:
        """A large frame, which a signal handler that raises must not tear."""
        held = _mask(_BLOCK, ())
        try:
            _mask(_BLOCK, _ALL)
            while rest:
                rest = rest[_write(self.fd, rest) :]
        finally:
            _mask(_SET, held)

    def hold_signals(self):
        """In the main thread, which is the only one that signal handlers run in: none does from here on. What was let
        through before."""
        allowed = _mask(_BLOCK, _ALL)
        self.holds_signals = True
        return allowed

    def let_signals(self, allowed) -> None:
        """Lets them run again."""
        self.holds_signals = False
        _mask(_SET, allowed)

    def settle(self) -> None:
        """Between two snippets: what an exception interrupted is over."""
        if self._reader == _me():
            self._reader = None
        self._wanted.clear()
        with self._change:
            # A thread of the program's may still be about to take its own.
            self._arrived = {key: body for key, body in self._arrived.items() if key in self._awaited}

    # --- in ---

    def next_number(self) -> int:
        """The number of a new call."""
        with self._change:
            self._numbers += 1
            return self._numbers

    def expect(self, number: int, deliver) -> None:
        """Answers to this call go to `deliver`, which any thread may call, instead of to who waits."""
        self._wanted[number] = deliver

    def forget(self, number: int) -> None:
        """Nobody wants the answer to this call any more."""
        self._wanted.pop(number, None)

    def sync(self) -> None:
        """Waits until the host has handled all that was sent."""
        if not self.alive or not self._frames_since_sync:
            return
        with self._change:
            self._syncs += 1
            key = SYNCED, self._syncs
        self.send(wire.frame(wire.SYNC))
        self.wait_for(key)
        self._frames_since_sync = False

    def next_frame(self):
        """The next frame that is not the answer to something: its kind and its body."""
        while not self._inbox:
            self.wait_for(INBOX)
        return self._inbox.popleft()

    def wait_for(self, key):
        """Waits for the answer to a call (its body, to be read at byte 8), or for another key."""
        self._awaited.add(key)
        try:
            return self._waited_for(key)
        finally:
            self._awaited.discard(key)

    def _waited_for(self, key):
        while True:
            with self._change:
                if key in self._arrived:
                    return self._arrived.pop(key)
                if key in self._over:
                    break
                if key is INBOX and self._inbox:
                    return None
                reader = self._reader
                sleeper = None
                if reader is not None and reader != _me():
                    sleeper = _new_lock()
                    sleeper.acquire()
                    self._sleepers.append(sleeper)
                else:
                    self._reader = _me()
            if sleeper is not None:
                # The one who reads wakes the others when it stops.
                sleeper.acquire(True, _TICK)
                continue
            try:
                # An idle session sleeps until there is something for it.
                if _select((self.fd,), (), (), None if key is INBOX else _TICK)[0]:
                    self._look()
            finally:
                self._stop_reading(reader)
        raise RuntimeError("the snippet in which the host function was called is over")

    def read_now(self) -> None:
        """Takes in what there is, where nobody else does."""
        with self._change:
            reader = self._reader
            if reader is not None and reader != _me():
                return
            self._reader = _me()
        try:
            self._look()
        finally:
            self._stop_reading(reader)

    def _stop_reading(self, before) -> None:
        """`before`: this thread may be in a signal handler that interrupted its own reading."""
        with self._change:
            self._reader = before
            sleepers, self._sleepers = self._sleepers, []
            for sleeper in sleepers:
                sleeper.release()

    def _look(self) -> None:
        """There is something, or there was: a signal handler may have read what woke this thread."""
        if self.holds_signals:
            self._read_some()
            return
        # What was read must not be lost to a signal handler that raises.
        held = _mask(_BLOCK, ())
        try:
            _mask(_BLOCK, _ALL)
            if _select((self.fd,), (), (), 0)[0]:
                self._read_some()
        finally:
            _mask(_SET, held)

    def _read_some(self) -> None:
        try:
            count = _readv(self.fd, (self._room,)) or _end(GONE)
        except OSError:
            _end(GONE)
        self.take_in(memoryview(self._room)[:count])

    def take_in(self, data) -> None:
        """These bytes came from the host."""
        self._incoming += data
        incoming = self._incoming
        while len(incoming) >= wire.HEADER:
            length, kind = wire.parse_head(incoming)
            if length > wire.GIVEN_CAPS.get(kind, -1):
                _end(NO_FORM)
            end = wire.HEADER + length
            if len(incoming) < end:
                return
            body = bytes(memoryview(incoming)[wire.HEADER : end])
            del incoming[:end]
            self._dispatch(kind, body)

    def _dispatch(self, kind: int, body: bytes) -> None:
        if kind == wire.ANSWER:
            if len(body) < 9:
                _end(NO_FORM)
            number = Reader(body).u64()
            deliver = self._wanted.pop(number, None)
            if deliver is not None:
                deliver(body)
            else:
                self._arrived[number] = body
        elif kind == wire.SYNCED:
            self._synced += 1
            self._arrived[SYNCED, self._synced] = None
        elif kind == wire.FILES:
            try:
                self.send(self.serve_file_operation(body))
            except Broken:
                _end(NO_FORM)
        elif kind == wire.SNAPSHOT:
            self.send(wire.frame(wire.UNSUPPORTED, wire.text("a snapshot") + wire.optional(None)))
        else:
            self._inbox.append((kind, body))
