"""The async API against the fake engine: the same methods, parallel calls, cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import ringfence
from ringfence import AsyncSandbox, Sandbox

pytestmark = pytest.mark.usefixtures("engine")


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


def blocking(x: int) -> tuple[int, bool]:
    return x, threading.current_thread() is threading.main_thread()


def test_every_method(tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncSandbox(exports=[blocking], limits={"wall": "5s"}) as box:
            assert (await box.run("x = 1; blocking(x)")).value == (1, False)
            saved = await box.snapshot()
            copies = await box.fork(2)
            assert [(await copy.run("x")).value for copy in copies] == [1, 1]
            await asyncio.gather(*(copy.close() for copy in copies))
            await box.files.put("a", b"1")
            assert await box.files.get("a", to=tmp_path / "a") == (tmp_path / "a").read_bytes() == b"1"
            assert await box.files.list() == [ringfence.FileEntry("a", 1, False)]
            await box.files.remove("a")
        async with await AsyncSandbox.restore(saved, exports=[blocking]) as back:
            assert (await back.run("x")).value == 1
        with pytest.raises(ringfence.SessionClosed):
            await box.run("1")
        with pytest.raises(ringfence.GuestError):
            await AsyncSandbox().run("1/0", check=True)

    with pytest.warns(ResourceWarning):
        run(work())
        import gc

        gc.collect()


def test_async_functions_of_one_run_meet_each_other() -> None:
    async def work() -> None:
        arrived: list[int] = []
        all_here = asyncio.Event()

        async def meet(x: int) -> int:
            arrived.append(x)
            if len(arrived) == 4:
                all_here.set()
            await all_here.wait()
            return x * 2

        async with AsyncSandbox(exports=[meet]) as box:
            result = await box.run("together(*[('meet', (n,)) for n in range(4)])")
        assert result.value == [0, 2, 4, 6]

    run(work())


def test_many_sandboxes_at_once_beside_threads() -> None:
    async def one(number: int) -> int:
        async def own(x: int) -> int:
            return x + number

        async with AsyncSandbox(exports=[own]) as box:
            values = [(await box.run(f"own({turn})")).value for turn in range(10)]
        assert values == [turn + number for turn in range(10)]
        return number

    def in_thread(number: int) -> int:
        with Sandbox(exports=[blocking]) as box:
            values = [box.run(f"blocking({turn})").value[0] for turn in range(10)]
        assert values == list(range(10))
        return number

    async def work() -> list[int]:
        tasks = [one(number) for number in range(20)]
        threads = [asyncio.to_thread(in_thread, number) for number in range(4)]
        return list(await asyncio.gather(*tasks, *threads))

    assert run(work()) == [*range(20), *range(4)]


def test_cancelling_the_task_cancels_the_run() -> None:
    async def work() -> None:
        waiting = asyncio.Event()
        async with AsyncSandbox(on_output=lambda stream, text: waiting.set()) as box:
            task = asyncio.create_task(box.run("wait_for_cancel()"))
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await box.run("1")).value == 1

    run(work())


def test_cancel_gives_a_result() -> None:
    async def work() -> str:
        waiting = asyncio.Event()
        async with AsyncSandbox(on_output=lambda stream, text: waiting.set()) as box:
            task = asyncio.create_task(box.run("wait_for_cancel()"))
            await waiting.wait()
            await box.cancel()
            return (await task).status

    assert run(work()) == "cancelled"


def test_approvals_may_be_async() -> None:
    async def approve(function: str, arguments: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        return function == "send"

    async def work() -> Any:
        async with AsyncSandbox(approve=approve) as box:
            return (await box.run("approve('send', {}), approve('drop', {})")).value

    assert run(work()) == (True, False)


def test_host_functions_see_the_context_of_the_run() -> None:
    user = contextvars.ContextVar("user", default="nobody")

    async def who() -> str:
        return user.get()

    async def work() -> Any:
        async with AsyncSandbox(exports=[who]) as box:
            user.set("ada")
            return (await box.run("who()")).value

    assert run(work()) == "ada"


def test_an_error_in_a_callback_ends_the_run() -> None:
    def fail(stream: str, text: str) -> None:
        raise LookupError(text)

    async def work() -> None:
        async with AsyncSandbox(on_output=fail) as box:
            with pytest.raises(LookupError, match="waiting"):
                await box.run("wait_for_cancel()")

    run(work())


def test_failures_of_async_functions_are_as_closed_as_others() -> None:
    async def fail() -> None:
        raise ValueError("secret")

    async def cancelled() -> None:
        raise asyncio.CancelledError("secret")

    async def work() -> list[str]:
        async with AsyncSandbox(exports=[fail, cancelled]) as box:
            return [str((await box.run(code)).exception) for code in ("fail()", "cancelled()")]

    failed = "the host function failed"
    assert run(work()) == [f"ValueError: {failed}", f"CancelledError: {failed}"]


def test_the_engines_death_reaches_every_task() -> None:
    async def work() -> list[Any]:
        waiting = asyncio.Event()
        async with AsyncSandbox(on_output=lambda stream, text: waiting.set()) as one, AsyncSandbox() as two:
            task = asyncio.create_task(one.run("wait_for_cancel()"))
            await waiting.wait()
            return list(await asyncio.gather(task, two.run("misbehave('cut')"), return_exceptions=True))

    assert [type(result) for result in run(work())] == [ringfence.Crashed] * 2
    assert run(AsyncSandbox().run("1")).value == 1  # a new engine, on a new loop
