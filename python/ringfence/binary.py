"""Where the `ringfence` executable is.

Answers to: the connection, which starts it.
Must not: run anything, or take a candidate that the caller did not name when the one that
the caller named is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from .errors import BinaryNotFound

NAME = "ringfence.exe" if sys.platform == "win32" else "ringfence"
HINT = "install the wheel with `pip install ringfence`, or set RINGFENCE_BIN to the executable's path"


def find_binary(binary: str | os.PathLike[str] | None = None) -> str:
    """The executable: as given, from RINGFENCE_BIN, beside the package, or on the PATH."""
    if binary is not None:
        return _named(os.fspath(binary), "binary", "give the path of the `ringfence` executable")
    from_environment = os.environ.get("RINGFENCE_BIN")
    if from_environment:
        return _named(from_environment, "RINGFENCE_BIN", "correct the variable, or unset it")
    for folder in _script_folders():
        candidate = folder / NAME
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    on_path = shutil.which("ringfence")
    if on_path:
        return on_path
    raise BinaryNotFound("the `ringfence` executable was not found beside the package or on the PATH", HINT)


def _named(given: str, by: str, hint: str) -> str:
    path = Path(given).expanduser()
    if not path.is_file():
        raise BinaryNotFound(f"there is no file `{given}`, which {by} names", hint)
    if not os.access(path, os.X_OK):
        raise BinaryNotFound(f"the file `{given}`, which {by} names, is not executable", hint)
    return str(path.absolute())


def _script_folders() -> Iterator[Path]:
    """Where installers put a wheel's scripts: this environment's, the user's, `pip --target`'s."""
    yield Path(sysconfig.get_path("scripts"))
    yield Path(sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")))
    yield Path(__file__).resolve().parent.parent / "bin"
