"""What a broken engine does to its client: one clear error, never a hang."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import ringfence
from ringfence import Policy, Sandbox, engines, run_code
from ringfence.binary import find_binary
from ringfence.policy import policy_params

from .conftest import FAKE, write_program

MISBEHAVIOURS: list[tuple[str, type[Exception], str]] = [
    (
        "too long",
        ringfence.ProtocolError,
        "sent a frame of 2147483648 bytes is over the limit of 67108864 bytes",
    ),
    ("not JSON", ringfence.ProtocolError, "sent a frame that is not JSON: "),
    ("not UTF-8", ringfence.ProtocolError, "sent a frame that is not JSON: "),
    ("not an object", ringfence.ProtocolError, "sent a frame that is not a JSON object"),
    ("nan", ringfence.ProtocolError, "sent a frame that is not JSON: "),
    ("nested", ringfence.ProtocolError, "sent a frame that is not JSON: "),
    ("neither", ringfence.ProtocolError, "sent a frame that is neither an answer, a call nor an event"),
    ("refusal", ringfence.ProtocolError, "ended the connection: as asked"),
    ("cut", ringfence.Crashed, "ended with exit code 7 in the middle of a frame; what it held is lost"),
    ("silence", ringfence.Crashed, "ended with exit code 7; what it held is lost"),
]


@pytest.mark.parametrize(("how", "error", "message"), MISBEHAVIOURS, ids=[row[0] for row in MISBEHAVIOURS])
def test_a_broken_frame_ends_the_connection(
    how: str, error: type[Exception], message: str, engine: Path
) -> None:
    box = Sandbox()
    with pytest.raises(ringfence.RingfenceError) as caught:
        box.run(f"misbehave({how!r})")
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"`{engine}` {message}")
    with pytest.raises(error):
        box.run("1")
    box.close()
    assert run_code("1").value == 1  # the next one starts a new engine


@pytest.mark.usefixtures("engine")
def test_every_waiting_thread_hears_of_the_death() -> None:
    errors: list[object] = []
    ready = threading.Semaphore(0)

    def wait() -> None:
        box = Sandbox(on_output=lambda stream, text: ready.release())
        try:
            box.run("wait_for_cancel()")
        except ringfence.Crashed as error:
            errors.append(error)
        box.close()

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert ready.acquire(timeout=30)
    with Sandbox() as box, pytest.raises(ringfence.Crashed):
        box.run("misbehave('silence')")
    for thread in threads:
        thread.join(30)
    assert len(errors) == 5


STARTS: list[tuple[str, dict[str, str], type[Exception], str]] = [
    (
        "#!/bin/sh\nexit 3\n",
        {},
        ringfence.Crashed,
        "ended with exit code 3; check that it is the `ringfence` executable",
    ),
    (
        "#!/bin/sh\nkill -9 $$\n",
        {},
        ringfence.Crashed,
        "was ended by signal 9; check that it is the `ringfence` executable",
    ),
    ("#!/bin/sh\nexec cat\n", {}, ringfence.ProtocolError, ""),
    (
        "#!/bin/sh\necho usage: ringfence\nexec sleep 60\n",
        {},
        ringfence.ProtocolError,
        "sent a frame of 1970495847 bytes is over the limit of 67108864 bytes; check that it is the `ringfence` executable",
    ),
    (
        "\x7fELF",
        {},
        ringfence.BinaryNotFound,
        "could not be started: Exec format error; check that it is built for this machine",
    ),
    (
        f"#!/bin/sh\nexec {sys.executable} {FAKE} stdio\n",
        {"FAKE_HELLO": '{"version": 2}'},
        ringfence.ProtocolError,
        "speaks version 2 of the protocol, this package 1; install a package and an executable of the same release",
    ),
]


@pytest.mark.parametrize(("program", "environment", "error", "message"), STARTS)
def test_a_binary_that_is_no_engine(
    program: str,
    environment: dict[str, str],
    error: type[Exception],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    binary = write_program(tmp_path / "ringfence", program)
    with pytest.raises(ringfence.RingfenceError) as caught:
        Sandbox(binary=binary)
    assert type(caught.value) is error
    assert not message or str(caught.value) == f"`{binary}` {message}"


def test_a_silent_binary_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringfence.connection.HELLO_SECONDS", 0.2)
    binary = write_program(tmp_path / "ringfence", "#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(ringfence.ProtocolError, match=r"did not say hello in 0 s; check that it is the"):
        Sandbox(binary=binary)


def test_where_the_binary_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RINGFENCE_BIN", raising=False)
    monkeypatch.setattr("ringfence.binary._script_folders", lambda: iter([tmp_path / "scripts"]))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(ringfence.BinaryNotFound) as caught:
        Sandbox()
    assert str(caught.value) == (
        "the `ringfence` executable was not found beside the package or on the PATH; install the wheel with "
        "`pip install ringfence`, or set RINGFENCE_BIN to the executable's path"
    )
    found = []
    for folder in ("path", "scripts", "env", "named"):
        (tmp_path / folder).mkdir()
        program = write_program(tmp_path / folder / "ringfence", "#!/bin/sh\n")
        if folder == "env":
            monkeypatch.setenv("RINGFENCE_BIN", str(program))
        found.append(find_binary(program if folder == "named" else None) == str(program))
    assert found == [True] * 4


def test_a_named_binary_that_is_missing_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ringfence.BinaryNotFound, match="there is no file `nope`, which binary names; give the path"
    ):
        find_binary("nope")
    monkeypatch.setenv("RINGFENCE_BIN", str(tmp_path / "gone"))
    with pytest.raises(
        ringfence.BinaryNotFound, match="which RINGFENCE_BIN names; correct the variable, or unset it"
    ):
        find_binary()
    plain = tmp_path / "plain"
    plain.touch()
    with pytest.raises(ringfence.BinaryNotFound, match="which binary names, is not executable"):
        find_binary(plain)


def test_an_engine_at_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = subprocess.Popen(
        [sys.executable, FAKE], env={**os.environ, "FAKE_SOCKET": str(path)}, stdout=subprocess.PIPE
    )
    try:
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        address = f"unix:{path}"
        with Sandbox(address=address) as box:
            data = b"x" * (3 << 20)
            assert box.run("data", inputs={"data": data}).value == data
        engines.close_all()
        with Sandbox(address=address) as box:
            assert box.run("1").value == 1
            server.kill()
            with pytest.raises(ringfence.Crashed) as caught:
                box.run("1")
            assert str(caught.value).startswith(f"the engine at `{address}` closed the connection")
    finally:
        server.kill()
        server.communicate()
    with pytest.raises(ringfence.RingfenceError, match="no engine answers at `unix:/nope/s`: No such file"):
        Sandbox(address="unix:/nope/s")
    with pytest.raises(ringfence.RequestError, match="`tcp:1` is not an address; write it as"):
        Sandbox(address="tcp:1")


POLICIES: list[tuple[Any, dict[str, str] | None]] = [
    (None, None),
    (Policy("version = 1"), {"text": "version = 1"}),
    ("/etc/p.toml", {"path": "/etc/p.toml"}),
    (Path("/etc/p.toml"), {"path": "/etc/p.toml"}),
    (
        {
            "version": 1,
            "limits": {"wall": "5s", "processes": 16, "wall_includes_calls": False},
            "filesystem": {"mounts": [{"host": "data", "at": "/data", "mode": "ro"}]},
            "functions": {"send.email": {"arguments": {"to": {"domains": ["a.com"]}}}},
            "name": 'a "b"\n\x7f',
        },
        {
            "text": "version = 1\n"
            'name = "a \\"b\\"\\n\\u007F"\n'
            "\n[limits]\n"
            'wall = "5s"\nprocesses = 16\nwall_includes_calls = false\n'
            "\n[filesystem]\n"
            'mounts = [{ host = "data", at = "/data", mode = "ro" }]\n'
            "\n[functions]\n"
            '\n[functions."send.email"]\n'
            '\n[functions."send.email".arguments]\n'
            '\n[functions."send.email".arguments.to]\n'
            'domains = ["a.com"]\n'
        },
    ),
]


@pytest.mark.parametrize(("policy", "params"), POLICIES)
def test_policies_are_handed_over(policy: Any, params: dict[str, str] | None) -> None:
    assert policy_params(policy) == params
    if isinstance(policy, dict) and sys.version_info >= (3, 11):
        import tomllib

        assert params is not None and tomllib.loads(params["text"]) == policy


def test_policies_that_cannot_be_handed_over() -> None:
    with pytest.raises(
        ringfence.PolicyError, match=r"more than one line; wrap TOML text as `Policy\(text\)`"
    ):
        policy_params("version = 1\n")
    with pytest.raises(ringfence.PolicyError, match=r"the policy's `limits.wall` can't be a NoneType"):
        policy_params({"limits": {"wall": None}})


def test_exports_end_with_their_host_while_the_file_still_loads(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text("import sys\nprint('loading', file=sys.stderr, flush=True)\nwhile True: pass\n")
    command = [sys.executable, "-m", "ringfence.exports", str(tools)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as exports:
        assert exports.stdin is not None and exports.stderr is not None
        assert exports.stderr.readline() == b"loading\n"
        exports.stdin.close()
        exports.stdin = None
        try:
            assert exports.wait(30) == 0
        finally:
            exports.kill()
