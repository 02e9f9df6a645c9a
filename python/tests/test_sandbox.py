"""The sync API against the fake engine: every method, errors, callbacks, threads."""

from __future__ import annotations

import gc
import logging
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import ringfence
from ringfence import Policy, PublicError, Sandbox, engines, run_code, sandbox_export
from ringfence.functions import FAILED

pytestmark = pytest.mark.usefixtures("engine")


@sandbox_export
def get_weather(city: str, days: int = 1) -> list[dict[str, float]]:
    return [{"temp": float(len(city) + day)} for day in range(days)]


async def later(x: int) -> int:
    return x + 1


def test_a_run_gives_its_whole_result() -> None:
    with Sandbox(exports=[get_weather]) as box:
        r = box.run("print('hi')\nmax(d['temp'] for d in get_weather('Oslo', days=3))")
    assert (r.value, r.stdout, r.status, r.ok, r.tier, r.engine, r.strength) == (
        6.0,
        "hi\n",
        "completed",
        True,
        "embedded",
        "fake",
        "process",
    )
    assert r.usage == ringfence.Usage(0.5, 0.25, 1024, 1, 3)
    assert r.chosen == (ringfence.Considered("embedded", True, "cheapest"),)
    assert r.audit == ringfence.AuditSpan(1, 3)
    assert r.raise_for_status() is r


def test_what_open_is_told() -> None:
    with Sandbox({"version": 1}, tier="embedded", engine="monty", limits={"wall": "5s"}, tenant="t") as box:
        opened = box.run("params()").value
    assert opened == {
        "policy": {"text": "version = 1\n"},
        "tier": "embedded",
        "engine": "monty",
        "tenant": "t",
        "functions": [],
        "limits": {"wall": "5s"},
        "approvals": False,
        "output": False,
        "shown": False,
        "thresholds": False,
    }


def test_a_session_keeps_state_inputs_and_stdin() -> None:
    with Sandbox() as box:
        box.run("x = 1")
        assert box.run("x += 1; (x, y, stdin)", inputs={"y": {1: b"z"}}, stdin="in").value == (
            2,
            {1: b"z"},
            "in",
        )
        frames = box.run("1/0", file="lib.py").exception
        assert frames is not None and frames.frames == (ringfence.TraceFrame("lib.py", 1, "<module>", "1/0"),)


STATUSES: list[tuple[dict[str, Any], type[ringfence.RunError], str]] = [
    ({"status": "denied", "reason": "no such function"}, ringfence.Denied, "no such function"),
    (
        {"status": "limited", "limit": {"kind": "memory", "allowed": 5, "reached": 9}},
        ringfence.LimitExceeded,
        "limit `memory` exceeded: 9 reached, 5 allowed",
    ),
    ({"status": "unsupported", "reason": "line 1: classes"}, ringfence.Unsupported, "line 1: classes"),
    ({"status": "killed", "reason": "kill --all"}, ringfence.Killed, "kill --all"),
    ({"status": "crashed"}, ringfence.Crashed, "the run was crashed"),
    ({"status": "cancelled"}, ringfence.Cancelled, "the run was cancelled"),
]


@pytest.mark.parametrize(
    ("outcome", "error", "message"), STATUSES, ids=[row[0]["status"] for row in STATUSES]
)
def test_check_raises_by_status(
    outcome: dict[str, Any], error: type[ringfence.RunError], message: str
) -> None:
    with Sandbox() as box:
        code = f"outcome = {outcome!r}"
        assert box.run(code).status == outcome["status"]
        with pytest.raises(error) as caught:
            box.run(code, check=True)
    assert str(caught.value) == message
    assert caught.value.result is not None and caught.value.result.status == outcome["status"]


def test_a_value_that_is_none_is_a_crash() -> None:
    result = run_code("outcome = {'value': {'$type': 'date', 'value': '9999-99-99'}}")
    assert (result.status, result.value) == ("crashed", None)
    assert result.reason is not None and result.reason.startswith("the program's value can't be read: ")


def test_check_raises_the_guests_exception() -> None:
    with pytest.raises(ringfence.GuestError) as caught:
        run_code("1/0", check=True)
    assert str(caught.value) == "ZeroDivisionError: division by zero"
    assert caught.value.exception is not None and caught.value.exception.frames[0].line == 1


CODES: list[tuple[str, type[Exception]]] = [
    ("bad_policy", ringfence.PolicyError),
    ("bad_request", ringfence.RequestError),
    ("no_session", ringfence.SessionClosed),
    ("denied", ringfence.Denied),
    ("unsupported", ringfence.Unsupported),
    ("tier_unavailable", ringfence.TierUnavailable),
    ("crashed", ringfence.Crashed),
    ("audit_failed", ringfence.AuditFailed),
    ("snapshot_refused", ringfence.SnapshotRefused),
    ("internal", ringfence.RingfenceError),
    ("of_the_future", ringfence.RingfenceError),
]


@pytest.mark.parametrize(("code", "error"), CODES)
def test_error_codes_become_classes(code: str, error: type[Exception]) -> None:
    with pytest.raises(ringfence.RingfenceError) as caught:
        Sandbox(Policy(f"refuse {code}"))
    assert type(caught.value) is error
    assert str(caught.value) == "refused as asked; do not ask"


def test_snapshot_restore_and_fork() -> None:
    with Sandbox() as box:
        box.run("x = [1]")
        saved = box.snapshot()
        copies = box.fork(2)
        box.run("x.append(2)")
        assert [copy.run("x").value for copy in copies] == [[1], [1]]
        for copy in copies:
            copy.close()
    with Sandbox.restore(saved, exports=[get_weather]) as back:
        assert back.run("x, get_weather('a')").value == ([1], [{"temp": 1.0}])
    with pytest.raises(ringfence.SnapshotRefused, match="the snapshot was changed"):
        Sandbox.restore(b"garbage")


def test_files(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"a,b")
    with Sandbox() as box:
        box.files.put("one.bin", b"\x00\xff")
        box.files.put("two.txt", "é")
        box.files.put("three.csv", tmp_path / "in.csv")
        assert box.files.list() == [
            ringfence.FileEntry("one.bin", 2, False),
            ringfence.FileEntry("three.csv", 3, False),
            ringfence.FileEntry("two.txt", 2, False),
        ]
        assert box.files.get("two.txt") == "é".encode()
        box.files.get("one.bin", to=tmp_path / "out.bin")
        assert (tmp_path / "out.bin").read_bytes() == b"\x00\xff"
        box.files.remove("one.bin")
        with pytest.raises(ringfence.RequestError) as caught:
            box.files.get("one.bin")
        assert str(caught.value) == "no such file: `one.bin`"
        with pytest.raises(TypeError, match="content must be bytes, str or a Path, not int"):
            box.files.put("x", 3)  # type: ignore[arg-type]


def test_output_and_shown_arrive_in_order_before_the_result() -> None:
    seen: list[Any] = []
    box = Sandbox(on_output=lambda stream, text: seen.append((stream, text)), on_shown=seen.append)
    with box:
        box.run("print('a'); show({'text/html': b'<b>'}); emit('stderr', 'b')")
        assert seen == [("stdout", "a\n"), {"text/html": b"<b>"}, ("stderr", "b")]


APPROVALS: list[tuple[Any, bool]] = [
    (lambda function, arguments: (function, arguments) == ("send", {"to": ("a",)}), True),
    (lambda function, arguments: False, False),
    (lambda function, arguments: "yes", False),
    (lambda function, arguments: 1 / 0, False),
    (lambda function, arguments: later(1), False),
    (None, False),
]


@pytest.mark.parametrize(("approve", "want"), APPROVALS)
def test_only_true_approves(approve: Any, want: bool) -> None:
    with Sandbox(approve=approve) as box:
        assert box.run("approve('send', {'to': ('a',)}), params()['approvals']").value == (
            want,
            approve is not None,
        )


class HttpError(Exception):
    pass


SECRET = "token-123 /home/me"


@sandbox_export(public_errors=(KeyError,))
def fail(kind: str) -> Any:
    if kind == "public":
        raise PublicError("city is unknown")
    if kind == "typed":
        raise PublicError("city is unknown", type="ValueError")
    if kind == "listed":
        raise KeyError("city")
    if kind == "chained":
        try:
            raise OSError(2, SECRET, SECRET)
        except OSError as error:
            raise HttpError(SECRET) from error
    if kind == "result":
        return {"rows": [1, open]}
    if kind == "big":
        return "x" * (65 << 20)
    raise ValueError(SECRET)


FAILURES = [
    ("public", "RuntimeError", "city is unknown"),
    ("typed", "ValueError", "city is unknown"),
    ("listed", "KeyError", "\"'city'\""),
    ("chained", "HttpError", FAILED),
    ("other", "ValueError", FAILED),
    (
        "result",
        "TypeError",
        "a value of type `builtin_function_or_method` at `result.rows[1]` cannot cross between guest and host",
    ),
    ("big", "TypeError", f"a message of {(65 << 20) + 24} bytes is over the limit of {64 << 20} bytes"),
]


@pytest.mark.parametrize(("kind", "error", "message"), FAILURES, ids=[row[0] for row in FAILURES])
def test_of_a_failure_only_the_type_and_public_text_cross(
    kind: str, error: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ringfence.host")
    with Sandbox(exports=[fail]) as box:
        result = box.run(f"fail({kind!r})")
    assert result.exception is not None
    assert (result.exception.type, result.exception.message) == (
        error,
        message if error != "KeyError" else repr("'city'"),
    )
    assert SECRET not in repr(result) and SECRET not in caplog.text


def test_the_traceback_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ringfence.host")
    run_code("fail('other')", exports=[fail])
    assert SECRET in caplog.text


def test_a_function_that_is_not_exported_is_a_name_error() -> None:
    with Sandbox() as box:
        result = box.run("together(('delete_all', ()))")
    assert result.exception is not None
    assert str(result.exception) == "NameError: name 'delete_all' is not defined"


def test_async_functions_run_in_parallel() -> None:
    barrier: list[int] = []
    release = threading.Event()

    async def meet(x: int) -> int:
        import asyncio

        barrier.append(x)
        if len(barrier) == 3:
            release.set()
        while not release.is_set():
            await asyncio.sleep(0)
        return x

    with Sandbox(exports=[meet, later]) as box:
        assert box.run("together(('meet', (1,)), ('meet', (2,)), ('meet', (3,)))").value == [1, 2, 3]
        assert box.run("later(1)").value == 2


def test_a_host_function_may_use_another_sandbox() -> None:
    with Sandbox() as inner:

        def ask(x: int) -> int:
            with Sandbox() as fresh:
                return int(inner.run(f"{x} + 1").value) + int(fresh.run("1").value)

        with Sandbox(exports=[ask]) as outer:
            assert outer.run("ask(1) + ask(2)").value == 7


def test_host_functions_run_in_the_thread_that_waits() -> None:
    threads: list[int] = []

    def where() -> None:
        threads.append(threading.get_ident())

    run_code("where()", exports=[where])
    assert threads == [threading.get_ident()]


def test_many_threads_share_one_process(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    monkeypatch.setenv("FAKE_PID_FILE", str(pids))
    engines.close_all()
    problems: list[object] = []

    def work(number: int) -> None:
        def own(x: int) -> int:
            return x * 1000 + number

        try:
            with Sandbox(exports=[own]) as box:
                for turn in range(20):
                    value = box.run(f"own({turn})").value
                    if value != turn * 1000 + number:
                        problems.append(value)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == [] and not any(thread.is_alive() for thread in threads)
    assert len(pids.read_text().split()) == 1


def test_large_messages_both_ways_at_once() -> None:
    def echo(x: bytes) -> bytes:
        return x

    with Sandbox(exports=[echo]) as box:
        data = bytes(range(256)) * 8192
        assert (
            box.run("together(*[('echo', (data,))] * 4) == [data] * 4", inputs={"data": data}).value is True
        )


def test_cancel_from_another_thread() -> None:
    with Sandbox(on_output=lambda stream, text: threading.Thread(target=box.cancel).start()) as box:
        result = box.run("wait_for_cancel()")
    assert (result.status, result.stdout) == ("cancelled", "waiting\n")


def test_an_error_in_a_callback_cancels_the_run() -> None:
    def fail_at(stream: str, text: str) -> None:
        raise LookupError(text)

    with Sandbox(on_output=fail_at) as box, pytest.raises(LookupError, match="waiting"):
        box.run("wait_for_cancel()")


def test_ctrl_c_cancels_the_run_and_the_engine_lives_on() -> None:
    def interrupt(stream: str, text: str) -> None:
        signal.raise_signal(signal.SIGINT)

    with Sandbox() as other, Sandbox(on_output=interrupt) as box:
        with pytest.raises(KeyboardInterrupt):
            box.run("wait_for_cancel()")
        assert other.run("1").value == 1


def test_ctrl_c_while_the_pipe_is_read() -> None:
    with Sandbox() as box:
        timer = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            box.run("wait_for_cancel()")
        assert box.run("1").value == 1


def test_sys_exit_in_a_host_function_goes_to_the_caller() -> None:
    def leave() -> None:
        sys.exit(3)

    with Sandbox(exports=[leave]) as box, pytest.raises(SystemExit):
        box.run("leave()")


def test_a_closed_sandbox_says_so() -> None:
    box = Sandbox()
    box.close()
    box.close()
    with pytest.raises(ringfence.SessionClosed) as caught:
        box.run("1")
    assert str(caught.value) == "the sandbox is closed; open a new one"


def test_a_sandbox_that_was_dropped_is_closed_later() -> None:
    box = Sandbox()
    session = box.session
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del box
        gc.collect()
    assert [str(warning.message) for warning in caught] == [f"a sandbox was not closed: {session}"]
    assert session in run_code("closed()").value


BAD_ARGUMENTS: list[tuple[Any, str]] = [
    (lambda: Sandbox(exports=[3]), "exports must be functions, not int"),  # type: ignore[list-item]
    (lambda: Sandbox(exports=[later, later]), "two host functions are called `later`"),
    (
        lambda: Sandbox(limits={"wall": 1.5}),  # type: ignore[dict-item]
        "limit `wall` must be text with a unit such as '5s' or '64MiB', or a whole number",
    ),
    (lambda: run_code(b"1"), "code must be str, not bytes"),  # type: ignore[arg-type]
    (lambda: run_code("'\ud800'"), "text with a lone surrogate cannot cross between guest and host"),
    (
        lambda: run_code("1", inputs={"rows": [print]}),
        "a value of type `builtin_function_or_method` at `rows[0]` cannot cross between guest and host",
    ),
]


@pytest.mark.parametrize(("act", "message"), BAD_ARGUMENTS, ids=[row[1][:40] for row in BAD_ARGUMENTS])
def test_bad_arguments_are_named(act: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        act()
    assert str(caught.value) == message


PROGRAM = """
import os, sys, ringfence
box = ringfence.Sandbox()
print(box.run("1").value, flush=True)
{act}
"""


def run_program(act: str, engine: Path, pids: Path) -> tuple[int, str, str]:
    import os

    environment = {**os.environ, "RINGFENCE_BIN": str(engine), "FAKE_PID_FILE": str(pids)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(act=act)],
        env=environment,
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    for pid in pids.read_text().split():
        wait_until_gone(int(pid))
    return done.returncode, done.stdout, done.stderr


def wait_until_gone(pid: int) -> None:
    import os
    import select

    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ready, _, _ = select.select([handle], [], [], 20)
    os.close(handle)
    assert ready, f"process {pid} is still there"


FORK = """
if os.fork() == 0:
    try:
        box.run("1")
    except ringfence.Crashed as error:
        print(error, flush=True)
    box.close()
    print(ringfence.run_code("2").value, flush=True)
    ringfence.engines.close_all()
    os._exit(0)
os.wait()
print(box.run("3").value)
"""

ENDS: list[tuple[str, int, str]] = [
    ("", 0, "1\n"),
    ("import signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "1\n"),
    ("os._exit(4)", 4, "1\n"),
    (
        FORK,
        0,
        "1\nthis sandbox belongs to the parent process; open a new one after the fork\n2\n3\n",
    ),
]


@pytest.mark.parametrize(("act", "code", "output"), ENDS, ids=["returns", "killed", "leaves", "forks"])
def test_the_engine_ends_with_its_python_process(
    act: str, code: int, output: str, engine: Path, tmp_path: Path
) -> None:
    assert run_program(act, engine, tmp_path / "pids") == (code, output, "")
