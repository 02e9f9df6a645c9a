"""A session from its first frame to its end: what the zygote calls.

Answers to: the zygote, by `warm` before any fork, `reseed` right after one, and `serve` once the lock is on. Must
not: return from `serve`, or end by Python's own way out, which runs code of the program's.
"""

from __future__ import annotations

import builtins
import json
import os
import struct
import sys
import types

from . import branches, display, failure, files, functions, link, output, processes, runner, values, wire
from .wire import Broken, Reader

__builtins__ = dict(vars(builtins))

_BAD_FRAME, _BAD_VERSION, _FAULT = 70, 71, 72

_end, _loads = os._exit, json.loads
# Version, bytes of memory, bytes of the workspace, and how long the declarations are.
_SETUP = struct.Struct("<IQQI")

# What most programs import, or the driver itself when it is needed.
_IMPORTED = (
    "asyncio",
    "dataclasses",
    "datetime",
    "decimal",
    "importlib.util",
    "inspect",
    "linecache",
    "traceback",
    "uuid",
)

_prepared = None

_REHEARSAL = (
    "import sys\nx = [n * 2 for n in range(5)]\nclass A:\n    def f(self): return self\nA().f()\n{'k': (1, x, 2.5)}",
    "def f(n):\n    return 1 / n\nf(0)",
    "await f()",
    "1 +",
)


class _Nobody:
    """A link to no host, for the rehearsal."""

    alive = True

    def send(self, frame: bytes) -> None:
        """Sends nothing."""


def warm(declarations: str = "[]") -> None:
    """In the zygote, before any fork: what a first snippet would have to make is made, and shared by every session. So are
    the host functions that sessions are expected to have, as JSON."""
    import importlib

    for name in _IMPORTED:
        importlib.import_module(name)
    nobody = _Nobody()
    streams, snippets = output.Streams(nobody), failure.Snippets()
    main = types.ModuleType("__main__")
    stream = output.Output(streams.gather, 1, "<stdout>")
    for code in _REHEARSAL:
        _rehearse(code, snippets, streams, main)
        stream.write(code + "\n")
    function = {"name": "f", "parameters": [{"name": "a", "annotation": "int", "default": {"source": "1"}}]}
    functions._function(functions.Bridge(nobody, streams.flush), _loads(json.dumps(function)))
    Reader(wire.frame(wire.SETUP, wire.text("")), 5).text()
    failure.refresh()
    ssl = sys.modules.get("_ssl")
    if ssl is not None:
        # Making a generator takes long. What this one holds is no secret of a session's: `reseed` adds to it.
        ssl.RAND_bytes(1)
    global _prepared
    _prepared = _Prepared(declarations.encode())


class _Prepared:
    """A session without its socket, made before the fork."""

    def __init__(self, declarations: bytes) -> None:
        self.link = there = link.Link()
        streams = output.Streams(there)
        snippets = failure.Snippets()
        self.main = main = types.ModuleType("__main__")
        vars(main).update(__builtins__=builtins, __spec__=None, __annotations__={})
        self.bridge = functions.Bridge(there, streams.flush)
        self.display = display.Display(there, streams)
        self.processes = processes.Processes(there, streams, snippets)
        self.runner = runner.Runner(there, streams, self.bridge, self.display, self.processes, snippets, main)
        there.serve_file_operation = files.serve
        for name in ("exit", "quit"):
            if not hasattr(builtins, name):
                setattr(builtins, name, sys.exit)
        # Nothing of this speaks before the link does.
        streams.install()
        streams.begin("")
        streams.prepare()
        self.display.install()
        self.processes.install()
        self.branches = branches.Branches(there, self.runner, reseed)
        self.branches.install()
        sys.modules["__main__"] = main
        sys.argv = ["main.py"]
        self.declarations = b""
        self.declare(declarations)
        self.has_own_trust = bool(os.environ.get("SSL_CERT_FILE"))

    def declare(self, declarations: bytes) -> None:
        """Makes the host functions, where they are not those that are made."""
        if declarations != self.declarations:
            functions.declare(self.bridge, _loads(declarations), self.main)
            self.declarations = declarations

    def begin(self, fd: int, is_ahead: bool) -> None:
        """In the child: it speaks on this socket. `is_ahead`: nobody waits for it yet."""
        os.set_inheritable(fd, False)
        self.link.begin(fd)
        here = os.getcwd()
        if here not in sys.path:
            sys.path.insert(0, here)
        self.runner.begin()
        if is_ahead:
            self._rehearse()

    def set_up(self) -> None:
        """What the host's first frame tells."""
        kind, body = self.link.next_frame()
        if kind != wire.SETUP:
            raise Broken
        if self.has_own_trust:
            trust()
        try:
            self.declare(_declarations(body))
        except ValueError:
            raise Broken from None

    def serve_next(self) -> None:
        """Runs the next snippet, or makes branches."""
        try:
            kind, body = self.link.next_frame()
        except Broken:
            raise
        except (Exception, KeyboardInterrupt):
            return  # what a signal handler of the program's raises between two snippets
        if kind == wire.FORK:
            self.branches.make(body)
            return
        if kind != wire.FEED:
            raise Broken
        try:
            self.runner.feed(body)
        except Broken:
            raise
        except BaseException as error:
            # The program has broken what the driver stands on. The host hears of the snippet's end all the same.
            self.link.settle()
            self.link.end(failure.in_short(error))

    def _rehearse(self) -> None:
        """Takes in frames of its own and runs a snippet that nobody hears of. What it writes to is memory that is still
        the zygote's: each page of it is copied now, while nobody waits, and not when the first snippet is here."""
        code = wire.text("print()\n1 + 1") + wire.text("main.py") + wire.u32(0) + wire.text("") + b"\0\0"
        setup = _SETUP.pack(wire.VERSION, 0, 0, len(self.declarations)) + self.declarations
        with self.link.unheard():
            self.link.take_in(wire.frame(wire.SETUP, setup) + wire.frame(wire.FEED, code))
            self.set_up()
            self.serve_next()
        self.runner.forget()


def _rehearse(code: str, snippets, streams, main) -> None:
    try:
        program = runner.Program(code, "main.py")
    except SyntaxError as error:
        failure.not_compiled(error, code, "main.py")
        return
    snippets.add("main.py", code, program.codes)
    writer = values.Writer()
    try:
        for part in program.codes:
            if not program.awaits:
                writer.value("value", eval(part, vars(main)))  # noqa: S307 - code of our own
    except Exception as error:
        failure.told(error, snippets, streams)


def reseed() -> None:
    """In the child right after the fork: nothing random may be shared by two sessions."""
    loaded = sys.modules.get
    # `random` sees to itself at every fork.
    _reset(loaded("uuid"), {"_node": None, "_last_timestamp": None, "_last_timestamp_v7": None, "_last_counter_v7": 0})
    _reset(loaded("tempfile"), {"_name_sequence": None})
    if loaded("_ssl") is not None:
        loaded("_ssl").RAND_add(os.urandom(32), 32.0)
    # Only what is loaded: to name it is to import it.
    for name in ("numpy.random", "torch"):
        seed = getattr(loaded(name), "seed", None)
        if seed is not None:
            seed()
    _reseed_multiprocessing(loaded("multiprocessing.process"))


def _reset(module, names: dict) -> None:
    for name, value in names.items():
        if module is not None and hasattr(module, name):
            setattr(module, name, value)


def _reseed_multiprocessing(module) -> None:
    if module is not None:
        config = module.current_process()._config
        config["authkey"] = module.AuthenticationString(os.urandom(32))
        config.pop("tempdir", None)


def trust() -> None:
    """Once the session's certificates are there: what was imported before any session made its context without them."""
    file = os.environ.get("SSL_CERT_FILE")
    context = getattr(sys.modules.get("aiohttp.connector"), "_SSL_CONTEXT_VERIFIED", None)
    if file and context is not None:
        try:
            context.load_verify_locations(file)
        except OSError:
            return  # there are none: nobody is trusted


def serve(fd: int, is_ahead: bool = True) -> None:
    """Serves one session on the socket `fd`, for which nobody waits yet where `is_ahead`. Never returns: the process
    ends where the host is gone."""
    try:
        _serve(fd, is_ahead)
    except Broken:
        _end(_BAD_FRAME)
    except BaseException as error:
        os.write(2, f"ringfence_guest: {type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    _end(_FAULT)


def _serve(fd: int, is_ahead: bool) -> None:
    prepared = _prepared
    prepared.begin(fd, is_ahead)
    prepared.link.send(wire.frame(wire.READY, wire.u32(wire.VERSION)))
    prepared.set_up()
    while True:
        prepared.serve_next()


def _declarations(body: bytes) -> bytes:
    if len(body) < _SETUP.size:
        raise Broken
    version, _, _, length = _SETUP.unpack_from(body)
    if version != wire.VERSION:
        _end(_BAD_VERSION)
    declarations = body[_SETUP.size :]
    if len(declarations) != length:
        raise Broken
    return declarations
