"""One connection to an engine, shared by threads and event loops.

Answers to: the sandboxes. There is no reading thread: whoever waits first reads, hands
frames to the others, and passes the reading on when it has its own (leader and followers).
An event loop with requests under way reads too, when the pipe is readable and nobody reads.
Must not: run a host function or a callback while it holds a lock or the reading.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .errors import Crashed, ProtocolError, RingfenceError, error_from
from .frames import Splitter, pack
from .transport import Transport
from .waiters import Frame, MakeError, NobodyWaits, TaskWaiter, ThreadWaiter, Waiter

VERSION = 1
"""The version of the protocol that this package speaks."""

HELLO_SECONDS = 10.0
_CHECK_BINARY = "check that it is the `ringfence` executable"
_CHUNK = 1 << 16
_WRITE_POLL_MS = 50

Handler = Callable[[Frame], None]


class Connection:
    """Requests out, answers and calls in. Every method may be called from any thread."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._numbers = itertools.count(1)
        self._splitter = Splitter()
        self._chunks: deque[bytes] = deque()
        self._outbox: deque[bytes] = deque()
        self._unsent = memoryview(b"")
        self._abandoned: deque[str] = deque()
        self._error: MakeError | None = None
        self._reading = False
        self._closed = False
        self._greeted = False
        self._poll = select.poll()  # used by whoever holds the reading
        self._poll.register(transport.read_fd, select.POLLIN)
        self._reset_locks()
        self._say_hello()

    def _reset_locks(self) -> None:
        self._lock = threading.Lock()  # guards the tables below and the reading
        self._writing = threading.Lock()
        self._pending: dict[int, Waiter] = {}
        self._runners: dict[str, list[Waiter]] = {}
        self._followers: dict[ThreadWaiter, None] = {}
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}

    @property
    def alive(self) -> bool:
        """Whether requests can still be made."""
        return self._error is None

    # Requests

    def request(
        self, method: str, params: dict[str, Any], handler: Handler | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """Sends a request and waits in this thread; `handler` gets the session's calls and events."""
        waiter = ThreadWaiter()
        number = self._register(waiter, session)
        try:
            self._send_request(number, method, params)
            while True:
                frame = self._next(waiter)
                if "id" in frame:
                    return _result(frame)
                if handler is not None:
                    handler(frame)
        finally:
            self._unregister(number, waiter, session)
            self._pass_on()

    async def request_async(
        self, method: str, params: dict[str, Any], handler: Handler | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """The same for a task: the event loop goes on meanwhile."""
        waiter = TaskWaiter(handler)
        number = self._register(waiter, session)
        try:
            self._attach(waiter.loop)
            try:
                self._send_request(number, method, params)
                return _result(await waiter.future)
            finally:
                self._detach(waiter.loop)
        finally:
            self._unregister(number, waiter, session)

    def post(self, method: str, params: dict[str, Any]) -> None:
        """Sends a request whose answer nobody waits for."""
        if self._error is None:
            number = self._register(NobodyWaits(self.abandon), None)
            self._send_request(number, method, params)

    def answer(self, number: int, body: dict[str, Any]) -> None:
        """Answers a call of the engine's. An answer that can't be sent becomes an error that can."""
        try:
            frame = pack({"answer": number, **body})
        except TypeError as error:
            frame = pack({"answer": number, "error": {"type": "TypeError", "message": str(error)}})
        self._send(frame)

    def abandon(self, session: str) -> None:
        """Closes a session at the next opportunity. Safe where nothing may block, as in `__del__`."""
        self._abandoned.append(session)

    def _register(self, waiter: Waiter, session: str | None) -> int:
        number = next(self._numbers)
        with self._lock:
            if self._error is not None:
                raise self._error()
            self._pending[number] = waiter
            if session is not None:
                self._runners.setdefault(session, []).append(waiter)
        return number

    def _unregister(self, number: int, waiter: Waiter, session: str | None) -> None:
        with self._lock:
            if self._pending.get(number) is waiter:
                self._pending[number] = NobodyWaits(self.abandon)
            if session is not None:
                runners = self._runners.get(session, [])
                if waiter in runners:
                    runners.remove(waiter)
                if not runners:
                    self._runners.pop(session, None)

    def _send_request(self, number: int, method: str, params: dict[str, Any]) -> None:
        while self._abandoned:
            close = {
                "id": next(self._numbers),
                "method": "close",
                "params": {"session": self._abandoned.popleft()},
            }
            self._outbox.append(pack(close))
        self._send(pack({"id": number, "method": method, "params": params}))

    # Reading

    def _next(self, waiter: ThreadWaiter) -> Frame:
        """The waiter's next frame: from its inbox, by reading, or by sleeping until someone has read it."""
        while True:
            with self._lock:
                if waiter.inbox:
                    item = waiter.inbox.popleft()
                    if callable(item):
                        raise item()
                    return item
                if self._error is not None:
                    raise self._error()
                lead = not self._reading
                if lead:
                    self._reading = True
                else:
                    self._followers[waiter] = None
            if lead:
                self._lead(waiter)
            else:
                self._follow(waiter)

    def _lead(self, waiter: ThreadWaiter) -> None:
        try:
            while not waiter.inbox and self._error is None:
                self._read_some()
        finally:
            self._stop_reading()
            self._flush()

    def _follow(self, waiter: ThreadWaiter) -> None:
        try:
            waiter.sleep.acquire()
        finally:
            with self._lock:
                self._followers.pop(waiter, None)

    def _stop_reading(self) -> None:
        self._reading = False
        self._pass_on()
        self._close_if_done()

    def _pass_on(self) -> None:
        """Wakes one follower where nobody reads, so that it takes the reading over."""
        with self._lock:
            if not self._reading and self._followers:
                self._wake(next(iter(self._followers)))

    def _wake(self, waiter: ThreadWaiter) -> None:
        # INVARIANT: the lock is held, and each entry among the followers is woken once.
        if waiter in self._followers:
            del self._followers[waiter]
            waiter.sleep.release()

    def _read_some(self) -> None:
        """Reads once and delivers every whole frame. The caller holds the reading."""
        parsing = False
        try:
            # One call, so that no signal handler can run between reading bytes and keeping them.
            self._chunks.extend(map(os.read, (self._transport.read_fd,), (_CHUNK,)))
            parsing = True
            while self._chunks:
                chunk = self._chunks.popleft()
                if not chunk:
                    self._fail_with_epitaph()
                    return
                self._splitter.feed(chunk)
                while (frame := self._splitter.next()) is not None:
                    self._dispatch(frame)
        except OSError:
            self._fail_with_epitaph()
        except ProtocolError as error:
            message = f"{self._transport.name} sent {error.message}"
            hint = None if self._greeted else _CHECK_BINARY
            self.fail(lambda: ProtocolError(message, hint))
        except BaseException:
            if parsing:
                self.fail(lambda: ProtocolError("the connection was interrupted in the middle of a frame"))
            raise

    def _dispatch(self, frame: Frame) -> None:
        number, session = frame.get("id"), frame.get("session")
        with self._lock:
            waiter: Waiter | None = None
            if type(number) is int:
                waiter = self._pending.pop(number, None)
            elif isinstance(session, str):
                runners = self._runners.get(session)
                waiter = runners[0] if runners else None
            if isinstance(waiter, ThreadWaiter):
                waiter.deliver(frame)
                self._wake(waiter)
                return
        if waiter is not None:
            waiter.deliver(frame)
        else:
            self._refuse(frame)

    def _refuse(self, frame: Frame) -> None:
        """Answers a call that no run of its session waits for, or takes in why the engine gives up."""
        if type(frame.get("call")) is int:
            why = {"type": "RuntimeError", "message": "no run of this session is waiting"}
            self._outbox.append(pack({"answer": frame["call"], "error": why}))
        elif type(frame.get("approve")) is int:
            self._outbox.append(pack({"answer": frame["approve"], "value": False}))
        elif frame.get("id", 0) is None and isinstance(frame.get("error"), dict):
            said = f"{self._transport.name} ended the connection: {frame['error'].get('message')}"
            self.fail(lambda: ProtocolError(said))
        elif "id" not in frame and "event" not in frame:
            raise ProtocolError("a frame that is neither an answer, a call nor an event")

    # Event loops

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._error is not None:
                raise self._error()
            count = self._loops.get(loop, 0)
            self._loops[loop] = count + 1
        if count == 0:
            loop.add_reader(self._transport.read_fd, self._on_readable)

    def _detach(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            count = self._loops.get(loop, 1) - 1
            if count > 0:
                self._loops[loop] = count
        if count <= 0:
            # INVARIANT: the loop lets go of the descriptor before it can be closed.
            loop.remove_reader(self._transport.read_fd)
            with self._lock:
                self._loops.pop(loop, None)
            self._close_if_done()

    def _on_readable(self) -> None:
        with self._lock:
            if self._reading or self._error is not None:
                return
            self._reading = True
        try:
            if self._poll.poll(0):
                self._read_some()
        finally:
            self._stop_reading()
        self._flush()

    # Writing

    def _send(self, frame: bytes) -> None:
        self._outbox.append(frame)
        self._flush()

    def _flush(self) -> None:
        """Writes what is due, unless another thread is writing: then that one does."""
        while (self._outbox or self._unsent) and self._error is None:
            if not self._writing.acquire(blocking=False):
                return
            try:
                while (self._outbox or self._unsent) and self._error is None:
                    if not self._unsent:
                        self._unsent = memoryview(self._outbox.popleft())
                    self._write_some()
            except OSError:
                self._fail_with_epitaph()
            finally:
                self._writing.release()

    def _write_some(self) -> None:
        try:
            self._unsent = self._unsent[self._transport.write(self._unsent) :]
        except BlockingIOError:
            self._read_until_writable()

    def _read_until_writable(self) -> None:
        """Waits for room in the pipe, and reads meanwhile: the other end may be waiting for that."""
        with self._lock:
            lead = not self._reading
            self._reading = True
        try:
            poll = select.poll()
            poll.register(self._transport.write_fd, select.POLLOUT)
            if lead:
                same = self._transport.read_fd == self._transport.write_fd
                poll.register(self._transport.read_fd, select.POLLIN | (select.POLLOUT if same else 0))
            for fd, event in poll.poll(_WRITE_POLL_MS):
                if lead and fd == self._transport.read_fd and event & ~select.POLLOUT:
                    self._read_some()
        finally:
            if lead:
                self._stop_reading()

    # Beginning and end

    def _say_hello(self) -> None:
        self._outbox.append(pack({"id": 0, "method": "hello", "params": {"version": VERSION}}))
        waiter = ThreadWaiter()
        self._pending[0] = waiter
        self._flush()
        deadline = time.monotonic() + HELLO_SECONDS
        try:
            while not waiter.inbox:
                left = deadline - time.monotonic()
                if left <= 0 or not self._poll.poll(left * 1000):
                    raise ProtocolError(
                        f"{self._transport.name} did not say hello in {HELLO_SECONDS:.0f} s",
                        _CHECK_BINARY,
                    )
                self._read_some()
            hello = _result(self._next(waiter))
            if hello.get("version") != VERSION:
                theirs = hello.get("version")
                raise ProtocolError(
                    f"{self._transport.name} speaks version {theirs} of the protocol, this package {VERSION}",
                    "install a package and an executable of the same release",
                )
            self._greeted = True
        except BaseException:
            self.fail(lambda: ProtocolError("the connection was never made"))
            self._close_if_done()
            raise

    def _fail_with_epitaph(self) -> None:
        inside = " in the middle of a frame" if self._splitter.inside else ""
        epitaph = self._transport.epitaph() + inside
        hint = "what it held is lost; a new sandbox starts it again" if self._greeted else _CHECK_BINARY
        self.fail(lambda: Crashed(epitaph, hint))

    def fail(self, error: MakeError) -> None:
        """Ends the connection: everyone who waits, and whoever comes later, gets the error."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            waiters = list(self._pending.values())
            self._pending.clear()
            self._runners.clear()
            for waiter in waiters:
                if isinstance(waiter, ThreadWaiter):
                    waiter.fail(error)
                    self._wake(waiter)
        self._transport.stop()
        for waiter in waiters:
            if not isinstance(waiter, ThreadWaiter):
                waiter.fail(error)

    def close(self) -> None:
        """Ends the connection and the process behind it."""
        with self._lock:
            orderly = self._error is None and not self._reading and not self._loops
        if orderly:
            self._error = _closed
            self._close_if_done()
        else:
            self.fail(_closed)
            self._close_if_done()

    def _close_if_done(self) -> None:
        """Closes the descriptors once nobody can be using them."""
        with self._lock:
            if self._error is None or self._reading or self._loops or self._closed:
                return
            self._closed = True
        self._transport.close()

    def forget(self) -> None:
        """In a forked child: the connection stays the parent's alone."""
        self._error = _not_ours
        self._closed = True
        self._reset_locks()
        self._transport.forget()


def _closed() -> RingfenceError:
    return Crashed("the connection to the engine is closed", "open a new sandbox")


def _not_ours() -> RingfenceError:
    return Crashed("this sandbox belongs to the parent process", "open a new one after the fork")


def _result(frame: Frame) -> dict[str, Any]:
    error = frame.get("error")
    if isinstance(error, dict):
        hint = error.get("hint")
        raise error_from(
            str(error.get("code", "internal")),
            str(error.get("message") or "the engine gave no reason"),
            hint if isinstance(hint, str) else None,
        )
    result = frame.get("result")
    if not isinstance(result, dict):
        raise ProtocolError("the engine sent an answer with neither result nor error")
    return result
