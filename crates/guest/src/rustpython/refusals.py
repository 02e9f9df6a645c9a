"""What a session does not have: its names exist where programs look for them, and say so when used.

Answers to: programs that try. Must not: be relied on for safety; the kernel's filter stands below it.
"""

import sys
import types


class _Absent(types.ModuleType):
    """A module that the standard library wants to import but that is not here."""

    __all__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (OSError,) if name in ("error", "timeout", "gaierror", "herror") else (), {})
        setattr(self, name, made)
        return made


_ABSENT = ("socket", "selectors", "select", "subprocess")


def lend():
    """Puts stand-ins where `asyncio` imports what it will not use."""
    for name in _ABSENT:
        sys.modules[name] = _Absent(name)


def take_back():
    """Removes the stand-ins, so that a program that wants the real thing is told that there is none."""
    for name in (*_ABSENT, "asyncio.subprocess"):
        sys.modules.pop(name, None)
    vars(sys.modules["asyncio"]).pop("subprocess", None)


def _refused(module, name):
    def refuse(*args, **kwargs):
        raise PermissionError(1, f"{module}.{name} is not available in a sandboxed session")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


_REFUSED = {
    "signal": "signal alarm setitimer pause raise_signal pthread_kill pthread_sigmask sigwait sigwaitinfo "
    "sigtimedwait siginterrupt set_wakeup_fd pidfd_send_signal sigpending",
    "_signal": "signal alarm setitimer pause raise_signal pthread_kill pthread_sigmask sigwait sigwaitinfo "
    "sigtimedwait siginterrupt set_wakeup_fd pidfd_send_signal sigpending",
}


def _breakpoint(*args, **kwargs):
    raise RuntimeError("breakpoint() is not available in a sandboxed session")


def _help(thing=None, *args):
    """Prints what `help` would show, without a pager."""
    import pydoc

    print(pydoc.plain(pydoc.render_doc(thing, "Help on %s")) if thing is not None else "help() is not interactive here")


def _sleep(seconds, /):
    import _ringfence

    seconds = float(seconds)
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    if seconds != seconds:
        raise ValueError("Invalid value NaN (not a number)")
    _ringfence.sleep(seconds)


def _patch_locks():
    """Locks for one thread: to wait for one that is taken would be to wait forever."""
    import _thread

    def acquire(self, blocking=True, timeout=-1):
        if not self.locked_status:
            self.locked_status = True
            return True
        if blocking and timeout < 0:
            raise RuntimeError("deadlock: a session has one thread, and it would wait for itself")
        if blocking and timeout > 0:
            _sleep(timeout)
        return False

    def save(self):
        count, self.locked_count = self.locked_count, 0
        return count

    def restore(self, count):
        self.locked_count = count

    _thread.LockType.acquire = _thread.LockType.__enter__ = acquire
    _thread.RLock._release_save, _thread.RLock._acquire_restore = save, restore
    _thread.RLock._is_owned = _thread.RLock.locked
    _thread.RLock._recursion_count = lambda self: self.locked_count
    _thread.RLock._at_fork_reinit = save


_get_limit, _set_limit = sys.getrecursionlimit, sys.setrecursionlimit
MOST_FRAMES = 5000


def _patch_threads():
    """Threads run where they are started; one that is meant to go on beside the program can't."""
    import threading

    start = threading.Thread.start

    def start_here(self):
        if self.daemon:
            raise RuntimeError("can't start new thread")
        start(self)

    threading.Thread.start = start_here


def _setrecursionlimit(limit, /):
    """Set the maximum depth, up to what the native stack can hold."""
    _set_limit(min(limit, MOST_FRAMES))


def install():
    """Once, while the interpreter is warmed."""
    import builtins
    import time

    _patch_locks()
    _patch_threads()
    for module, names in _REFUSED.items():
        for name in names.split():
            if hasattr(sys.modules[module], name):
                setattr(sys.modules[module], name, _refused(module.lstrip("_"), name))
    sys.breakpointhook = sys.__breakpointhook__ = _breakpoint
    builtins.breakpoint = _breakpoint
    builtins.help = _help
    sys.setrecursionlimit = _setrecursionlimit
    _sleep.__name__ = _sleep.__qualname__ = "sleep"
    _sleep.__module__ = "time"
    time.sleep = _sleep
    sys.argv = ["main.py"]
    sys.executable = sys._base_executable = ""
    sys.path[:] = []
