"""The two programs that speak frames: `python -m ringfence.exports` and the suite's `bare`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ringfence.frames import Splitter, pack

PACKAGE = Path(__file__).resolve().parent.parent
BARE = Path(__file__).with_name("bare.py")

TOOLS = '''
import asyncio, sys, threading
from ringfence import PublicError, sandbox_export
import beside
print("printed while loading")
both = threading.Barrier(2, timeout=30)
here = []

@sandbox_export
def add(a: int, b: int = 10) -> int:
    """Adds."""
    print("printed in a call", sys.stdin.read())
    return a + b

@sandbox_export
def meet(x: int) -> int:
    both.wait()
    return x

@sandbox_export
async def gather(x: int) -> int:
    here.append(x)
    while len(here) < 2:
        await asyncio.sleep(0)
    return x

@sandbox_export
def fail(secret: str) -> None:
    if secret == "public":
        raise PublicError("shown")
    if secret == "exit":
        sys.exit(secret)
    raise ValueError(secret)

def listed() -> str:
    return beside.NAME

def hidden() -> None: ...

EXPORTS = ["listed"]
'''


class Program:
    """A child that speaks frames."""

    def __init__(self, *command: str, cwd: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **environment},
        )
        self.splitter = Splitter()

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(pack(message))
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while (frame := self.splitter.next()) is None:
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            assert chunk, "the program ended"
            self.splitter.feed(chunk)
        return frame

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(message)
        return self.receive()

    def end(self) -> tuple[int, bytes]:
        rest, errors = self.process.communicate(timeout=60)
        assert rest == b""
        return self.process.returncode, errors


@pytest.fixture
def bare_folder(tmp_path: Path) -> Path:
    """A folder with the package's files and nothing else, as the executable unpacks them."""
    shutil.copytree(PACKAGE / "ringfence", tmp_path / "unpacked" / "ringfence")
    return tmp_path / "unpacked"


def test_exports_serves_a_file(bare_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    tools = tmp_path / "tools" / "json.py"  # a name that must not shadow the library's
    tools.write_text(TOOLS)
    tools.with_name("beside.py").write_text("NAME = 'from beside'")
    program = Program("-m", "ringfence.exports", str(tools), cwd=bare_folder)
    declared = program.receive()["functions"]
    assert [(spec["name"], spec["is_async"]) for spec in declared] == [
        ("add", False),
        ("meet", False),
        ("gather", True),
        ("fail", False),
        ("listed", False),
    ]
    failed = "the host function failed"
    calls: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("add", [1], {"value": 11}),
        ("add", ["x"], {"error": {"type": "TypeError", "message": "`a` must be int, not str"}}),
        ("listed", [], {"value": "from beside"}),
        ("fail", ["public"], {"error": {"type": "RuntimeError", "message": "shown"}}),
        ("fail", ["token-1"], {"error": {"type": "ValueError", "message": failed}}),
        ("fail", ["exit"], {"error": {"type": "SystemExit", "message": failed}}),
        ("hidden", [], {"error": {"type": "NameError", "message": "name 'hidden' is not defined"}}),
    ]
    for number, (name, args, body) in enumerate(calls):
        answer = program.ask({"call": number, "function": name, "args": args, "kwargs": {}})
        assert answer == {"answer": number, **body}
    for name in ("meet", "gather"):
        program.send({"call": 1, "function": name, "args": [1], "kwargs": {}})
        program.send({"call": 2, "function": name, "args": [], "kwargs": {"x": 2}})
        answers = sorted((program.receive() for _ in range(2)), key=lambda frame: int(frame["answer"]))
        assert answers == [{"answer": 1, "value": 1}, {"answer": 2, "value": 2}]
    code, errors = program.end()
    assert code == 0 and b"printed while loading" in errors
    # Whoever wrote the function is told why it failed, and nobody else.
    assert b"host function `fail` failed:\n  Traceback" in errors and b"ValueError: token-1" in errors


def test_exports_ends_with_its_input_while_a_call_runs(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text("import threading\ndef stuck():\n    threading.Event().wait()\nEXPORTS = [stuck]\n")
    program = Program("-m", "ringfence.exports", str(tools), cwd=PACKAGE)
    program.receive()
    program.send({"call": 1, "function": "stuck", "args": [], "kwargs": {}})
    assert program.end() == (0, b"")


BROKEN = [
    (None, "there is no file `{}`"),
    ("x = (", "`{}`, line 1: SyntaxError: '(' was never closed"),
    ("\n\nimport nowhere\n", "`{}`, line 3: ModuleNotFoundError: No module named 'nowhere'"),
    ("raise SystemExit('a\\nb')", "`{}`, line 1: SystemExit: a b"),
    (
        "x = 1",
        "`{}` exports no functions; mark them with `@sandbox_export`, or list their names in `EXPORTS`",
    ),
    ("EXPORTS = ['f']", "`{}`: EXPORTS names `f`, which is not a function of the file"),
    (
        "def f(z: complex): ...\nEXPORTS = [f]",
        "`{}`: parameter `z` of `f`: the type `complex` has no plain data form",
    ),
]


@pytest.mark.parametrize(("text", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_exports_says_in_one_line_what_is_wrong(text: str | None, message: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    if text is not None:
        tools.write_text(text)
    program = Program("-m", "ringfence.exports", str(tools), cwd=PACKAGE)
    assert program.receive() == {"error": {"message": message.format(tools)}}
    assert program.end() == (2, b"")


def test_bare_runs_what_it_is_given() -> None:
    program = Program(str(BARE), cwd=PACKAGE, RINGFENCE_ALLOW_BARE="for-tests")
    first = {
        "code": "import os\nprint(input())\nos.write(2, b'e')\nx = y + 1\nx",
        "inputs": {"y": 1},
        "stdin": "in",
    }
    completed = {"status": "completed", "exception": None}
    assert program.ask(first) == {**completed, "value": 2, "stdout": "in\n", "stderr": "e"}
    assert program.ask({"code": "import asyncio\nawait asyncio.sleep(0)\nx"})["value"] == 2
    raised = program.ask({"code": "def f():\n    1/0\nf()"})
    assert raised["exception"] == {
        "type": "ZeroDivisionError",
        "message": "division by zero",
        "frames": [
            {"file": "main.py", "line": 3, "function": "<module>", "source": "f()"},
            {"file": "main.py", "line": 2, "function": "f", "source": "1/0"},
        ],
    }
    call = program.ask({"code": "f(1, b=2)", "functions": ["f"]})
    assert call == {"call": 1, "function": "f", "args": [1], "kwargs": {"b": 2}}
    assert program.ask({"answer": 1, "value": 3}) == {**completed, "value": 3, "stdout": "", "stderr": ""}
    program.send({"code": "f()", "functions": ["f"]})
    program.receive()
    assert (
        program.ask({"answer": 2, "error": {"type": "KeyError", "message": "k"}})["exception"]["type"]
        == "KeyError"
    )
    assert program.ask({"code": "import sys; sys.exit(3)"})["exception"]["type"] == "SystemExit"
    assert program.end() == (0, b"")


def test_bare_refuses_to_start_by_accident() -> None:
    program = Program(str(BARE), cwd=PACKAGE, RINGFENCE_ALLOW_BARE="1")
    message = b"bare runs code without any protection; it is for Ringfence's own tests only\n"
    assert program.end() == (2, message)
