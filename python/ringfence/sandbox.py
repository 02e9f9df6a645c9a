"""The sync API: `Sandbox` and `run_code`.

Answers to: users. Host functions run in the thread that waits in `run`, async ones on a
background loop; so a host function may use another sandbox.
Must not: keep a session open after `close`, or leave one running when `run` is interrupted.
"""

from __future__ import annotations

import asyncio
import base64
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .background import background_loop
from .connection import Connection
from .engines import connect
from .errors import Crashed, RingfenceError, SessionClosed
from .files import Files
from .functions import HostFunction
from .options import (
    Approve,
    LimitLike,
    OnOutput,
    OnShown,
    OnThreshold,
    Options,
    SandboxOptions,
    exec_params,
    is_yes,
    not_exported,
    read_approval,
    read_bytes,
    read_call,
    read_sessions,
    read_text,
    refuse_after,
    run_params,
)
from .policy import PolicyLike
from .result import Result, read_result
from .waiters import Frame

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Sandbox:
    """One session: what a snippet defines, the next one sees. Close it, or use it in a `with`.

    `policy` is the path of a policy file, a `Policy`, a dict, or None for the closed policy with
    the functions in `exports`: no files, no network. Where there is a policy, only functions that
    are in `exports` and that it lists can be called.
    """

    _session: str | None = None

    def __init__(
        self,
        policy: PolicyLike = None,
        *,
        exports: Iterable[Callable[..., Any]] = (),
        tier: str | None = None,
        engine: str | None = None,
        limits: Mapping[str, LimitLike] | None = None,
        tenant: str | None = None,
        binary: str | os.PathLike[str] | None = None,
        address: str | None = None,
        approve: Approve | None = None,
        on_output: OnOutput | None = None,
        on_shown: OnShown | None = None,
        on_threshold: OnThreshold | None = None,
    ) -> None:
        options = Options(
            policy,
            exports,
            tier,
            engine,
            limits,
            tenant,
            binary,
            address,
            approve,
            on_output,
            on_shown,
            on_threshold,
        )
        connection = connect(binary, address)
        result = connection.request("open", options.open_params())
        self._begin(options, connection, read_text(result, "session"))

    def _begin(self, options: Options, connection: Connection, session: str) -> None:
        self._options = options
        self._connection = connection
        self._session = session
        self.files = Files(self._request)

    @classmethod
    def _adopt(cls, options: Options, connection: Connection, session: str) -> Sandbox:
        sandbox = cls.__new__(cls)
        sandbox._begin(options, connection, session)
        return sandbox

    @classmethod
    def restore(
        cls, snapshot: bytes, policy: PolicyLike = None, **options: Unpack[SandboxOptions]
    ) -> Sandbox:
        """A new sandbox from a snapshot. Takes the same options as the class; the policy must be the same."""
        read = Options(policy, **options)
        connection = connect(read.binary, read.address)
        params = {"snapshot": base64.b64encode(snapshot).decode("ascii"), **read.open_params()}
        return cls._adopt(read, connection, read_text(connection.request("restore", params), "session"))

    @property
    def session(self) -> str:
        """The session's id; `SessionClosed` after `close`."""
        if self._session is None:
            raise SessionClosed("the sandbox is closed", "open a new one")
        return self._session

    def run(
        self,
        code: str,
        inputs: Mapping[str, Any] | None = None,
        stdin: str = "",
        check: bool = False,
        file: str = "main.py",
    ) -> Result:
        """Runs a snippet and returns its result, whatever became of it.

        `inputs` are names that are set first. With `check`, anything but `completed` raises. An
        exception here, Ctrl-C too, cancels the run inside.
        """
        return self._work("run", run_params(self.session, code, inputs or {}, stdin, file), check)

    def exec(
        self,
        command: Sequence[str],
        stdin: bytes | str = b"",
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> Result:
        """Runs a command that is not Python, such as `["ls", "-l"]`, with the session's files and limits.

        Only the process tier has commands: open the sandbox with `tier="process"`. How it ended is in
        `exit_code`. With `check`, anything but exit code 0 raises.
        """
        return self._work("exec", exec_params(self.session, command, stdin, folder, environment), check)

    def _work(self, method: str, params: dict[str, Any], check: bool) -> Result:
        try:
            outcome = self._connection.request(method, params, self._handle, self.session)
        except RingfenceError:
            raise
        except BaseException:
            self._connection.post("cancel", {"session": params["session"]})
            raise
        result = read_result(outcome)
        return result.raise_for_status() if check else result

    def snapshot(self) -> bytes:
        """The session as bytes, for `Sandbox.restore`, also in another process."""
        return read_bytes(self._request("snapshot", {}), "snapshot")

    def fork(self, count: int = 1) -> list[Sandbox]:
        """Sandboxes that start from where this one is, 1 to 100 of them, each on its own from then on.

        In the process tier they share files; `limitations/process.md` tells what else.
        Each has limits of its own.
        """
        sessions = read_sessions(self._request("fork", {"count": count}), count)
        return [self._adopt(self._options, self._connection, session) for session in sessions]

    def freeze(self) -> None:
        """Makes the session stand still, also while another thread runs in it, until `thaw`.

        It uses no processor, and its wall and idle clocks stand; its lifetime goes on.
        """
        self._request("freeze", {})

    def thaw(self) -> None:
        """Lets the session go on."""
        self._request("thaw", {})

    def cancel(self) -> None:
        """Ends the run that another thread waits for; it gets a result with status `cancelled`."""
        self._request("cancel", {})

    def close(self) -> None:
        """Ends the session. Closing twice is fine."""
        session, self._session = self._session, None
        if session is None or not self._connection.alive:
            return
        try:
            self._connection.request("close", {"session": session})
        except (SessionClosed, Crashed):
            return  # it ended by itself

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._session is not None:
            warnings.warn(
                f"a sandbox was not closed: {self._session}", ResourceWarning, source=self, stacklevel=1
            )
            self._connection.abandon(self._session)

    def __repr__(self) -> str:
        return f"<Sandbox {self._session or 'closed'}>"

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self._connection.request(method, {"session": self.session, **params})

    def _handle(self, frame: Frame) -> None:
        if "event" in frame:
            self._options.event(frame)
        elif "call" in frame:
            self._call(frame["call"], frame)
        elif "approve" in frame:
            self._connection.answer(frame["approve"], {"value": self._approve(frame)})

    def _call(self, number: int, frame: Frame) -> None:
        name, args, kwargs = read_call(frame)
        function = self._options.functions.get(name)
        if function is None:
            self._connection.answer(number, not_exported(name))
        elif function.is_async:
            answer = _answer_async(self._connection, number, function, args, kwargs)
            asyncio.run_coroutine_threadsafe(answer, background_loop())
        else:
            try:
                body = function.call(args, kwargs)
            except BaseException as error:  # Ctrl-C and `sys.exit` go on to the caller
                self._connection.answer(number, {"error": function.failure(error)})
                raise
            self._connection.answer(number, body)

    def _approve(self, frame: Frame) -> bool:
        if self._options.approve is None:
            return False
        try:
            return is_yes(self._options.approve(*read_approval(frame)))
        except Exception as error:
            return refuse_after(frame.get("function"), error)


async def _answer_async(
    connection: Connection, number: int, function: HostFunction, args: list[Any], kwargs: dict[str, Any]
) -> None:
    try:
        body = await function.call_async(args, kwargs)
    except BaseException as error:
        body = {"error": function.failure(error)}
    connection.answer(number, body)


def run_code(
    code: str,
    policy: PolicyLike = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    stdin: str = "",
    check: bool = False,
    file: str = "main.py",
    **options: Unpack[SandboxOptions],
) -> Result:
    """Runs one snippet in a fresh sandbox. Takes the options of `Sandbox` and of `Sandbox.run`."""
    with Sandbox(policy, **options) as sandbox:
        return sandbox.run(code, inputs, stdin, check, file)
