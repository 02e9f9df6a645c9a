"""Who waits for frames: a thread, a task of an event loop, or nobody any more.

Answers to: `connection`, which delivers; each request has one waiter.
Must not: block in `deliver` or `fail`: whoever reads the pipe calls them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from .errors import RingfenceError

Frame = dict[str, Any]
MakeError = Callable[[], RingfenceError]


class ThreadWaiter:
    """A thread, with the frames that it has not taken yet. Guarded by the connection's lock."""

    def __init__(self) -> None:
        self.inbox: deque[Frame | MakeError] = deque()
        self.sleep = threading.Lock()
        self.sleep.acquire()

    def deliver(self, frame: Frame) -> None:
        """Adds a frame; the connection wakes the thread."""
        self.inbox.append(frame)

    def fail(self, error: MakeError) -> None:
        """Adds an error after all frames that came before it."""
        self.inbox.append(error)


class TaskWaiter:
    """A task of an event loop. Frames are handled in the loop's thread, in order."""

    def __init__(self, handler: Callable[[Frame], None] | None) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Frame] = self.loop.create_future()
        self._handler = handler
        self._thread = threading.get_ident()
        self._context = contextvars.copy_context()

    def deliver(self, frame: Frame) -> None:
        """Hands the frame to the loop."""
        self._soon(self._take, frame)

    def fail(self, error: MakeError) -> None:
        """Fails the request."""
        self._soon(self._fail, error)

    def _soon(self, act: Callable[[Any], None], argument: Any) -> None:
        if threading.get_ident() == self._thread:
            self.loop.call_soon(act, argument, context=self._context)
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
            self.loop.call_soon_threadsafe(act, argument, context=self._context)

    def _take(self, frame: Frame) -> None:
        if self.future.done():
            return
        if "id" in frame:
            self.future.set_result(frame)
        elif self._handler is not None:
            try:
                self._handler(frame)
            except Exception as error:  # a callback of the user's: its error ends the run
                self.future.set_exception(error)

    def _fail(self, error: MakeError) -> None:
        if not self.future.done():
            self.future.set_exception(error())


class NobodyWaits:
    """Takes the place of a waiter that gave up: sessions that were opened for it are closed."""

    def __init__(self, abandon: Callable[[str], None]) -> None:
        self._abandon = abandon

    def deliver(self, frame: Frame) -> None:
        """Closes the sessions that the late answer names."""
        result = frame.get("result")
        if isinstance(result, dict):
            for session in [result.get("session"), *(result.get("sessions") or ())]:
                if isinstance(session, str):
                    self._abandon(session)

    def fail(self, error: MakeError) -> None:
        """Nobody is left to be told."""


Waiter = ThreadWaiter | TaskWaiter | NobodyWaits
