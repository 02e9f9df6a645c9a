"""What a sandbox is opened with, in the form of the `open` request, and what comes back.

Answers to: `sandbox` and `async_sandbox`, which differ only in how they wait.
Must not: send or receive anything.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from .errors import ProtocolError
from .functions import HostFunction, host_functions, logger, unknown_function
from .policy import PolicyLike, policy_params
from .result import read_bundle
from .values import decode, encode
from .waiters import Frame

LimitLike = str | int | bool | datetime.timedelta
Approve = Callable[[str, dict[str, Any]], Any]
OnOutput = Callable[[str, str], Any]
OnShown = Callable[[dict[str, bytes]], Any]
OnThreshold = Callable[[str, str, int, int], Any]


class SandboxOptions(TypedDict, total=False):
    """The options of a sandbox beside its policy, for functions that pass them on."""

    exports: Iterable[Callable[..., Any]]
    tier: str | None
    engine: str | None
    limits: Mapping[str, LimitLike] | None
    tenant: str | None
    binary: str | os.PathLike[str] | None
    address: str | None
    approve: Approve | None
    on_output: OnOutput | None
    on_shown: OnShown | None
    on_threshold: OnThreshold | None


@dataclasses.dataclass
class Options:
    """Everything that a session is opened with."""

    policy: PolicyLike = None
    exports: dataclasses.InitVar[Iterable[Callable[..., Any]]] = ()
    tier: str | None = None
    engine: str | None = None
    limits: Mapping[str, LimitLike] | None = None
    tenant: str | None = None
    binary: str | os.PathLike[str] | None = None
    address: str | None = None
    approve: Approve | None = None
    on_output: OnOutput | None = None
    on_shown: OnShown | None = None
    on_threshold: OnThreshold | None = None
    functions: dict[str, HostFunction] = dataclasses.field(init=False)

    def __post_init__(self, exports: Iterable[Callable[..., Any]]) -> None:
        self.functions = host_functions(exports)

    def open_params(self) -> dict[str, Any]:
        """The parameters of `open` and `restore`."""
        return {
            "policy": policy_params(self.policy),
            "tier": self.tier,
            "engine": self.engine,
            "tenant": self.tenant,
            "functions": [function.spec for function in self.functions.values()],
            "limits": {name: _limit(name, limit) for name, limit in (self.limits or {}).items()},
            "approvals": self.approve is not None,
            "output": self.on_output is not None,
            "shown": self.on_shown is not None,
            "thresholds": self.on_threshold is not None,
        }

    def event(self, frame: Frame) -> None:
        """Hands an event to its callback. Events that this version does not know are left alone."""
        if frame["event"] == "output" and self.on_output is not None:
            self.on_output(str(frame.get("stream")), str(frame.get("text", "")))
        elif frame["event"] == "shown" and self.on_shown is not None:
            self.on_shown(_bundle(frame.get("bundle")))
        elif frame["event"] == "threshold" and self.on_threshold is not None:
            self.on_threshold(*_threshold(frame))


def _threshold(frame: Frame) -> tuple[str, str, int, int]:
    try:
        return (
            str(frame["action"]),
            str(frame["measure"]),
            int(frame["threshold"]),
            int(frame["reached"]),
        )
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("the engine sent a threshold that can't be read") from None


def _limit(name: str, limit: LimitLike) -> str | int | bool:
    if isinstance(limit, datetime.timedelta):
        return f"{limit // datetime.timedelta(milliseconds=1)}ms"
    if isinstance(limit, (str, int)):
        return limit
    raise TypeError(f"limit `{name}` must be text with a unit such as '5s' or '64MiB', or a whole number")


def run_params(session: str, code: str, inputs: Mapping[str, Any], stdin: str, file: str) -> dict[str, Any]:
    """The parameters of `run`."""
    if not isinstance(code, str):
        raise TypeError(f"code must be str, not {type(code).__name__}")
    return {
        "session": session,
        "code": code,
        "file": file,
        "inputs": {name: encode(value, name) for name, value in inputs.items()},
        "stdin": stdin,
    }


def exec_params(
    session: str,
    command: Sequence[str],
    stdin: bytes | str,
    folder: str | None,
    environment: Mapping[str, str] | None,
) -> dict[str, Any]:
    """The parameters of `exec`."""
    if isinstance(command, (str, bytes)) or not all(isinstance(word, str) for word in command):
        raise TypeError("command must be a list of str, such as ['ls', '-l']")
    data = stdin.encode() if isinstance(stdin, str) else bytes(stdin)
    return {
        "session": session,
        "command": list(command),
        "stdin": base64.b64encode(data).decode("ascii"),
        "folder": folder,
        "environment": dict(environment or {}),
    }


def read_call(frame: Frame) -> tuple[str, list[Any], dict[str, Any]]:
    """The function, `args` and `kwargs` of a call."""
    args, kwargs = frame.get("args") or [], frame.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ProtocolError("a call whose arguments are not a list and an object")
    return str(frame.get("function")), args, kwargs


def not_exported(name: str) -> dict[str, Any]:
    """The answer to a call of a function that this sandbox has not."""
    return {"error": unknown_function(name)}


def read_approval(frame: Frame) -> tuple[str, dict[str, Any]]:
    """The function and the arguments that are to be approved."""
    arguments = frame.get("arguments") or {}
    return str(frame.get("function")), {name: decode(value, name) for name, value in arguments.items()}


def refuse_after(function: object, error: Exception) -> bool:
    """A failed approval callback is a refusal; why is only logged here."""
    logger.warning("approval of `%s` failed with `%s`; refused", function, type(error).__name__)
    logger.log(logging.DEBUG, "approval of `%s` failed", function, exc_info=error)
    return False


def is_yes(answer: object) -> bool:
    """Only `True` approves: a forgotten `await` or a truthy object must not."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError("an async approval callback needs an AsyncSandbox")
    return answer is True


def read_text(result: dict[str, Any], key: str) -> str:
    """A text of a result; `ProtocolError` where it is missing."""
    text = result.get(key)
    if not isinstance(text, str):
        raise ProtocolError(f"the engine sent a result without `{key}`")
    return text


def read_bytes(result: dict[str, Any], key: str) -> bytes:
    """Bytes of a result, sent as base64."""
    try:
        return base64.b64decode(read_text(result, key), validate=True)
    except binascii.Error:
        raise ProtocolError(f"the engine sent a `{key}` that is not base64") from None


def write_bytes(content: bytes | str | os.PathLike[str]) -> str:
    """Content as base64: bytes as they are, text as UTF-8, a `Path` by what is in the file."""
    if isinstance(content, str):
        content = content.encode()
    elif isinstance(content, os.PathLike):
        content = Path(content).read_bytes()
    elif not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f"content must be bytes, str or a Path, not {type(content).__name__}")
    return base64.b64encode(content).decode("ascii")


def read_sessions(result: dict[str, Any], count: int) -> list[str]:
    """The sessions that a fork made."""
    sessions = result.get("sessions")
    if not isinstance(sessions, list) or len(sessions) != count:
        raise ProtocolError("the engine sent a result without as many `sessions` as were asked for")
    return [str(session) for session in sessions]


def _bundle(bundle: Any) -> dict[str, bytes]:
    try:
        return read_bundle(bundle)
    except (AttributeError, TypeError, ValueError):
        raise ProtocolError("the engine sent a shown result that is not base64 by MIME type") from None
