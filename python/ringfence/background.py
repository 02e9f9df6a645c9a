"""An event loop in a thread of its own, for async host functions of the sync API and of `exports`.

Answers to: `sandbox` and `exports`.
Must not: be started where no async function is called.
"""

from __future__ import annotations

import asyncio
import os
import threading

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop, started at first use. Its thread ends with the process."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="ringfence-async", daemon=True).start()
        return _loop


def _forget() -> None:
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
