"""pyperformance's benchmarks that need the standard library only, inside a jail and in a bare CPython, in turn.

    python jailed_and_bare.py [ROUNDS [NAME ...]]

The same interpreter, the same snippet, one benchmark after another, bare and jailed by turns, so that load hits both. For each
function the best time of all rounds is taken. Needs the packages `ringfence` and `pyperformance`, and RINGFENCE_BIN.
"""

import ast
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

from ringfence import Sandbox

# They measure processes, sockets or threads.
NOT_COMPUTING = {"bm_2to3", "bm_asyncio_tcp", "bm_concurrent_imap", "bm_python_startup"}

MEASURE = r'''
import argparse, asyncio, gc, json, runpy, sys, time, types

LEAST = 0.3  # seconds of repeating
found = {}

def repeated(name, once):
    once()
    best, end = float("inf"), time.perf_counter() + LEAST
    while True:
        best = min(best, once())
        if time.perf_counter() > end:
            break
    found[name] = best

def timed(call):
    def once():
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    return once

class Runner:
    def __init__(self, *a, **k):
        self.metadata, self.argparser, self.args = {}, argparse.ArgumentParser(), None
    def parse_args(self, args=None):
        self.args = self.argparser.parse_args([])
        return self.args
    def bench_func(self, name, f, *a, **k):
        repeated(name, timed(lambda: f(*a)))
    def bench_time_func(self, name, f, *a, **k):
        repeated(name, lambda: f(1, *a))
    def bench_async_func(self, name, f, *a, **k):
        repeated(name, timed(lambda: asyncio.run(f(*a))))

pyperf = types.ModuleType("pyperf")
pyperf.Runner, pyperf.perf_counter = Runner, time.perf_counter
pyperf.python_implementation = lambda: "cpython"
pyperf.python_has_jit = lambda: False
sys.modules["pyperf"] = pyperf
sys.argv = [path]
sys.path.insert(0, path.rpartition("/")[0])
runpy.run_path(path, run_name="__main__")
'''

SHOW = "print(json.dumps(found), file=sys.__stdout__, flush=True)"


def bare(python: str, path: Path) -> dict[str, float]:
    code = f"path = {str(path)!r}\n{MEASURE}\n{SHOW}"
    made = subprocess.run([python, "-I", "-X", "utf8", "-c", code], capture_output=True, text=True, check=True)
    return json.loads(made.stdout.splitlines()[-1])


def inside(folder: Path, path: Path) -> dict[str, float]:
    policy = {
        "version": 1,
        "limits": {"wall": "120s", "cpu": "120s", "memory": "1GiB", "disk": "64MiB"},
        "filesystem": {"workspace": "64MiB", "mounts": [{"host": str(folder), "at": "/bench", "mode": "ro"}]},
    }
    code = f"path = {'/bench/' + str(path.relative_to(folder))!r}\n{MEASURE}\nfound"
    with Sandbox(policy=policy, tier="process") as box:
        return box.run(code, check=True).value


def interpreter() -> str:
    """What the jail runs, and not what `python3` names here: that may be built another way."""
    with Sandbox(policy={"version": 1}, tier="process") as box:
        return box.run("import sys; sys._base_executable", check=True).value


def needs_nothing(path: Path) -> bool:
    known = set(sys.stdlib_module_names) | {"pyperf"} | {other.stem for other in path.parent.glob("*.py")}
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        if any(name.split(".")[0] not in known for name in names):
            return False
    return True


def main() -> None:
    package = importlib.util.find_spec("pyperformance")
    folder = Path(package.origin).resolve().parent / "data-files" / "benchmarks"
    python = interpreter()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    paths = [path for path in sorted(folder.glob("bm_*/run_benchmark.py")) if needs_nothing(path)]
    paths = [path for path in paths if path.parent.name not in NOT_COMPUTING]
    if len(sys.argv) > 2:
        paths = [path for path in paths if path.parent.name in sys.argv[2:]]
    best: dict[str, list[float]] = {}
    failed = {}
    for number in range(rounds):
        for path in paths:
            name = path.parent.name
            try:
                both = bare(python, path), inside(folder, path)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                continue
            for function in both[0]:
                pair = best.setdefault(f"{name[3:]}: {function}", [math.inf, math.inf])
                pair[:] = [min(old, new[function]) for old, new in zip(pair, both, strict=True)]
        print(f"pyperformance: round {number + 1} of {rounds}", file=sys.stderr)
    if not best:
        sys.exit(f"no benchmark could be measured: {failed or folder}")
    print("| benchmark | bare | jailed | ratio |\n| --- | ---: | ---: | ---: |")
    for name, (alone, jailed) in best.items():
        print(f"| {name} | {alone * 1e3:.3f} ms | {jailed * 1e3:.3f} ms | {jailed / alone:.3f} |")
    ratios = [jailed / alone for alone, jailed in best.values()]
    mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    over = sum(ratio > 1.03 for ratio in ratios)
    print(f"\n{len(ratios)} functions, geometric mean of the ratios {mean:.3f}, {over} over 1.03")
    for name, why in failed.items():
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    main()
