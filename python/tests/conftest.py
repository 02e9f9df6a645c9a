"""The fake engine as an executable, for every test but those of the real one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence import engines

FAKE = Path(__file__).with_name("fake_engine.py")


def write_program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def listen_to_ctrl_c() -> None:
    """A shell's background job is started deaf to it, and would wait for ever."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def fake_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    return write_program(folder / "ringfence", f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')


@pytest.fixture
def engine(fake_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every sandbox of the test uses the fake engine."""
    monkeypatch.setenv("RINGFENCE_BIN", str(fake_binary))
    yield fake_binary
    if not all(connection.alive for connection in engines._connections.values()):
        engines.close_all()


@pytest.fixture(scope="session", autouse=True)
def end_engines() -> Iterator[None]:
    yield
    engines.close_all()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names every test that was not run: a skip must not look like a pass."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("not run")
        for report in skipped:
            terminalreporter.write_line(f"{report.nodeid}: {report.longrepr[2]}")
