"""The result of a run: the outcome of the engine as typed data, and the exception for each status.

Answers to: the client, which builds it, and its users.
Must not: fail on fields that it does not know; a newer engine may send more.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import Any, Literal

from .errors import (
    Cancelled,
    CommandFailed,
    Crashed,
    Denied,
    GuestError,
    Killed,
    LimitExceeded,
    ProtocolError,
    RunError,
    Unsupported,
)
from .values import decode

Status = Literal["completed", "raised", "denied", "limited", "unsupported", "killed", "crashed", "cancelled"]


@dataclasses.dataclass(frozen=True)
class TraceFrame:
    """One line of a traceback."""

    file: str
    line: int
    function: str
    source: str | None = None


@dataclasses.dataclass(frozen=True)
class GuestException:
    """The exception that ended a run. Frames are outermost first."""

    type: str
    message: str
    frames: tuple[TraceFrame, ...] = ()
    cause: GuestException | None = None
    notes: tuple[str, ...] = ()
    exit_code: int | None = None

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclasses.dataclass(frozen=True)
class LimitHit:
    """A limit that struck, in bytes, milliseconds or calls."""

    kind: str
    allowed: int
    reached: int


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a run used, measured by the host."""

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    peak_memory: int = 0
    host_calls: int = 0
    output_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Dropped:
    """Bytes of output that were not kept."""

    stdout: int = 0
    stderr: int = 0


@dataclasses.dataclass(frozen=True)
class Considered:
    """One tier that was looked at, and why it was taken or not."""

    tier: str
    fit: bool
    why: str


@dataclasses.dataclass(frozen=True)
class AuditSpan:
    """First and last record of the run in the audit log."""

    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one run, the same shape for every tier."""

    run_id: str
    session: str
    status: Status
    value: Any = None
    stdout: str = ""
    stderr: str = ""
    exception: GuestException | None = None
    limit: LimitHit | None = None
    reason: str | None = None
    usage: Usage = Usage()
    tier: str | None = None
    engine: str | None = None
    strength: str | None = None
    shown: tuple[dict[str, bytes], ...] = ()
    dropped: Dropped = Dropped()
    chosen: tuple[Considered, ...] = ()
    audit: AuditSpan | None = None
    exit_code: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the program ran to its end, or the command ended with exit code 0."""
        return self.status == "completed" and not self.exit_code

    def raise_for_status(self) -> Result:
        """Raises the error for the status; returns itself where the run completed."""
        error_class = _BY_STATUS[self.status]
        if error_class is not None:
            raise error_class(self._summary(), result=self)
        if self.exit_code:
            raise CommandFailed(f"the command ended with exit code {self.exit_code}", result=self)
        return self

    def _summary(self) -> str:
        if self.status == "raised" and self.exception is not None:
            return str(self.exception)
        if self.status == "limited" and self.limit is not None:
            limit = self.limit
            return f"limit `{limit.kind}` exceeded: {limit.reached} reached, {limit.allowed} allowed"
        return self.reason or f"the run was {self.status}"


_BY_STATUS: dict[str, type[RunError] | None] = {
    "completed": None,
    "raised": GuestError,
    "denied": Denied,
    "limited": LimitExceeded,
    "unsupported": Unsupported,
    "killed": Killed,
    "crashed": Crashed,
    "cancelled": Cancelled,
}


def read_result(outcome: Any) -> Result:
    """The result of an outcome as it came; `ProtocolError` where it is not one."""
    try:
        return _read(outcome)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"an outcome that can't be read: {type(error).__name__}: {error}") from None


def _read(outcome: dict[str, Any]) -> Result:
    status = outcome["status"]
    if status not in _BY_STATUS:
        raise ValueError(f"unknown status `{status}`")
    exception, limit, audit = outcome.get("exception"), outcome.get("limit"), outcome.get("audit")
    reason, value = outcome.get("reason"), None
    try:
        value = decode(outcome.get("value"))
    except ValueError as error:  # the guest made it: it gets an outcome, and must not look completed
        status, reason = "crashed", f"the program's value can't be read: {error}"
    return Result(
        run_id=str(outcome.get("run_id", "")),
        session=str(outcome.get("session", "")),
        status=status,
        value=value,
        stdout=str(outcome.get("stdout") or ""),
        stderr=str(outcome.get("stderr") or ""),
        exception=_exception(exception) if exception else None,
        limit=_known(LimitHit, limit) if limit else None,
        reason=reason,
        usage=_known(Usage, outcome.get("usage") or {}),
        tier=outcome.get("tier"),
        engine=outcome.get("engine"),
        strength=outcome.get("strength"),
        shown=tuple(read_bundle(bundle) for bundle in outcome.get("shown") or ()),
        dropped=_known(Dropped, outcome.get("dropped") or {}),
        chosen=tuple(_known(Considered, row) for row in outcome.get("chosen") or ()),
        audit=_known(AuditSpan, audit) if audit else None,
        exit_code=outcome.get("exit_code"),
    )


def _known(kind: Any, data: dict[str, Any]) -> Any:
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in data.items() if name in names})


def _exception(data: dict[str, Any]) -> GuestException:
    cause = data.get("cause")
    return GuestException(
        type=str(data["type"]),
        message=str(data.get("message") or ""),
        frames=tuple(_known(TraceFrame, frame) for frame in data.get("frames") or ()),
        cause=_exception(cause) if cause else None,
        notes=tuple(str(note) for note in data.get("notes") or ()),
        exit_code=data.get("exit_code"),
    )


def read_bundle(bundle: dict[str, str]) -> dict[str, bytes]:
    """One shown result: its content by MIME type."""
    return {mime: base64.b64decode(content, validate=True) for mime, content in bundle.items()}
