"""Host functions: how one is marked, declared, called, and what of its failure may be seen.

Answers to: the client and `exports`, which hand it the calls that came in.
Must not: let anything of an exception out but its type's name, unless its author marked the
message as public.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import keyword
import logging
import math
import types
import typing
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from .errors import PublicError
from .hints import ArgumentError, Shape, shape_of
from .values import decode, encode

logger = logging.getLogger("ringfence.host")

FAILED = "the host function failed"
"""What the guest is told of a failure whose message is not public."""

_MARK = "__ringfence_export__"
_known: weakref.WeakKeyDictionary[Callable[..., Any], tuple[Any, HostFunction]] = weakref.WeakKeyDictionary()
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """What `sandbox_export` was told."""

    name: str | None = None
    public_errors: tuple[type[BaseException], ...] = ()


@overload
def sandbox_export(function: _F, /) -> _F: ...
@overload
def sandbox_export(
    *, name: str | None = None, public_errors: Iterable[type[BaseException]] = ()
) -> Callable[[_F], _F]: ...
def sandbox_export(
    function: _F | None = None,
    /,
    *,
    name: str | None = None,
    public_errors: Iterable[type[BaseException]] = (),
) -> _F | Callable[[_F], _F]:
    """Marks a function as one that code inside a sandbox may call.

    `public_errors` are exceptions whose messages are safe to show to the guest. Of any other
    exception the guest sees the type and a fixed text. The function itself is unchanged.
    """
    options = ExportOptions(name, tuple(public_errors))

    def mark(function: _F) -> _F:
        setattr(function, _MARK, options)
        return function

    return mark if function is None else mark(function)


def is_export(candidate: object) -> bool:
    """Whether it was marked by `sandbox_export`."""
    return callable(candidate) and isinstance(getattr(candidate, _MARK, None), ExportOptions)


def declare(function: Callable[..., Any]) -> dict[str, Any]:
    """The declaration of a host function as data: name, parameters, JSON Schemas both ways.

    Raises `TypeError` naming the function and the parameter where a hint has no plain data form.
    """
    return HostFunction(function).spec


class HostFunction:
    """One host function, read once: its declaration, and the conversion of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        options = getattr(function, _MARK, None) or ExportOptions()
        self.function = function
        self.public_errors = options.public_errors
        self.name = options.name or _name_of(function)
        if not self.name.isidentifier() or keyword.iskeyword(self.name):
            raise TypeError(
                f"`{self.name}` can't be a host function's name; give one with `@sandbox_export(name=...)`"
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"`{self.name}` is a generator, which can't cross; return a list")
        self.is_async = _is_async(function)
        self.signature = _signature(function, self.name)
        hints = _hints(function, self.signature, self.name)
        self._shapes = {
            name: shape_of(hint, f"parameter `{name}` of `{self.name}`")
            for name, hint in hints.items()
            if name in self.signature.parameters
        }
        returns = shape_of(hints["return"], f"result of `{self.name}`") if "return" in hints else None
        self.spec = self._spec(returns)

    def _spec(self, returns: Shape | None) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "name": self.name,
            "doc": inspect.getdoc(self.function) or "",
            "parameters": [self._parameter(parameter) for parameter in self.signature.parameters.values()],
            "is_async": self.is_async,
        }
        if returns is not None:
            spec["returns"] = returns.source
            if returns.schema:
                spec["returns_schema"] = returns.schema
        return spec

    def _parameter(self, parameter: inspect.Parameter) -> dict[str, Any]:
        written: dict[str, Any] = {"name": parameter.name, "kind": parameter.kind.name.lower()}
        shape = self._shapes.get(parameter.name)
        if shape is not None:
            written["annotation"] = shape.source
            if shape.schema:
                written["schema"] = shape.schema
        if parameter.default is not inspect.Parameter.empty:
            written["default"] = {"source": _default_source(parameter.default)}
        return written

    def bind(self, args: list[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
        """The call with its arguments decoded and converted; raises `ArgumentError`."""
        try:
            values = [decode(value, f"args[{index}]") for index, value in enumerate(args)]
            named = {name: decode(value, name) for name, value in kwargs.items()}
        except ValueError as error:
            raise ArgumentError(str(error)) from None
        try:
            bound = self.signature.bind(*values, **named)
        except TypeError as error:
            raise ArgumentError(f"{self.name}(): {error}") from None
        for name, value in bound.arguments.items():
            shape = self._shapes.get(name)
            if shape is not None:
                bound.arguments[name] = self._convert(shape, name, value)
        return functools.partial(self.function, *bound.args, **bound.kwargs)

    def _convert(self, shape: Shape, name: str, value: Any) -> Any:
        kind = self.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            return tuple(shape.convert(item, f"{name}[{index}]") for index, item in enumerate(value))
        if kind is inspect.Parameter.VAR_KEYWORD:
            return {key: shape.convert(item, key) for key, item in value.items()}
        return shape.convert(value, name)

    def call(self, args: list[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Calls it and returns the `value` or `error` of an answer. For functions that are not async."""
        try:
            return {"value": _encode_result(self.bind(args, kwargs)())}
        except Exception as error:
            return {"error": self.failure(error)}

    async def call_async(self, args: list[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The same for an async function."""
        try:
            result: Awaitable[Any] = self.bind(args, kwargs)()
            return {"value": _encode_result(await result)}
        except Exception as error:
            return {"error": self.failure(error)}

    def failure(self, error: BaseException) -> dict[str, Any]:
        """What of an exception may cross: its type, and its message where that is public."""
        if isinstance(error, ArgumentError):
            return {"type": "TypeError", "message": str(error)}
        if isinstance(error, PublicError):
            return {"type": error.type, "message": error.message}
        name = type(error).__name__
        if self.public_errors and isinstance(error, self.public_errors):
            return {"type": name, "message": _message(error)}
        report_failure(self.name, error)
        return {"type": name, "message": FAILED}


def _log_failure(name: str, error: BaseException) -> None:
    kind = type(error).__name__
    logger.warning("host function `%s` failed with `%s`; the traceback is logged at DEBUG", name, kind)
    logger.debug("host function `%s` failed", name, exc_info=error)


report_failure: Callable[[str, BaseException], None] = _log_failure
"""Who is told of a function that failed by something else than a public error."""


def _encode_result(result: Any) -> Any:
    try:
        return encode(result, "result")
    except TypeError as error:  # our own text: it names the place and the type, never the value
        raise ArgumentError(str(error)) from None


def host_functions(exports: Iterable[Callable[..., Any]]) -> dict[str, HostFunction]:
    """The functions by name; two of the same name are an error."""
    functions: dict[str, HostFunction] = {}
    for export in exports:
        if not callable(export):
            raise TypeError(f"exports must be functions, not {type(export).__name__}")
        function = _read_once(export)
        if function.name in functions:
            raise TypeError(f"two host functions are called `{function.name}`")
        functions[function.name] = function
    return functions


def _read_once(export: Callable[..., Any]) -> HostFunction:
    """Reading hints takes longer than opening a session, so that plain functions are kept as read."""
    if not isinstance(export, types.FunctionType):
        return HostFunction(export)
    mark = getattr(export, _MARK, None)
    known = _known.get(export)
    if known is None or known[0] is not mark:
        known = _known[export] = (mark, HostFunction(export))
    return known[1]


def unknown_function(name: str) -> dict[str, Any]:
    """The error for a call of a function that is not exported."""
    return {"type": "NameError", "message": f"name '{name[:80]}' is not defined"}


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # the method itself is what may be async
    )


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        raise TypeError(f"`{name}` has no signature that Python can tell; wrap it in a function") from None


def _hints(function: Callable[..., Any], signature: inspect.Signature, name: str) -> dict[str, Any]:
    """The hints with names looked up, one by one so that an error can name its parameter."""
    source = inspect.unwrap(function)
    while isinstance(source, functools.partial):
        source = source.func
    if not inspect.isroutine(source):
        source = type(source).__call__
    raw = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if parameter.annotation is not inspect.Parameter.empty
    }
    if signature.return_annotation is not inspect.Signature.empty:
        raw["return"] = signature.return_annotation
    names = getattr(source, "__globals__", {})
    local = _closure(source)
    hints: dict[str, Any] = {}
    for parameter, hint in raw.items():
        holder = type("Holder", (), {"__annotations__": {parameter: hint}})
        try:
            hints.update(typing.get_type_hints(holder, names, local, include_extras=True))
        except Exception as error:
            where = f"result of `{name}`" if parameter == "return" else f"parameter `{parameter}` of `{name}`"
            raise TypeError(f"{where}: the type `{hint}` could not be looked up: {error}") from None
    return hints


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):
        return {}


def _default_source(value: Any) -> str:
    """A default as Python source; `...` where it can't be written."""
    if isinstance(value, enum.Enum):
        return _default_source(value.value)
    if value is None or type(value) in (bool, int, str, bytes):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float('{value}')"
    if type(value) in (list, tuple) and all(_default_source(item) != "..." for item in value):
        inside = ", ".join(_default_source(item) for item in value)
        if type(value) is list:
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if type(value) is dict:
        pairs = [(_default_source(key), _default_source(item)) for key, item in value.items()]
        if all("..." not in pair for pair in pairs):
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    return "..."


def _message(error: BaseException) -> str:
    try:
        return str(error).encode("utf-8", "replace").decode("utf-8")
    except Exception:
        return FAILED
