"""What modules want done around a fork, kept back until the fork that it is meant for.

A zygote forks for each session, and Python would run every function that was given to `os.register_at_fork` then. Those
of its own modules make locks anew that nobody can hold where there is one thread, and write to a hundred pages of memory
for it. What other modules want is done as Python does it.

Answers to: the zygote, before it imports anything else, and a session, which gives the functions back to Python. Must
not: leave out what makes two processes differ, such as the seed of `random`.
"""

from __future__ import annotations

import os
import posix
import sys

_NEEDLESS = (
    "threading",
    "logging",
    "concurrent.futures.thread",
    "ringfence_guest.processes",
    "ringfence_guest.branches",
)


class Kept:
    """The functions that modules registered since this was made."""

    def __init__(self) -> None:
        self._all: list = []
        self._wanted: list = []
        self._real = os.register_at_fork
        os.register_at_fork = posix.register_at_fork = self._keep

    def _keep(self, **functions) -> None:
        self._all.append(functions)
        if sys._getframe(1).f_globals.get("__name__") not in _NEEDLESS:
            self._wanted.append(functions)

    def fork(self) -> int:
        """As `os.fork`."""
        self._run("before", reversed(self._wanted))
        pid = os.fork()
        self._run("after_in_parent" if pid else "after_in_child", self._wanted)
        return pid

    @staticmethod
    def _run(when: str, wanted) -> None:
        for functions in wanted:
            function = functions.get(when)
            if function is not None:
                try:
                    function()
                except Exception:  # noqa: S112 - as Python does, which only prints it
                    continue

    def give_back(self) -> None:
        """In a session: from here on Python does all of it, for what the session forks."""
        os.register_at_fork = posix.register_at_fork = self._real
        for functions in self._all:
            self._real(**functions)
