"""The README's example, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parent.parent / "README.md"


@pytest.mark.usefixtures("engine")
def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    exec(compile(found[1], "README.md", "exec"), {"__name__": "readme"})
    said = re.search(r"# (completed .*)", found[1])
    assert said is not None and capsys.readouterr().out == said[1] + "\n"
