"""Every error of the package, under one base class.

Answers to: the client, which raises them, and users, who catch them by class.
Must not: import anything of the package; errors are at the bottom of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import GuestException, LimitHit, Result


class RingfenceError(Exception):
    """The base of every error here. `hint`, where there is one, is the next step."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class RunError(RingfenceError):
    """A run that did not complete. `result` is its whole result, where there is one."""

    def __init__(self, message: str, hint: str | None = None, result: Result | None = None) -> None:
        super().__init__(message, hint)
        self.result = result


class GuestError(RunError):
    """The program inside raised an exception."""

    @property
    def exception(self) -> GuestException | None:
        """The exception with its frames."""
        return self.result.exception if self.result else None


class CommandFailed(RunError):
    """A command ended with an exit code other than 0."""

    @property
    def exit_code(self) -> int | None:
        """Its exit code, or 128 and the number of the signal that ended it."""
        return self.result.exit_code if self.result else None


class LimitExceeded(RunError):
    """A limit struck."""

    @property
    def limit(self) -> LimitHit | None:
        """Which limit, what was allowed and what was reached."""
        return self.result.limit if self.result else None


class Denied(RunError):
    """The policy refused the run."""


class Unsupported(RunError):
    """No tier that the policy allows can do this."""


class TierUnavailable(Unsupported):
    """The tier is known, but can't be used on this machine."""


class Killed(RunError):
    """A kill switch or `ringfence kill` ended the run."""


class Crashed(RunError):
    """What ran the program died: the worker inside, or the `ringfence` process itself."""


class Cancelled(RunError):
    """The caller gave the run up."""


class BinaryNotFound(RingfenceError):
    """The `ringfence` executable is missing or can't be started."""


class PolicyError(RingfenceError):
    """The policy is not a valid one."""


class RequestError(RingfenceError):
    """Something that the engine refused: a limit without its unit, a file that is not there."""


class SessionClosed(RingfenceError):
    """The session has ended."""


class SnapshotRefused(RingfenceError):
    """The bytes are not a snapshot that this policy and tenant may restore."""


class AuditFailed(RingfenceError):
    """The audit log could not be written, so nothing was run."""


class ProtocolError(RingfenceError):
    """The two ends do not speak the same language: a broken frame, or versions that differ."""


class PublicError(Exception):
    """Raised by a host function to show the guest this message; `type` is the exception it sees."""

    def __init__(self, message: str, *, type: str = "RuntimeError") -> None:
        super().__init__(message)
        self.message = message
        self.type = type


_BY_CODE: dict[str, type[RingfenceError]] = {
    "bad_policy": PolicyError,
    "bad_request": RequestError,
    "no_session": SessionClosed,
    "denied": Denied,
    "unsupported": Unsupported,
    "tier_unavailable": TierUnavailable,
    "audit_failed": AuditFailed,
    "snapshot_refused": SnapshotRefused,
    "crashed": Crashed,
}


def error_from(code: str, message: str, hint: str | None) -> RingfenceError:
    """The exception for an error code of the protocol; an unknown code is the base class."""
    return _BY_CODE.get(code, RingfenceError)(message, hint)
