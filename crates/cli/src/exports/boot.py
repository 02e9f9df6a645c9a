"""Takes the package `ringfence` from standard input, as one frame, and runs `ringfence.exports` with what is left.

Answers to: the `ringfence` executable. Must not: write a file, or read a byte behind the frame.
"""

import importlib.abc
import importlib.util
import json
import os
import sys


def take(count):
    data = b""
    while len(data) < count:
        more = os.read(0, count - len(data))
        if not more:
            os._exit(2)
        data += more
    return data


class Carried(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def __init__(self, modules):
        self.modules = modules

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=name == "ringfence")

    def is_package(self, name):
        return name == "ringfence"

    def get_source(self, name):
        return self.modules[name]

    def get_code(self, name):
        return compile(self.modules[name], "<%s>" % name, "exec", dont_inherit=True)


sys.meta_path.insert(0, Carried(json.loads(take(int.from_bytes(take(4), "big")))))
from ringfence.exports import run_as_program  # noqa: E402

run_as_program()
