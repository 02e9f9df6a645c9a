"""Runs snippets: the last expression's value, top-level `await`, and what follows the end of each.

Answers to: `session`. Must not: leave output unsent at a snippet's end, or die of what a program did to `sys`.
"""

from __future__ import annotations
import __future__

import _thread
import ast
import asyncio
import atexit
import builtins
import io
import linecache
import os
import sys
import threading

from . import failure, values, wire
from .wire import Reader, text

__builtins__ = dict(vars(builtins))

_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_ONLY_AST = ast.PyCF_ONLY_AST
_COROUTINE = 0x80
_FUTURES = 0
for _feature in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _feature).compiler_flag
_RECURSION = 1000
_SHORT = 200

VALUE = "__ringfence_value__"
"""What the last expression is called for a moment, where it is awaited with the rest."""

_Assign, _Name, _Store, _fix, _copy = ast.Assign, ast.Name, ast.Store, ast.fix_missing_locations, ast.copy_location
_compile, _eval, _Expr, _Expression = compile, eval, ast.Expr, ast.Expression
_settrace, _gettrace, _setprofile, _getprofile = sys.settrace, sys.gettrace, sys.setprofile, sys.getprofile
_get_limit, _set_limit = sys.getrecursionlimit, sys.setrecursionlimit
_modules = sys.modules
_run_exit_functions = atexit._run_exitfuncs
_enumerate, _me, _others = threading.enumerate, threading.get_ident, _thread._count
_getcwd, _lines = os.getcwd, linecache.cache
_FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)


class Source:
    """A snippet as the host gave it."""

    def __init__(self, body: bytes) -> None:
        reader = Reader(body)
        self.code, self.file = reader.text(), reader.text()
        self.inputs = [(reader.text(), values.read(reader)) for _ in range(reader.count())]
        self.stdin = reader.text()
        if reader.flag():
            reader.u8()
        self.last = reader.flag()
        reader.finish()


class Program:
    """What a snippet compiles to: its body, and its last expression."""

    def __init__(self, code: str, file: str) -> None:
        if not self._is_expression(code, file):
            self._compile(code, file)

    def _is_expression(self, code: str, file: str) -> bool:
        """The commonest snippet is one line that is an expression, which takes half the time."""
        if len(code) > _SHORT or "\n" in code or "=" in code:
            return False
        try:
            compiled = _compile(code, file, "eval", _TOP_LEVEL_AWAIT, True)
        except Exception:
            return False
        self.codes, self.has_value, self.awaits = [compiled], True, bool(compiled.co_flags & _COROUTINE)
        return True

    def _compile(self, code: str, file: str) -> None:
        tree = _compile(code, file, "exec", _ONLY_AST | _TOP_LEVEL_AWAIT, True)
        body, last = tree.body, None
        if body and type(body[-1]) is _Expr:
            last = _Expression(body.pop().value)
        self.codes = []
        futures = 0
        if body or last is None:
            self.codes.append(_compile(tree, file, "exec", _TOP_LEVEL_AWAIT, True))
            futures = self.codes[0].co_flags & _FUTURES
        if last is not None:
            self.codes.append(_compile(last, file, "eval", _TOP_LEVEL_AWAIT | futures, True))
        self.has_value = last is not None
        self.awaits = any(code.co_flags & _COROUTINE for code in self.codes)
        if self.awaits and len(self.codes) == 2:
            self._join(tree, last.body, file)

    def _join(self, tree, last, file: str) -> None:
        """Body and last expression as one, so that both run in the same turn of the event loop."""
        target = _Name(VALUE, _Store())
        tree.body.append(_fix(_copy(_Assign([target], last), last)))
        self.codes = [_compile(tree, file, "exec", _TOP_LEVEL_AWAIT, True)]


class Runner:
    """One session's snippets, one after another, in one namespace."""

    def __init__(self, link, streams, bridge, shows, processes, snippets, main) -> None:
        self._link = link
        self._streams = streams
        self._bridge = bridge
        self._shows = shows
        self._processes = processes
        self._snippets = snippets
        self._main = main
        self._loop = None
        self._hooks = (None, None)
        self._limit = _get_limit()
        self._signals = frozenset()

    def begin(self) -> None:
        """In the session's process: from here on signal handlers run only while a program does."""
        self._signals = self._link.hold_signals()

    def feed(self, body: bytes) -> None:
        """Runs one snippet, and tells the host how it ended. Signal handlers run only while the program does."""
        self._calm()
        try:
            frame = self._fed(body)
        except wire.Broken:
            raise
        except BaseException as error:
            frame = self._told(error)
        for finish in (self._flush_files, self._streams.flush, self._bridge.settle, self._processes.finish):
            try:
                finish()
            except Exception:  # noqa: S112 - what the program left behind; the host hears of the snippet's end
                continue
        self._link.settle()
        self._link.end(frame)

    def forget(self) -> None:
        """As if no snippet had run."""
        for name in ("main.py", self._main.__file__):
            _lines.pop(name, None)
        del self._main.__file__
        self._snippets.forget()
        self._processes.running(None, "")
        self._streams.prepare()

    def _fed(self, body: bytes) -> bytes:
        source = Source(body)
        self._prepare(source)
        code = source.code[1:] if source.code.startswith("\ufeff") else source.code
        # Before it is compiled: a warning shows its line.
        earlier = self._show_lines(source.file, code)
        try:
            program = Program(code, source.file)
        except SyntaxError as error:
            _lines.update(earlier)
            return failure.not_compiled(error, code, source.file)
        self._snippets.add(source.file, code, program.codes)
        self._processes.running(self._main.__file__, code)
        try:
            value = self._execute(program)
        except BaseException as error:
            frame = self._told(error)
            del error
        else:
            self._streams.flush()
            frame = self._ended(value)
            del value
        if source.last:
            # As at the end of a program: what it left to `atexit`, whose exceptions are printed.
            _run_exit_functions()
            self._streams.flush()
        self._shows.figures()
        return frame

    def _prepare(self, source: Source) -> None:
        self._streams.begin(source.stdin)
        space = vars(self._main)
        # Else the program would get those of this module, which are a copy.
        space.setdefault("__builtins__", builtins)
        for name, value in source.inputs:
            space[name] = value
        _modules["__main__"] = self._main
        self._main.__file__ = _absolute(source.file)

    def _show_lines(self, file: str, code: str) -> dict:
        """Where tracebacks and `inspect` look for the lines. What was there."""
        plain = code.replace("\r\n", "\n").replace("\r", "\n") if "\r" in code else code
        lines = [line + "\n" for line in plain.split("\n")]
        if lines[-1] == "\n":
            lines.pop()
        names = (file, self._main.__file__)
        earlier = {name: _lines[name] for name in names if name in _lines}
        for name in names:
            _lines[name] = (len(code), None, lines, name)
        return earlier

    def _execute(self, program: Program):
        space = vars(self._main)
        value = None
        _set_limit(self._limit)
        try:
            self._link.let_signals(self._signals)
            for code in program.codes:
                _setprofile(self._hooks[1])
                _settrace(self._hooks[0])
                value = _eval(code, space)
                if program.awaits:
                    value = self._awaited(value)
            if program.awaits and program.has_value and len(program.codes) == 1:
                value = space.pop(VALUE, value)
            self._unhook()
            self._wait_for_others()
        except BaseException:
            # As at the end of a program: the others go on although this thread failed.
            self._unhook()
            self._wait_for_others()
            raise
        finally:
            self._signals = self._link.hold_signals()
            self._limit = _get_limit()
            self._calm()
        return value if program.has_value else None

    def _unhook(self) -> None:
        """Takes tracing from the program, to give it back with the next snippet."""
        self._hooks = (_gettrace(), _getprofile())
        _settrace(None)
        _setprofile(None)

    def _calm(self) -> None:
        """The driver itself is not interrupted and not traced, and has room to work in."""
        if not self._link.holds_signals:
            self._link.hold_signals()
        _settrace(None)
        _setprofile(None)
        if _get_limit() < _RECURSION:
            _set_limit(_RECURSION)

    def _awaited(self, coroutine):
        """Runs what the program awaits at its top, on a loop that lives as long as the session."""
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(coroutine)

    def _ended(self, value: object) -> bytes:
        writer = values.Writer()
        try:
            writer.value("value", value)
        except values.NotPlain as refused:
            frame, crosses = wire.frame(wire.NO_VALUE, text(failure.cut(str(refused), 4096))), False
        else:
            frame, crosses = wire.bounded(wire.DONE, bytes(writer.out)), True
        self._shows.last(value, crosses)
        return frame

    def _told(self, error: BaseException) -> bytes:
        self._calm()
        try:
            return failure.told(error, self._snippets, self._streams)
        except MemoryError:
            error.__traceback__ = error.__context__ = error.__cause__ = None
            return failure.out_of_memory()

    def _wait_for_others(self) -> None:
        """Waits for threads and processes that are no daemons, as Python does at the end of a program."""
        if not _others() and "multiprocessing.process" not in _modules:
            return
        # The workers of an executor are asked to stop only when Python ends.
        pools = getattr(_modules.get("concurrent.futures.thread"), "_threads_queues", ())
        managers = getattr(_modules.get("concurrent.futures.process"), "_threads_wakeups", ())
        for thread in _listed(_enumerate):
            if not thread.daemon and thread.ident != _me() and thread not in pools and thread not in managers:
                thread.join()
        if not managers:
            children = getattr(_modules.get("multiprocessing.process"), "_children", ())
            for child in _listed(lambda: list(children)):
                if not child.daemon:
                    child.join()

    def _flush_files(self) -> None:
        """What the program wrote to files that it left open is in them when the host looks."""
        for value in list(vars(self._main).values()):
            if type(value) in _FILES and not value.closed and value.writable():
                try:
                    value.flush()
                except (OSError, ValueError):
                    continue


def _listed(ask) -> list:
    """What a module of Python's lists, or nothing where the program has broken that module."""
    try:
        return ask()
    except Exception:
        return []


def _absolute(file: str) -> str:
    if file.startswith("/"):
        return file
    try:
        return f"{_getcwd()}/{file}"
    except OSError:
        return file
