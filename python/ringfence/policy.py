"""A policy as it is handed over: the path of a file, TOML text, or a dict that is written as TOML.

Answers to: `options`.
Must not: parse or decide anything; the engine does, and says what is wrong.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import PolicyError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Policy:
    """A policy as TOML text."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def from_dict(cls, policy: Mapping[str, Any]) -> Policy:
        """A policy from its sections as dicts: `{"version": 1, "limits": {"wall": "5s"}}`."""
        return cls("\n".join(_table(policy, ())) + "\n")

    def __repr__(self) -> str:
        return f"Policy({self.text!r})"


PolicyLike = Policy | Mapping[str, Any] | str | os.PathLike[str] | None


def policy_params(policy: PolicyLike) -> dict[str, str] | None:
    """The `policy` of an `open` request. None is the closed policy, with the exports."""
    if policy is None:
        return None
    if isinstance(policy, Policy):
        return {"text": policy.text}
    if isinstance(policy, Mapping):
        return {"text": Policy.from_dict(policy).text}
    path = os.fspath(policy)
    if "\n" in path:
        raise PolicyError("the policy's path has more than one line", "wrap TOML text as `Policy(text)`")
    return {"path": str(Path(path).absolute())}


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines, sections = [], []
    for key, value in table.items():
        if not isinstance(key, str):
            raise PolicyError(f"a key of the policy's `{'.'.join(path) or 'top level'}` is not text")
        if isinstance(value, Mapping):
            sections.append((key, value))
        else:
            lines.append(f"{_key(key)} = {_value(value, (*path, key))}")
    for key, section in sections:
        inside = (*path, key)
        lines += ["", f"[{'.'.join(_key(part) for part in inside)}]", *_table(section, inside)]
    return lines


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _value(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return _text(os.fspath(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item, path) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(
            f"{_key(str(key))} = {_value(item, (*path, str(key)))}" for key, item in value.items()
        )
        return "{ " + pairs + " }" if pairs else "{}"
    raise PolicyError(f"the policy's `{'.'.join(path)}` can't be a {type(value).__name__}")
