"""Host functions as real functions of Python, with the signature, defaults, annotations and docstring they have there.

Answers to: `session`, which declares them once. Must not: check more than Python itself would of a call: the host
checks arguments and results.
"""

from __future__ import annotations

import builtins
import keyword
import sys
import threading
import types
import typing

from . import values, wire
from .link import Elsewhere
from .wire import Broken, Reader, text, u32, u64

__builtins__ = dict(vars(builtins))

_STEERING = ("StopIteration", "StopAsyncIteration", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError")


def _ordinary() -> dict:
    """The builtin exceptions that a host function's failure may be, by name: those that steer a program are not."""
    found = {}
    for name, value in vars(builtins).items():
        if isinstance(value, type) and issubclass(value, Exception) and name not in _STEERING:
            if not name.endswith("Group"):
                found[name] = value
    return found


_exceptions = _ordinary()
_made: dict = {}


def _exception(name: str, message: str) -> BaseException:
    """The builtin exception of that name, or one of a class that is made for it."""
    kind = _exceptions.get(name) or _made.get(name)
    if kind is None:
        steers = isinstance(getattr(builtins, name, None), type)
        if steers or not name.isidentifier() or keyword.iskeyword(name) or len(name) > 120 or len(_made) >= 256:
            return RuntimeError(f"{name}: {message}" if name else message)
        kind = _made[name] = type(name, (RuntimeError,), {"__module__": "host"})
    return kind(message)


class Bridge:
    """Calls to the host, from any thread and under any event loop."""

    def __init__(self, link, flush) -> None:
        self._link = link
        self._flush = flush
        self._loops: dict = {}

    def call(self, name: str, args: tuple, kwargs: dict):
        """Calls and waits."""
        number = self._ask(name, args, kwargs, False)
        return _result(self._link.wait_for(number))

    async def defer(self, name: str, args: tuple, kwargs: dict):
        """Calls, and lets others go on until the answer is there."""
        asyncio = sys.modules.get("asyncio")
        loop = asyncio._get_running_loop() if asyncio is not None else None
        if loop is None:
            # Under another kind of loop, or none: the call is like any other.
            return self.call(name, args, kwargs)
        waits = self._loops.get(id(loop))
        if waits is None or waits.loop is not loop:
            self._prune()
            waits = self._loops[id(loop)] = _Waits(self._link, loop)
        future = loop.create_future()
        number = self._ask(name, args, kwargs, True, lambda number: waits.add(number, future))
        try:
            return _result(await future)
        finally:
            waits.drop(number)

    def _ask(self, name: str, args: tuple, kwargs: dict, deferred: bool, before=None) -> int:
        if not self._link.alive:
            raise Elsewhere(f"`{name}` can be called in the session's first process only")
        body = _call_body(name, args, kwargs, deferred)
        self._flush()
        number = self._link.next_number()
        if before is not None:
            before(number)
        self._link.send(wire.frame(wire.CALL, u64(number) + body))
        return number

    def _prune(self) -> None:
        for key, waits in list(self._loops.items()):
            if waits.loop.is_closed():
                del self._loops[key]

    def settle(self) -> None:
        """Between two snippets: the host has forgotten every call."""
        for waits in list(self._loops.values()):
            waits.give_up()
        self._prune()


class _Waits:
    """The calls that are under way under one event loop."""

    def __init__(self, link, loop) -> None:
        self.loop = loop
        self._link = link
        self._thread = threading.get_ident()
        self._futures: dict = {}
        self._watching = False
        _announce_waits(loop, self)

    def add(self, number: int, future) -> None:
        """Before the call is sent."""
        self._thread = threading.get_ident()
        self._futures[number] = future
        self._link.expect(number, lambda body: self._deliver(number, body))
        if not self._watching:
            self._watching = True
            try:
                self.loop.add_reader(self._link.fd, self._link.read_now)
            except NotImplementedError:
                # A loop that watches no descriptors: a thread does, which waits for what never comes.
                threading.Thread(target=self._link.wait_for, args=("never",), daemon=True).start()

    def drop(self, number: int) -> None:
        """The call is over, or nobody waits for it any more."""
        self._link.forget(number)
        self._futures.pop(number, None)
        if not self._futures:
            self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watching and not self.loop.is_closed():
            try:
                self.loop.remove_reader(self._link.fd)
                self._watching = False
            except NotImplementedError:
                return

    def give_up(self) -> None:
        """No answer will come."""
        self._futures.clear()
        self._stop_watching()

    def _deliver(self, number: int, body: bytes) -> None:
        """From whichever thread read it."""
        future = self._futures.get(number)
        if future is None:
            return
        here = threading.get_ident() == self._thread and self.loop.is_running()
        try:
            (self.loop.call_soon if here else self.loop.call_soon_threadsafe)(_settle, future, body)
        except RuntimeError:
            return  # the loop was closed

    def before_sleep(self, watched: int) -> None:
        """The loop is about to sleep without a timer: where only the host can wake it, the host is told for what it waits.

        With a timer it is the program that waits, and its clock goes on.
        """
        if not self._futures or watched > 2 or not self._link.alive:
            return
        numbers = list(self._futures)[:4096]
        self._link.send(wire.frame(wire.AWAIT, u32(len(numbers)) + b"".join(map(u64, numbers))))


def _settle(future, body: bytes) -> None:
    if not future.done():
        future.set_result(body)


def _announce_waits(loop, waits: _Waits) -> None:
    """Looks at what the loop's selector is asked, where the loop has one."""
    selector = getattr(loop, "_selector", None)
    select = getattr(selector, "select", None)
    if select is None or not hasattr(selector, "get_map"):
        return

    def looking(timeout=None):
        if (timeout is not None and timeout <= 0) or not waits._futures:
            return select(timeout)
        events = select(0)
        if not events and timeout is None:
            waits.before_sleep(len(selector.get_map()))
        return events or select(timeout)

    try:
        selector.select = looking
    except AttributeError:
        return


def _result(body: bytes):
    """What the host answered: the value, or the exception raised."""
    reader = Reader(body, 8)
    if reader.flag():
        return values.read(reader)
    raise _exception(reader.text(), reader.text())


def _call_body(name: str, args: tuple, kwargs: dict, deferred: bool) -> bytes:
    writer = values.Writer()
    try:
        writer.out += text(name) + (b"\1" if deferred else b"\0") + u32(len(args))
        for index, value in enumerate(args):
            writer.value(f"args[{index}]", value)
        writer.out += u32(len(kwargs))
        for key, value in kwargs.items():
            writer.out += text(key)
            writer.value(f"args.{key}", value)
    except values.NotPlain as refused:
        # As Python's own encoders do: a cycle is a bad value, everything else a bad type.
        message, kind = str(refused), ValueError if refused.is_cycle else TypeError
    else:
        return bytes(writer.out)
    raise kind(message)


# --- declarations ---------------------------------------------------------------------------------------------------


def head(spec: dict) -> str:
    """The function's head as Python source, always synchronous."""
    parts: list = []
    starred = False
    parameters = spec.get("parameters", [])
    for index, parameter in enumerate(parameters):
        kind = parameter.get("kind", "positional_or_keyword")
        if kind == "var_positional":
            starred = True
        elif kind == "keyword_only" and not starred:
            parts.append("*")
            starred = True
        parts.append(_declaration(parameter, kind))
        after = parameters[index + 1].get("kind") if index + 1 < len(parameters) else None
        if kind == "positional_only" and after != "positional_only":
            parts.append("/")
    returns = spec.get("returns")
    arrow = f" -> {returns}" if returns is not None else ""
    return f"def {spec['name']}({', '.join(parts)}){arrow}"


def _declaration(parameter: dict, kind: str) -> str:
    stars = {"var_positional": "*", "var_keyword": "**"}.get(kind, "")
    annotation, default = parameter.get("annotation"), parameter.get("default")
    noted = f": {annotation}" if annotation is not None else ""
    equals = " = " if annotation is not None else "="
    given = f"{equals}{default['source']}" if default is not None else ""
    return f"{stars}{parameter['name']}{noted}{given}"


def _fitting(spec: dict):
    """A function with the signature that is declared; with any, where Python can't read the declaration."""
    name = spec["name"]
    if not name.isidentifier() or keyword.iskeyword(name):
        raise Broken
    for source in (head(spec), f"def {name}(*args, **kwargs)"):
        space = {key: getattr(typing, key) for key in typing.__all__ if hasattr(typing, key)}
        space["__name__"] = "host"
        try:
            code = compile(f"from __future__ import annotations\n{source}: ...", "<host function>", "exec")
            exec(code, space)  # noqa: S102 - the host's own declaration
            return space[name]
        except Exception:  # noqa: S112 - the next one compiles
            continue
    raise Broken


def _function(bridge: Bridge, spec: dict):
    name = spec["name"]
    fits = _fitting(spec)
    if spec.get("is_async"):

        async def function(*args, **kwargs):
            fits(*args, **kwargs)
            return await bridge.defer(name, args, kwargs)

    else:

        def function(*args, **kwargs):
            fits(*args, **kwargs)
            return bridge.call(name, args, kwargs)

    fits.__module__ = function.__module__ = "host"
    fits.__doc__ = function.__doc__ = spec.get("doc") or None
    function.__name__ = function.__qualname__ = name
    function.__annotations__ = fits.__annotations__
    function.__defaults__, function.__kwdefaults__ = fits.__defaults__, fits.__kwdefaults__
    function.__wrapped__ = fits
    return function


_declared: dict = {}


def declare(bridge: Bridge, specs: list, main) -> None:
    """Makes the host functions: names of the program, of every module, and of a module `host`. Takes away those that
    were made before."""
    for name, function in _declared.items():
        del vars(main)[name]
        if getattr(builtins, name, None) is function:
            delattr(builtins, name)
    _declared.clear()
    module = types.ModuleType("host", "The functions that the host lets this session call.")
    for spec in specs:
        function = _function(bridge, spec)
        vars(module)[spec["name"]] = vars(main)[spec["name"]] = _declared[spec["name"]] = function
        # A name that Python has already stays as it is elsewhere.
        if not hasattr(builtins, spec["name"]):
            setattr(builtins, spec["name"], function)
    module.__all__ = [spec["name"] for spec in specs]
    sys.modules["host"] = module
