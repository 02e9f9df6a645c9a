import importlib.metadata
import json
import os
import pkgutil
import sys

if sys.implementation.name != "cpython":
    sys.exit(f"it is {sys.implementation.name}")


def modules(package):
    """Names that can be imported from an installed package; none where it is not there."""
    try:
        found = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    names = (found.read_text("top_level.txt") or "").split()
    for file in found.files or ():
        first = file.parts[0]
        if len(file.parts) > 1 and file.parts[-1] == "__init__.py" and len(file.parts) == 2:
            names.append(first)
        elif len(file.parts) == 1 and first.endswith(".py"):
            names.append(first[:-3])
    return sorted({name for name in names if name.isidentifier() and not name.startswith("_")})


def importable():
    """Top-level names that an import would find, folders without an `__init__` too."""
    names = {*sys.builtin_module_names, *(module.name for module in pkgutil.iter_modules())}
    for path in sys.path:
        if os.path.isdir(path):
            names.update(entry.name for entry in os.scandir(path) if entry.name.isidentifier() and entry.is_dir())
    return sorted(names)


there = {name: modules(name) for name in sys.argv[1:]}
executable = os.path.realpath(sys.executable)
print(
    json.dumps(
        {
            "executable": sys.executable,
            "version": ".".join(map(str, sys.version_info[:3])),
            "base_prefix": sys.base_prefix,
            "prefix": sys.prefix,
            "paths": [*(path for path in sys.path if path), os.path.dirname(os.path.dirname(executable))],
            "importable": importable(),
            "modules": {name: names for name, names in there.items() if names is not None},
        }
    )
)
