"""Runs Python without any protection, for the `bare` tier of the conformance suite only.

Answers to: the suite, over frames on stdin and stdout. A frame `{"code", "inputs", "stdin",
"file", "functions"}` runs a snippet; its answer is an outcome `{status, value, stdout, stderr,
exception}`. Names stay from one frame to the next. While it runs, a call of a name in
`functions` sends `{"call": n, "function", "args", "kwargs"}` and waits for `{"answer": n, ...}`.
Must not: start without RINGFENCE_ALLOW_BARE=for-tests, or be part of the wheel.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import itertools
import linecache
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ringfence.frames import Splitter, pack
from ringfence.values import decode, encode


class Frames:
    """The two pipes, kept apart from the program's own input and output."""

    def __init__(self) -> None:
        self._source, self._output = os.dup(0), os.dup(1)
        self._splitter = Splitter()

    def receive(self) -> dict[str, Any] | None:
        while (frame := self._splitter.next()) is None:
            chunk = os.read(self._source, 1 << 16)
            if not chunk:
                return None
            self._splitter.feed(chunk)
        return frame

    def send(self, message: dict[str, Any]) -> None:
        data = memoryview(pack(message))
        while data:
            data = data[os.write(self._output, data) :]


class Capture:
    """Standard input, output and error as files, so that `os.write` and child processes count too."""

    def __init__(self, stdin: str) -> None:
        self._files = [tempfile.TemporaryFile() for _ in range(3)]
        self._files[0].write(stdin.encode())
        self._files[0].seek(0)
        for number, file in enumerate(self._files):
            os.dup2(file.fileno(), number)
        sys.stdin = open(0, closefd=False)
        sys.stdout = open(1, "w", closefd=False)
        sys.stderr = open(2, "w", closefd=False)

    def end(self) -> tuple[str, str]:
        texts = []
        for stream, file in zip((sys.stdout, sys.stderr), self._files[1:], strict=True):
            stream.flush()
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        for file in self._files:
            file.close()
        return texts[0], texts[1]


class Guest:
    """One session."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._numbers = itertools.count(1)
        self._names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}

    def run(self, frame: dict[str, Any]) -> dict[str, Any]:
        file, code = str(frame.get("file") or "main.py"), str(frame["code"])
        self._names.update({name: decode(value) for name, value in (frame.get("inputs") or {}).items()})
        self._names.update({name: self._stub(name) for name in frame.get("functions") or ()})
        outcome: dict[str, Any] = {"status": "completed", "value": None, "exception": None}
        capture = Capture(str(frame.get("stdin") or ""))
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        try:
            outcome["value"] = encode(self._evaluate(code, file))
        except BaseException as error:
            outcome["status"], outcome["exception"] = "raised", _exception(error)
        outcome["stdout"], outcome["stderr"] = capture.end()
        return outcome

    def _evaluate(self, code: str, file: str) -> Any:
        tree = compile(code, file, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self._execute(tree, file, "exec")
        return self._execute(ast.Expression(last.value), file, "eval") if last else None

    def _execute(self, tree: Any, file: str, mode: str) -> Any:
        result = eval(compile(tree, file, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), self._names)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    def _stub(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            number = next(self._numbers)
            written = {key: encode(value, key) for key, value in kwargs.items()}
            arguments = {"args": [encode(value, "args") for value in args], "kwargs": written}
            self._frames.send({"call": number, "function": name, **arguments})
            answer = self._frames.receive()
            if answer is None:
                raise SystemExit("the suite is gone")
            if "error" in answer:
                kind = getattr(builtins, str(answer["error"]["type"]), RuntimeError)
                raise kind(answer["error"].get("message") or "the host function failed")
            return decode(answer["value"])

        call.__name__ = name
        return call


def _exception(error: BaseException) -> dict[str, Any]:
    shown = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    frames = [
        {"file": frame.filename, "line": frame.lineno or 0, "function": frame.name, "source": frame.line}
        for frame in shown
    ]
    return {"type": type(error).__name__, "message": str(error), "frames": frames}


def main() -> int:
    if os.environ.get("RINGFENCE_ALLOW_BARE") != "for-tests":
        print("bare runs code without any protection; it is for Ringfence's own tests only", file=sys.stderr)
        return 2
    frames = Frames()
    guest = Guest(frames)
    while (frame := frames.receive()) is not None:
        outcome = guest.run(frame)
        try:
            frames.send(outcome)
        except TypeError as error:
            frames.send(
                {**outcome, "status": "raised", "value": None, "stdout": "", "exception": _exception(error)}
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
