"""`python -m ringfence.exports TOOLS.py`: serves a file's host functions over stdin and stdout.

Answers to: the `ringfence` executable, which starts it in a trusted process for `--exports`.
First it sends `{"functions": [...]}`, or `{"error": {"message": ...}}` in one line; then it
answers `{"call": ...}` frames until its input ends.
Must not: let a tool's own reading and printing touch the frames.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import select
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from . import functions as functions_module
from .background import background_loop
from .errors import ProtocolError
from .frames import Splitter, pack
from .functions import HostFunction, host_functions, is_export, unknown_function

THREADS = 8
"""How many sync functions run at once."""


TOLD_LINES, TOLD_LINE = 200, 2000
"""How many lines of a failure are told, and how much of each."""


class ToolFileError(Exception):
    """A tool file that can't be used, in one line."""


def load(path: str) -> dict[str, HostFunction]:
    """The host functions of a tool file: what `@sandbox_export` marks, and the names in `EXPORTS`."""
    module = _module(path)
    found = [value for value in vars(module).values() if is_export(value)]
    for item in getattr(module, "EXPORTS", ()):
        value = getattr(module, item, None) if isinstance(item, str) else item
        if not callable(value):
            raise ToolFileError(f"`{path}`: EXPORTS names `{item}`, which is not a function of the file")
        found.append(value)
    if not found:
        why = "mark them with `@sandbox_export`, or list their names in `EXPORTS`"
        raise ToolFileError(f"`{path}` exports no functions; {why}")
    try:
        return host_functions(dict.fromkeys(found))
    except TypeError as error:
        raise ToolFileError(f"`{path}`: {error}") from None


def _module(path: str) -> ModuleType:
    file = Path(path).absolute()
    if not file.is_file():
        raise ToolFileError(f"there is no file `{path}`")
    name = f"ringfence_tools_{file.stem}"  # never the name of a module that others import
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ToolFileError(f"`{path}` is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise ToolFileError(_one_line(path, file, error)) from error
    return module


def _one_line(path: str, file: Path, error: BaseException) -> str:
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(file) else None
    place = f"`{path}`, line {line or lines[-1]}" if line or lines else f"`{path}`"
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{place}: {type(error).__name__}: {message}".replace("\n", " ").rstrip(": ")


class Server:
    """Answers calls: sync functions in a few threads, async ones on a loop, all at once."""

    def __init__(self, functions: dict[str, HostFunction], output: int) -> None:
        self._functions = functions
        self._output = output
        self._writing = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "ringfence-export")

    def send(self, message: dict[str, Any]) -> None:
        """Writes one frame whole."""
        data = memoryview(pack(message))
        with self._writing:
            while data:
                data = data[os.write(self._output, data) :]

    def take(self, frame: dict[str, Any]) -> None:
        """Starts the call of a frame; its answer is sent when it is there."""
        number, name = frame.get("call"), str(frame.get("function"))
        args, kwargs = frame.get("args") or [], frame.get("kwargs") or {}
        if type(number) is not int or not isinstance(args, list) or not isinstance(kwargs, dict):
            raise ProtocolError("a frame that is not a call")
        function = self._functions.get(name)
        if function is None:
            self.send({"answer": number, "error": unknown_function(name)})
        elif function.is_async:
            asyncio.run_coroutine_threadsafe(
                self._run_async(number, function, args, kwargs), background_loop()
            )
        else:
            self._threads.submit(self._run, number, function, args, kwargs)

    def _run(self, number: int, function: HostFunction, args: list[Any], kwargs: dict[str, Any]) -> None:
        try:
            body = function.call(args, kwargs)
        except BaseException as error:  # `sys.exit` in a tool is a failure like any other
            body = {"error": function.failure(error)}
        self._answer(number, body)

    async def _run_async(
        self, number: int, function: HostFunction, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        try:
            body = await function.call_async(args, kwargs)
        except BaseException as error:
            body = {"error": function.failure(error)}
        self._answer(number, body)

    def _answer(self, number: int, body: dict[str, Any]) -> None:
        try:
            self.send({"answer": number, **body})
        except TypeError as error:  # too large, or not Unicode
            self.send({"answer": number, "error": {"type": "TypeError", "message": str(error)}})
        except OSError:
            return  # nobody reads any more; the input's end follows


def serve(server: Server, source: int) -> None:
    """Reads frames until the input ends."""
    splitter = Splitter()
    while chunk := os.read(source, 1 << 16):
        splitter.feed(chunk)
        while (frame := splitter.next()) is not None:
            server.take(frame)


def main(arguments: list[str]) -> int:
    """Serves the file that is named; 2 where it can't be used."""
    source, output = _take_over_stdio()
    threading.Thread(target=_end_with_host, args=(source,), daemon=True).start()
    try:
        if len(arguments) != 1:
            raise ToolFileError("name one file of host functions: python -m ringfence.exports TOOLS.py")
        functions = load(arguments[0])
    except ToolFileError as error:
        message = str(error).encode("utf-8", "replace").decode("utf-8")
        Server({}, output).send({"error": {"message": message}})
        return 2
    functions_module.report_failure = _tell_failure
    server = Server(functions, output)
    server.send({"functions": [function.spec for function in functions.values()]})
    try:
        serve(server, source)
    except ProtocolError as error:
        print(f"ringfence.exports: {error}", file=sys.stderr)
        return 2
    return 0


def _tell_failure(name: str, error: BaseException) -> None:
    """The traceback, for who wrote the function: on standard error, which no guest sees and no log keeps.

    Every line is indented and shows controls as escapes: a message may hold text of the guest's.
    """
    frames = error.__traceback__
    while frames is not None and str(frames.tb_frame.f_globals.get("__name__")).startswith("ringfence."):
        frames = frames.tb_next
    lines = "".join(traceback.format_exception(type(error), error, frames)).splitlines()
    if len(lines) > TOLD_LINES:
        left_out = f"... {len(lines) - TOLD_LINES} lines are left out ..."
        lines = [*lines[: TOLD_LINES // 2], left_out, *lines[-TOLD_LINES // 2 :]]
    text = "".join(f"  {_harmless(line)}\n" for line in lines)
    print(f"host function `{name}` failed:\n{text}", end="", file=sys.stderr, flush=True)


def _harmless(line: str) -> str:
    shown = line if len(line) <= TOLD_LINE else f"{line[:TOLD_LINE]}..."
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in shown
    )


def _take_over_stdio() -> tuple[int, int]:
    """Keeps the two pipes for the frames: tools read nothing, and print to standard error."""
    source, output = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # What a tool prints is seen at once, though it goes to a pipe.
    sys.stdout = sys.stderr
    return source, output


def _end_with_host(source: int) -> None:
    """Ends the process soon after the host is gone, whatever the tools' file is busy with."""
    hang_up = select.poll()
    hang_up.register(source, 0)  # the end of the pipe is told without being asked for
    hang_up.poll()
    time.sleep(1)
    os._exit(0)


def run_as_program() -> None:
    """Runs `main` on the arguments of the process, and ends the process."""
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # calls that still run must not hold the process up


if __name__ == "__main__":
    run_as_program()
