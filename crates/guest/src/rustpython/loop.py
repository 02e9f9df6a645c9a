"""The event loop of a session: it waits for the host's answers and for time, and for nothing else.

Answers to: `asyncio`, and `await` at the top of a program. Must not: use sockets, threads or signals.
"""

import _ringfence
import asyncio
import asyncio.base_events
import asyncio.events
import asyncio.unix_events
import concurrent.futures
import concurrent.futures.thread

_pending = {}
_main_loop = None


class _Clock:
    """What the loop asks for events: the host, and how long to wait for it."""

    _busy = 0

    def select(self, timeout):
        if _pending:
            # While tasks can go on, the host is looked at now and then only.
            self._busy = self._busy + 1 if timeout == 0 else 0
            if self._busy % 32:
                return []
            answer = _ringfence.wait(list(_pending), None if timeout is None else float(timeout))
            if answer is not None:
                _settle(*answer)
        elif timeout is None:
            raise RuntimeError("the event loop would wait forever: no task can go on")
        elif timeout > 0:
            _ringfence.sleep(timeout)
        return []

    def close(self):
        pass


def _settle(number, ok, result):
    future = _pending.pop(number, None)
    if future is None or future.done():
        return
    if ok:
        future.set_result(result)
    else:
        future.set_exception(result)


async def defer(name, args, kwargs):
    """Calls an asynchronous host function: the call is under way while others run."""
    future = asyncio.get_running_loop().create_future()
    number = _ringfence.defer(name, args, kwargs)
    _pending[number] = future
    try:
        return await future
    finally:
        _pending.pop(number, None)


class Loop(asyncio.base_events.BaseEventLoop):
    """An event loop without sockets."""

    def __init__(self):
        super().__init__()
        self._selector = _Clock()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass

    def run_in_executor(self, executor, function, *args):
        """Runs it at once: a session has one thread."""
        future = self.create_future()
        try:
            future.set_result(function(*args))
        except BaseException as error:
            if isinstance(error, (SystemExit, KeyboardInterrupt)):
                raise
            future.set_exception(error)
        return future

    async def shutdown_default_executor(self, timeout=None):
        pass


def _absent(module):
    """A method that needs a module which no session has; the engine reports it by that module's name."""

    def method(self, *args, **kwargs):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    return method


for _name in (
    "create_connection create_server create_datagram_endpoint create_unix_connection create_unix_server getaddrinfo "
    "getnameinfo sock_recv sock_sendall sock_connect sock_accept add_reader add_writer start_tls sendfile"
).split():
    setattr(Loop, _name, _absent("socket"))
for _name in "subprocess_exec subprocess_shell connect_read_pipe connect_write_pipe".split():
    setattr(Loop, _name, _absent("subprocess"))


class Executor(concurrent.futures.Executor):
    """A thread pool for a session with one thread: what is submitted is run at once."""

    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=()):
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._max_workers, self._down = max_workers or 1, False
        if initializer is not None:
            initializer(*initargs)

    def submit(self, fn, /, *args, **kwargs):
        if self._down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            if isinstance(error, (SystemExit, KeyboardInterrupt)):
                raise
            future.set_exception(error)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._down = True


Executor.__name__ = Executor.__qualname__ = "ThreadPoolExecutor"
Executor.__module__ = "concurrent.futures.thread"


def run(coroutine):
    """Runs what a program awaits at its top, on a loop that lives as long as the session."""
    global _main_loop
    if _main_loop is None or _main_loop.is_closed():
        _main_loop = Loop()
    asyncio.set_event_loop(_main_loop)
    return _main_loop.run_until_complete(coroutine)


def forget():
    """Drops the answers that nobody waits for any more."""
    _pending.clear()


def install():
    """Makes this the loop that `asyncio` uses."""
    for module in (asyncio, asyncio.unix_events):
        module.EventLoop = module.SelectorEventLoop = Loop
    policy = getattr(asyncio.unix_events, "_DefaultEventLoopPolicy", None)
    policy = policy or asyncio.unix_events.DefaultEventLoopPolicy
    policy._loop_factory = Loop
    concurrent.futures.ThreadPoolExecutor = concurrent.futures.thread.ThreadPoolExecutor = Executor
