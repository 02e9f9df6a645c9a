"""Runs Python that an AI agent wrote, without trusting it: a client of the `ringfence` engine."""

from .async_sandbox import AsyncSandbox
from .errors import (
    AuditFailed,
    BinaryNotFound,
    Cancelled,
    CommandFailed,
    Crashed,
    Denied,
    GuestError,
    Killed,
    LimitExceeded,
    PolicyError,
    ProtocolError,
    PublicError,
    RequestError,
    RingfenceError,
    RunError,
    SessionClosed,
    SnapshotRefused,
    TierUnavailable,
    Unsupported,
)
from .files import AsyncFiles, Change, Changes, FileEntry, Files, Skipped
from .functions import declare, sandbox_export
from .policy import Policy
from .result import (
    AuditSpan,
    Considered,
    Dropped,
    GuestException,
    LimitHit,
    Result,
    TraceFrame,
    Usage,
)
from .sandbox import Sandbox, run_code
from .values import Record

__version__ = "0.1.0"

__all__ = [
    "AsyncFiles",
    "AsyncSandbox",
    "AuditFailed",
    "AuditSpan",
    "BinaryNotFound",
    "Cancelled",
    "Change",
    "Changes",
    "CommandFailed",
    "Considered",
    "Crashed",
    "Denied",
    "Dropped",
    "FileEntry",
    "Files",
    "GuestError",
    "GuestException",
    "Killed",
    "LimitExceeded",
    "LimitHit",
    "Policy",
    "PolicyError",
    "ProtocolError",
    "PublicError",
    "Record",
    "RequestError",
    "Result",
    "RingfenceError",
    "RunError",
    "Sandbox",
    "SessionClosed",
    "Skipped",
    "SnapshotRefused",
    "TierUnavailable",
    "TraceFrame",
    "Unsupported",
    "Usage",
    "__version__",
    "declare",
    "run_code",
    "sandbox_export",
]
