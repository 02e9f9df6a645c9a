"""The two ways to a `ringfence` engine: a child process over its pipes, or a unix socket.

Answers to: `connection`.
Must not: know anything about frames, or decide when to read.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from .errors import BinaryNotFound, RequestError, RingfenceError

STOP_SECONDS = 2.0
"""How long a process that was told to end may take before it is killed."""

EPITAPH_SECONDS = 0.5
"""How long to wait for the exit code of a process that closed its output."""


class ProcessTransport:
    """`ringfence stdio` as a child: it ends when its standard input does, so with this process."""

    def __init__(self, binary: str) -> None:
        self.name = f"`{binary}`"
        try:
            # A session of its own: Ctrl-C in the terminal reaches this process alone, which
            # then cancels what it was waiting for.
            self._process = subprocess.Popen(
                [binary, "stdio"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise BinaryNotFound(
                f"`{binary}` could not be started: {why}", "check that it is built for this machine"
            ) from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self.read_fd = self._process.stdout.fileno()
        self.write_fd = self._process.stdin.fileno()
        os.set_blocking(self.write_fd, False)

    def write(self, data: memoryview) -> int:
        """Writes what fits now; `BlockingIOError` where nothing does."""
        return os.write(self.write_fd, data)

    def stop(self) -> None:
        """Ends it at once. The descriptors stay open: someone may be reading."""
        self._process.kill()

    def close(self) -> None:
        """Lets it end by itself, or kills it after a while, and closes the descriptors."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def forget(self) -> None:
        """In a forked child: lets go of the parent's process without touching it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.returncode = 0
        self._process.stdin.close()
        self._process.stdout.close()

    def epitaph(self) -> str:
        """How it ended, for a message."""
        try:
            code = self._process.wait(EPITAPH_SECONDS)
        except subprocess.TimeoutExpired:
            return f"{self.name} closed its output"
        if code < 0:
            return f"{self.name} was ended by signal {-code}"
        return f"{self.name} ended with exit code {code}"


class SocketTransport:
    """A connection to an engine that runs elsewhere on this machine."""

    def __init__(self, address: str) -> None:
        scheme, _, path = address.partition(":")
        if scheme != "unix" or not path:
            raise RequestError(f"`{address}` is not an address", "write it as `unix:/path/to/socket`")
        self.name = f"`{address}`"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(Path(path)))
        except OSError as error:
            self._socket.close()
            why = error.strerror or str(error)
            raise RingfenceError(f"no engine answers at `{address}`: {why}", "start one there") from None
        self.read_fd = self.write_fd = self._socket.fileno()

    def write(self, data: memoryview) -> int:
        """Sends what fits now; `BlockingIOError` where nothing does."""
        return self._socket.send(data, socket.MSG_DONTWAIT)

    def stop(self) -> None:
        """Ends the connection. The descriptor stays open: someone may be reading."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end was first

    def close(self) -> None:
        """Closes the descriptor."""
        self._socket.close()

    def forget(self) -> None:
        """In a forked child: lets go of the parent's connection without ending it."""
        self._socket.close()

    def epitaph(self) -> str:
        """How it ended, for a message."""
        return f"the engine at {self.name} closed the connection"


Transport = ProcessTransport | SocketTransport
