"""The connections of this Python process: one for each executable or address, shared by all sandboxes.

Answers to: the sandboxes. A connection is made at first use, made again after it died, ended
at exit, and never used by a forked child.
Must not: keep a connection that can't be used.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading

from .binary import find_binary
from .connection import Connection
from .transport import ProcessTransport, SocketTransport

_lock = threading.Lock()
_connections: dict[str, Connection] = {}


def connect(binary: str | os.PathLike[str] | None, address: str | None) -> Connection:
    """The connection to that executable or address; it is started where there is none."""
    key = _key(binary, address)
    connection = _connections.get(key)
    if connection is not None and connection.alive:
        return connection
    with _lock:
        connection = _connections.get(key)
        if connection is None or not connection.alive:
            transport = SocketTransport(address) if address else ProcessTransport(find_binary(binary))
            connection = _connections[key] = Connection(transport)
    return connection


async def connect_async(binary: str | os.PathLike[str] | None, address: str | None) -> Connection:
    """The same without holding up the event loop while a process starts."""
    connection = _connections.get(_key(binary, address))
    if connection is not None and connection.alive:
        return connection
    return await asyncio.to_thread(connect, binary, address)


def _key(binary: str | os.PathLike[str] | None, address: str | None) -> str:
    return address or os.fspath(binary or os.environ.get("RINGFENCE_BIN") or "")


def close_all() -> None:
    """Ends every connection and the processes behind them. Called at exit."""
    with _lock:
        connections = list(_connections.values())
        _connections.clear()
    for connection in connections:
        connection.close()


def _forget_all() -> None:
    global _lock
    _lock = threading.Lock()
    for connection in _connections.values():
        connection.forget()
    _connections.clear()


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
