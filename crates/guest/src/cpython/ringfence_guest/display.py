"""Rich results: what objects say of themselves in HTML, PNG and the like, and the figures of matplotlib.

Answers to: `runner` and the builtin `display`. Must not: import a library that the program has not imported, or fail
where an object's own description does.
"""

from __future__ import annotations

import base64
import builtins
import importlib.abc
import importlib.util
import io
import json
import sys

from . import wire
from .wire import text, u32

__builtins__ = dict(vars(builtins))

_METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}
_BINARY = ("image/png", "image/jpeg", "application/pdf")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, type)
_TEXT = "text/plain"
_MOST_TEXT = 1 << 20

_dumps, _decode64, _BytesIO = json.dumps, base64.b64decode, io.BytesIO
_name = type.__dict__["__name__"].__get__
_mro = type.__dict__["__mro__"].__get__
_namespace = type.__dict__["__dict__"].__get__


class Display:
    """Sends rich results on."""

    def __init__(self, link, streams) -> None:
        self._link = link
        self._streams = streams
        self._sent: list = []
        self._finder = None

    def install(self) -> None:
        """Makes `display` a builtin, and `show` of matplotlib send at once."""
        shower = self

        def display(*objects, raw=False, **options):
            """Show objects in the richest forms that they have."""
            for value in objects:
                shower.show(value, raw and type(value) is dict)

        display.__module__, display.__qualname__ = "builtins", "display"
        builtins.display = display
        self._finder = _AfterImport("matplotlib.pyplot", self._take_over)
        sys.meta_path.insert(0, self._finder)
        loaded = sys.modules.get("matplotlib.pyplot")
        if loaded is not None:
            self._take_over(loaded)

    def _take_over(self, pyplot) -> None:
        def show(*args, **kwargs):
            """Send every open figure to the host."""
            self.figures()

        pyplot.show = show

    def show(self, value: object, raw: bool = False) -> None:
        """Shows one object."""
        rows = dict(value) if raw else {**self.rich(value), _TEXT: _plain_text(value)}
        if _is_figure(value):
            self._sent.append(value)
        self._send(_as_bytes(rows))

    def last(self, value: object, crosses: bool) -> None:
        """Shows the value of a snippet's last expression where it has more than text, or is data that can't cross."""
        if type(value) in _PLAIN or (_is_figure(value) and self._is_open(value)):
            return
        rows = self.rich(value)
        if rows or (not crosses and _describes_itself(value)):
            rows[_TEXT] = _plain_text(value)
            self._send(_as_bytes(rows))

    def rich(self, value: object) -> dict:
        """What the object says of itself, by MIME type; text is not asked for."""
        rows: dict = {}
        for kind, found in _bundle_of(value).items():
            if type(kind) is str and kind != _TEXT:
                rows[kind] = found
        for kind, method in _METHODS.items():
            found = None if kind in rows else _said(value, method)
            if found is not None:
                rows[kind] = found
        if not rows and _is_series(value):
            found = _said(_safely(value.to_frame), "_repr_html_")
            rows.update({} if found is None else {"text/html": found})
        if not rows and _is_figure(value):
            found = _picture(value)
            rows.update({} if found is None else {"image/png": found})
        return rows

    def figures(self) -> None:
        """Sends every open figure of matplotlib, and closes it."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        numbers = _safely(pyplot.get_fignums) if hasattr(pyplot, "get_fignums") else None
        for number in numbers or ():
            figure = _safely(lambda number=number: pyplot.figure(number))
            if figure is not None and not any(figure is sent for sent in self._sent):
                picture = _picture(figure)
                if picture is not None:
                    self._send([("image/png", picture), (_TEXT, _plain_text(figure).encode("utf-8", "replace"))])
            _safely(lambda number=number: pyplot.close(number))
        self._sent.clear()

    def _is_open(self, figure) -> bool:
        """Whether it will be sent at the end of the snippet anyway."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        numbers = _safely(pyplot.get_fignums) if hasattr(pyplot, "get_fignums") else None
        return getattr(figure, "number", None) in (numbers or ())

    def _send(self, rows: list) -> None:
        self._streams.flush()
        body = _packed(rows)
        while len(body) > wire.CAPS[wire.SHOWN]:
            largest = max(rows, key=lambda row: len(row[1]))
            rows.remove(largest)
            most = wire.CAPS[wire.SHOWN]
            self._streams.note(
                f"display: {largest[0]} of {len(largest[1])} bytes is left out; at most {most} bytes fit"
            )
            body = _packed(rows)
        if rows:
            self._link.send(wire.frame(wire.SHOWN, body))


def _packed(rows: list) -> bytes:
    return u32(len(rows)) + b"".join(text(kind) + u32(len(data)) + data for kind, data in rows)


def _safely(ask):
    """What an object of the program's says, or None where it fails."""
    try:
        return ask()
    except Exception:
        return None


def _bundle_of(value: object) -> dict:
    if not hasattr(type(value), "_repr_mimebundle_"):
        return {}
    found = _safely(lambda: value._repr_mimebundle_(include=None, exclude=None))
    if found is None:
        found = _safely(lambda: value._repr_mimebundle_())
    if type(found) is tuple and found:
        found = found[0]
    return found if isinstance(found, dict) else {}


def _said(value: object, method: str):
    if not hasattr(type(value), method) or isinstance(value, type):
        return None
    found = _safely(lambda: getattr(value, method)())
    return found[0] if type(found) is tuple and found else found


def _as_bytes(rows: dict) -> list:
    """The rows as the wire has them. What is neither text nor bytes nor JSON is left out."""
    made = []
    for kind, found in rows.items():
        if isinstance(found, (bytes, bytearray, memoryview)):
            data = bytes(found)
        elif isinstance(found, str) and kind in _BINARY:
            data = _safely(lambda found=found: _decode64(found))
        elif isinstance(found, str) and kind != "application/json":
            data = found.encode("utf-8", "backslashreplace")
        else:
            data = _safely(lambda found=found: _dumps(found).encode("utf-8", "backslashreplace"))
        if data is not None and type(kind) is str:
            made.append((kind, data))
    return made


def _plain_text(value: object) -> str:
    try:
        found = repr(value)
    except Exception:
        return f"<{_name(type(value))} object; its repr() failed>"
    return found if len(found) <= _MOST_TEXT else found[:_MOST_TEXT] + "…"


def _describes_itself(value: object) -> bool:
    """Whether it is an object of data with a text of its own, such as an array."""
    kind = type(value)
    if callable(value) or isinstance(value, type) or hasattr(kind, "__next__") or hasattr(kind, "__await__"):
        return False
    return kind.__repr__ is not object.__repr__ and _namespace(kind).get("__module__") != "builtins"


def _is_a(value: object, module: str, name: str) -> bool:
    for kind in _mro(type(value)):
        home = _namespace(kind).get("__module__")
        if _name(kind) == name and type(home) is str and (home == module or home.startswith(module + ".")):
            return True
    return False


def _is_series(value: object) -> bool:
    return _is_a(value, "pandas", "Series") and hasattr(value, "to_frame")


def _is_figure(value: object) -> bool:
    return _is_a(value, "matplotlib", "Figure")


def _picture(figure):
    def draw() -> bytes:
        out = _BytesIO()
        figure.savefig(out, format="png", bbox_inches="tight")
        return out.getvalue()

    return _safely(draw)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls back when a module was imported."""

    def __init__(self, name: str, then) -> None:
        self._name = name
        self._then = then
        self._busy = False

    def find_spec(self, name, path=None, target=None):
        """The module's own spec, with a word after its loading."""
        if name != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        load = getattr(getattr(spec, "loader", None), "exec_module", None)
        if load is None:
            return None

        def load_and_tell(module) -> None:
            load(module)
            self._then(module)

        spec.loader.exec_module = load_and_tell
        return spec
