"""The async API: `AsyncSandbox`.

Answers to: users. Async host functions run on the event loop, several at once where the
guest awaits several; others run in threads, so that they don't hold up the loop.
Must not: leave a session running when the task that awaits `run` is cancelled.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .connection import Connection
from .engines import connect_async
from .errors import Crashed, RingfenceError, SessionClosed
from .files import AsyncFiles
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


class AsyncSandbox:
    """`Sandbox` for `async` code. It opens at `async with`, or at its first use.

    The options are those of `Sandbox`; `approve` may be async.
    """

    _session: str | None = None
    _closed = False

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
        self._begin(
            Options(
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
        )

    def _begin(
        self, options: Options, connection: Connection | None = None, session: str | None = None
    ) -> None:
        self._options = options
        self._connection = connection
        self._session = session
        self._opening: asyncio.Lock | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.files = AsyncFiles(self._request)

    @classmethod
    def _adopt(cls, options: Options, connection: Connection, session: str) -> AsyncSandbox:
        sandbox = cls.__new__(cls)
        sandbox._begin(options, connection, session)
        return sandbox

    @classmethod
    async def restore(
        cls, snapshot: bytes, policy: PolicyLike = None, **options: Unpack[SandboxOptions]
    ) -> AsyncSandbox:
        """A new sandbox from a snapshot. Takes the same options as the class; the policy must be the same."""
        read = Options(policy, **options)
        connection = await connect_async(read.binary, read.address)
        params = {"snapshot": base64.b64encode(snapshot).decode("ascii"), **read.open_params()}
        result = await connection.request_async("restore", params)
        return cls._adopt(read, connection, read_text(result, "session"))

    async def open(self) -> AsyncSandbox:
        """Opens the session, where it is not open yet."""
        await self._opened()
        return self

    async def _opened(self) -> tuple[Connection, str]:
        if self._connection is not None and self._session is not None:
            return self._connection, self._session
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._closed:
                raise SessionClosed("the sandbox is closed", "open a new one")
            if self._connection is None or self._session is None:
                connection = await connect_async(self._options.binary, self._options.address)
                result = await connection.request_async("open", self._options.open_params())
                self._connection, self._session = connection, read_text(result, "session")
            return self._connection, self._session

    async def run(
        self,
        code: str,
        inputs: Mapping[str, Any] | None = None,
        stdin: str = "",
        check: bool = False,
        file: str = "main.py",
    ) -> Result:
        """Runs a snippet and returns its result, whatever became of it.

        `inputs` are names that are set first. With `check`, anything but `completed` raises.
        Cancelling the task that awaits this cancels the run inside.
        """
        connection, session = await self._opened()
        return await self._work(
            connection, "run", run_params(session, code, inputs or {}, stdin, file), check
        )

    async def exec(
        self,
        command: Sequence[str],
        stdin: bytes | str = b"",
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> Result:
        """Runs a command that is not Python; see `Sandbox.exec`."""
        connection, session = await self._opened()
        params = exec_params(session, command, stdin, folder, environment)
        return await self._work(connection, "exec", params, check)

    async def _work(self, connection: Connection, method: str, params: dict[str, Any], check: bool) -> Result:
        session = params["session"]
        try:
            outcome = await connection.request_async(method, params, self._handle, session)
        except RingfenceError:
            raise
        except BaseException:
            for task in self._tasks:
                task.cancel()
            connection.post("cancel", {"session": session})
            raise
        result = read_result(outcome)
        return result.raise_for_status() if check else result

    async def snapshot(self) -> bytes:
        """The session as bytes, for `restore`, also in another process."""
        return read_bytes(await self._request("snapshot", {}), "snapshot")

    async def fork(self, count: int = 1) -> list[AsyncSandbox]:
        """Sandboxes that start from where this one is, 1 to 100 of them, each on its own from then on.

        In the process tier they share files; `limitations/process.md` tells what else.
        Each has limits of its own.
        """
        connection, _ = await self._opened()
        sessions = read_sessions(await self._request("fork", {"count": count}), count)
        return [self._adopt(self._options, connection, session) for session in sessions]

    async def freeze(self) -> None:
        """Makes the session stand still, also while another task runs in it, until `thaw`.

        It uses no processor, and its wall and idle clocks stand; its lifetime goes on.
        """
        await self._request("freeze", {})

    async def thaw(self) -> None:
        """Lets the session go on."""
        await self._request("thaw", {})

    async def cancel(self) -> None:
        """Ends the run that another task awaits; it gets a result with status `cancelled`."""
        await self._request("cancel", {})

    async def close(self) -> None:
        """Ends the session. Closing twice is fine."""
        self._closed = True
        session, self._session = self._session, None
        if session is None or self._connection is None or not self._connection.alive:
            return
        try:
            await self._connection.request_async("close", {"session": session})
        except (SessionClosed, Crashed):
            return  # it ended by itself

    async def __aenter__(self) -> AsyncSandbox:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if self._session is not None and self._connection is not None:
            warnings.warn(
                f"a sandbox was not closed: {self._session}", ResourceWarning, source=self, stacklevel=1
            )
            self._connection.abandon(self._session)

    def __repr__(self) -> str:
        return f"<AsyncSandbox {self._session or ('closed' if self._closed else 'not open yet')}>"

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        connection, session = await self._opened()
        return await connection.request_async(method, {"session": session, **params})

    def _handle(self, frame: Frame) -> None:
        # Called in the loop's thread, one frame after another: it must not wait.
        if "event" in frame:
            self._options.event(frame)
        elif "call" in frame:
            self._start(self._call(frame["call"], frame))
        elif "approve" in frame:
            self._start(self._approve(frame["approve"], frame))

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop itself keeps tasks only weakly
        task.add_done_callback(self._tasks.discard)

    async def _call(self, number: int, frame: Frame) -> None:
        assert self._connection is not None
        name, args, kwargs = read_call(frame)
        function = self._options.functions.get(name)
        if function is None:
            self._connection.answer(number, not_exported(name))
            return
        try:
            if function.is_async:
                body = await function.call_async(args, kwargs)
            else:
                body = await asyncio.to_thread(function.call, args, kwargs)
        except BaseException as error:  # a cancelled task and `sys.exit` leave no call unanswered
            self._connection.answer(number, {"error": function.failure(error)})
            raise
        self._connection.answer(number, body)

    async def _approve(self, number: int, frame: Frame) -> None:
        assert self._connection is not None
        approved = False
        if self._options.approve is not None:
            try:
                answer = self._options.approve(*read_approval(frame))
                approved = is_yes(await answer if inspect.isawaitable(answer) else answer)
            except Exception as error:
                approved = refuse_after(frame.get("function"), error)
        self._connection.answer(number, {"value": approved})
