"""The package with the real engine, at RINGFENCE_BIN.

Where RINGFENCE_BIN is set, everything here must pass: a broken engine fails, it is not skipped.
Where it is not set, the tests are reported by name as not run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import hashlib
import os
import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ringfence
from ringfence import AsyncSandbox, Denied, Policy, PublicError, Sandbox, engines, run_code, sandbox_export

BINARY = os.environ.get("RINGFENCE_BIN")
pytestmark = pytest.mark.skipif(BINARY is None, reason="not run: RINGFENCE_BIN names no engine")

NAMES = ["get_weather", "add_days", "fail", "later", "echo", "nest"]
OPEN = Policy("version = 1\n" + "".join(f"[functions.{name}]\n" for name in NAMES))


@pytest.fixture(autouse=True)
def own_audit_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RINGFENCE_BIN", str(Path(BINARY or "").absolute()))
    monkeypatch.chdir(tmp_path)
    yield
    engines.close_all()


@dataclasses.dataclass
class Trip:
    city: str
    start: datetime.date


@sandbox_export
def get_weather(city: str, days: int = 1) -> list[dict[str, float]]:
    """The weather of the next days."""
    return [{"temp": float(len(city) + day)} for day in range(days)]


@sandbox_export
def fail(kind: str) -> None:
    if kind == "public":
        raise PublicError("city is unknown", type="ValueError")
    raise ValueError("token-123")


@sandbox_export
def echo(x: Any) -> Any:
    return x


@sandbox_export
async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x * 2


def test_the_example_of_the_readme() -> None:
    with Sandbox(policy=OPEN, exports=[get_weather]) as box:
        r = box.run("max(d['temp'] for d in get_weather('Oslo', days=3))")
    assert (r.value, r.stdout, r.status) == (6.0, "", "completed")
    assert r.tier is not None and r.usage.host_calls == 1


def test_output_value_and_state() -> None:
    seen: list[tuple[str, str]] = []
    with Sandbox(on_output=lambda stream, text: seen.append((stream, text))) as box:
        r = box.run("print('hi'); x = 6 * 7; x")
        assert (r.value, r.stdout) == (42, "hi\n")
        assert "".join(text for stream, text in seen if stream == "stdout") == "hi\n"
        assert box.run("x + y", inputs={"y": 1}).value == 43


def test_a_policy_lets_no_function_be_called_that_it_does_not_list() -> None:
    r = run_code("get_weather('Oslo')", Policy("version = 1\n"), exports=[get_weather])
    assert r.status in ("raised", "denied") and r.value is None


def test_without_a_policy_the_exports_can_be_called() -> None:
    assert run_code("get_weather('Oslo')[0]['temp']", exports=[get_weather], check=True).value == 4.0


VALUES: list[Any] = [
    None,
    True,
    1 << 200,
    [1 << 63, -(1 << 63) - 1, {"n": 10**30}],
    -0.5,
    float("inf"),
    "é",
    b"\x00\xff",
    [1, (2, "x")],
    {"$type": "bytes", "base64": "eA=="},
    {1: "a", (2,): None},
    {1, 2},
    datetime.date(2024, 2, 29),
    datetime.timedelta(days=-1, microseconds=5),
    decimal.Decimal("1.10"),
    uuid.UUID(int=7),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_go_through_a_host_function_and_come_back(value: Any) -> None:
    got: list[Any] = []

    def echo(x: Any) -> Any:
        got.append(x)
        return x

    with Sandbox(policy=OPEN, exports=[echo]) as box:
        assert box.run("echo(value)", inputs={"value": value}, check=True).value == value
    assert got == [value] and type(got[0]) is type(value)


def test_a_host_function_that_never_answers_is_given_up() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    limits = {"call": "100ms", "lifetime": "20s", "idle": "20s"}
    with Sandbox(exports=[waits], limits=limits) as box:
        r = box.run("try:\n    await waits()\nexcept TimeoutError as error:\n    print(error)", check=True)
        assert r.stdout == "host function `waits` did not answer within 100ms\n"
        assert box.run("1 + 1", check=True).value == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("class", "is a keyword of Python"),
        ("2x", "is no name of Python's: letters, digits and `_`, no digit first"),
        ("", "is no name of Python's: letters, digits and `_`, no digit first"),
    ],
)
def test_an_input_that_the_program_could_not_name(name: str, why: str) -> None:
    with Sandbox() as box, pytest.raises(ringfence.RequestError) as caught:
        box.run("1", inputs={name: 1})
    assert caught.value.message == f"the input `{name}` {why}"


def test_exceptions_by_status() -> None:
    with Sandbox(policy=OPEN, exports=[fail], limits={"wall": "500ms"}) as box:
        with pytest.raises(ringfence.GuestError) as caught:
            box.run("def f():\n    return 1 / 0\nf()", check=True, file="prog.py")
        exception = caught.value.exception
        assert exception is not None and exception.type == "ZeroDivisionError"
        assert [(frame.file, frame.line) for frame in exception.frames] == [("prog.py", 3), ("prog.py", 2)]
        with pytest.raises(ringfence.LimitExceeded) as limited:
            box.run("while True: pass", check=True)
        assert limited.value.limit is not None and limited.value.limit.kind in ("wall", "cpu")


def test_failures_of_host_functions_are_closed() -> None:
    code = "try:\n    fail({!r})\nexcept ValueError as error:\n    r = str(error)\nr"
    with Sandbox(policy=OPEN, exports=[fail]) as box:
        assert box.run(code.format("public")).value == "city is unknown"
        secret = box.run(code.format("secret"))
        assert secret.value == "the host function failed" and "token-123" not in repr(secret)


def test_errors_of_policy_and_arguments() -> None:
    with pytest.raises(ringfence.PolicyError):
        Sandbox(Policy("version = 1\n[limit]\nwall = '5s'\n"))
    with pytest.raises(ringfence.PolicyError):
        Sandbox("there-is-no-such-policy.toml")
    with pytest.raises(ringfence.RequestError):
        Sandbox(limits={"wall": "5 parsecs"})


def test_cancel_and_go_on() -> None:
    with Sandbox(on_output=lambda stream, text: threading.Thread(target=box.cancel).start()) as box:
        assert box.run("print('x', flush=True)\nwhile True: pass").status == "cancelled"
    assert run_code("1").value == 1


def test_snapshot_restore_and_fork() -> None:
    with Sandbox(policy=OPEN, exports=[get_weather], engine="monty") as box:
        box.run("x = [1]", check=True)
        saved = box.snapshot()
        copies = box.fork(2)
        box.run("x.append(2)", check=True)
        assert [copy.run("x").value for copy in copies] == [[1], [1]]
        for copy in copies:
            copy.close()
    engines.close_all()  # the next one is another process
    with Sandbox.restore(saved, OPEN, exports=[get_weather], engine="monty") as back:
        assert back.run("x").value == [1]
    flipped = bytes([*saved[:-1], saved[-1] ^ 1])
    with pytest.raises(ringfence.SnapshotRefused):
        Sandbox.restore(flipped, OPEN, exports=[get_weather], engine="monty")


def test_fork_of_a_native_session() -> None:
    policy = Policy('version = 1\n[isolation]\ntiers = ["process"]\n[functions.get_weather]\n')
    with Sandbox(policy=policy, exports=[get_weather]) as box:
        box.run("data = [1]", check=True)
        copies = box.fork(3)
        for number, copy in enumerate(copies):
            copy.run(f"data.append({number})", check=True)
        assert [copy.run("data, get_weather('Oslo')[0]['temp']").value for copy in copies] == [
            ([1, number], 4.0) for number in range(3)
        ]
        assert box.run("data").value == [1]
    assert copies[0].run("data").value == [1, 0], "a branch outlives its origin"
    for copy in copies:
        copy.close()


def test_fork_of_a_native_session_async() -> None:
    async def main() -> list[Any]:
        async with AsyncSandbox(tier="process") as box:
            await box.run("import asyncio\nawait asyncio.sleep(0)\nx = 1", check=True)
            copies = await box.fork(2)
            ended = await asyncio.gather(*(copy.run(f"x + {number}") for number, copy in enumerate(copies)))
            for copy in copies:
                await copy.close()
            return [result.value for result in ended]

    assert asyncio.run(main()) == [1, 2]
    with Sandbox(tier="process") as box:
        box.run(
            "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
            check=True,
        )
        with pytest.raises(ringfence.Unsupported, match="threads besides its first"):
            box.fork(2)


COMMANDS = {
    "version": 1,
    "isolation": {"tiers": ["process"]},
    "limits": {"wall": "20s"},
    "filesystem": {"workspace": "8MiB"},
}


def test_commands_share_the_session() -> None:
    with Sandbox(policy=COMMANDS) as box:
        box.files.put("/workspace/n.txt", b"3\n1\n")
        sorted_ = box.exec(["sort", "n.txt"], check=True)
        assert (sorted_.stdout, sorted_.exit_code, sorted_.ok) == ("1\n3\n", 0, True)
        assert box.run("open('n.txt').read()").value == "3\n1\n"
        echoed = box.exec(["sh", "-c", "cat; echo $A; pwd"], b"in\n", "/tmp", {"A": "b"})
        assert echoed.stdout == "in\nb\n/tmp\n"
        failed = box.exec(["sh", "-c", "exit 3"])
        assert (failed.status, failed.exit_code, failed.ok) == ("completed", 3, False)
        with pytest.raises(ringfence.CommandFailed) as caught:
            failed.raise_for_status()
        assert (str(caught.value), caught.value.exit_code) == ("the command ended with exit code 3", 3)
        assert box.exec(["no-such-tool"]).status == "unsupported"
        with pytest.raises(TypeError):
            box.exec("ls -l")
        with pytest.raises(ringfence.RequestError):
            box.exec([])
    with Sandbox() as box:
        assert box.run("1+1").tier == "embedded"
        assert box.exec(["true"]).status == "unsupported"


def cow(folder: Path, more: str = "") -> Policy:
    mount = f'{{ host = "{folder}", at = "/data", mode = "cow" }}'
    return Policy(f'version = 1\n[isolation]\ntiers = ["process"]\n{more}[filesystem]\nmounts = [{mount}]\n')


def test_the_difference_of_a_copy_on_write_mount(tmp_path: Path) -> None:
    data, kept = tmp_path / "data", tmp_path / "kept"
    data.mkdir()
    (data / "a").write_text("a")
    (data / "b").write_text("b")
    with Sandbox(cow(data)) as box:
        box.run(
            "import os; open('/data/a', 'w').write('new'); os.remove('/data/b'); os.mkdir('/data/c')",
            check=True,
        )
        changes = box.files.changes(to=kept)
        rows = [(change.kind, change.path, change.folder, change.size) for change in changes.changes]
        want = [
            ("changed", "/data/a", False, 3),
            ("removed", "/data/b", False, 0),
            ("added", "/data/c", True, 0),
        ]
        assert (rows, changes.skipped, changes.complete) == (want, (), True)
        content = box.files.changed("/data/a")
        assert (content, changes.changes[0].sha256) == (b"new", hashlib.sha256(b"new").hexdigest())
        assert (kept / "files/data/a").read_bytes() == b"new" and (kept / "changes.json").exists()
    assert {path.name: path.read_text() for path in data.iterdir()} == {"a": "a", "b": "b"}


def test_a_frozen_session_waits_and_thresholds_are_told(tmp_path: Path) -> None:
    crossed: list[tuple[str, str, int]] = []

    def told(action: str, measure: str, threshold: int, reached: int) -> None:
        crossed.append((action, measure, threshold))
        assert reached > threshold

    limits = '[monitor]\nevery = "10ms"\n[monitor.warn]\nmemory = "1B"\n[limits]\nidle = "1h"\n'
    with Sandbox(cow(tmp_path, limits), on_threshold=told) as box:
        box.run("import time\nend = time.time() + 0.2\nwhile time.time() < end: pass", check=True)
        box.freeze()
        with pytest.raises(Denied, match="the session is frozen; thaw it first"):
            box.files.list("/tmp")
        box.thaw()
        assert box.files.list("/data") == []
    assert crossed == [("warn", "memory", 1)]


def test_a_thread_hears_that_its_snippet_is_over() -> None:
    answered = threading.Event()

    def slow(a: int) -> int:
        answered.wait(30)
        return a

    code = """
import threading
out, asked = [], threading.Event()
def call():
    asked.set()
    try:
        out.append(slow(7))
    except RuntimeError as error:
        out.append(str(error))
thread = threading.Thread(target=call, daemon=True)
thread.start()
asked.wait()
"""
    policy = {"version": 1, "functions": {"slow": {}}}
    with Sandbox(policy=policy, exports=[slow], tier="process") as box:
        box.run(code + "import time\ntime.sleep(0.2)", check=True)
        answered.set()
        result = box.run("thread.join(30); out", check=True)
        assert result.value == ["the snippet in which the host function was called is over"]


def test_commands_await_too() -> None:
    async def work() -> tuple[Any, ...]:
        async with AsyncSandbox(policy=COMMANDS) as box:
            result = await box.exec(["tr", "a-z", "A-Z"], stdin="abc")
            return result.stdout, result.exit_code

    assert asyncio.run(work()) == ("ABC", 0)


def test_async_functions_and_many_sessions() -> None:
    async def one(number: int) -> Any:
        async with AsyncSandbox(policy=OPEN, exports=[later]) as box:
            code = f"import asyncio\nasync def f():\n    return await asyncio.gather(later({number}), later(1))\nawait f()"
            return (await box.run(code, check=True)).value

    async def work() -> list[Any]:
        return list(await asyncio.gather(*(one(number) for number in range(10))))

    assert [list(pair) for pair in asyncio.run(work())] == [[number * 2, 2] for number in range(10)]


def test_a_host_function_may_use_another_sandbox() -> None:
    def nest(x: int) -> int:
        return int(run_code(f"{x} + 1", check=True).value)

    with Sandbox(policy=OPEN, exports=[nest]) as box:
        assert box.run("nest(1) + nest(2)", check=True).value == 5


def test_the_ten_lines_of_the_project_readme(capsys: pytest.CaptureFixture[str]) -> None:
    readme = Path(__file__).resolve().parents[2] / "README.md"
    found = re.search(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    assert found is not None
    exec(compile(found[1], "README.md", "exec"), {"__name__": "readme"})
    said = re.search(r"# (22.*)", found[1])
    assert said is not None and capsys.readouterr().out == said[1] + "\n"
