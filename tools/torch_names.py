"""Writes down which private names of torch the adapter uses, and what functions among them take.

    python -m tools.torch_names [--check]

Run it under the newest torch that is supported. Under a torch that is not known, `enable` looks
whether these are as they were (``_torch/known.py``). With ``--check`` nothing is written, and it
ends with 1 if the file is not what would be.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from shardprop import _torch
from shardprop._torch.known import NAMES, parameters_of, resolved

ADAPTER = Path(_torch.__file__).parent


def main() -> int:
    """Write the file, or compare with it."""
    parser = argparse.ArgumentParser(prog="python -m tools.torch_names")
    parser.add_argument("--check", action="store_true")
    checks = parser.parse_args().check
    text = json.dumps(names(), indent=1, sort_keys=True) + "\n"
    if checks:
        return int(text != NAMES.read_text(encoding="utf-8"))
    NAMES.write_text(text, encoding="utf-8")
    return 0


def names() -> dict[str, str | None]:
    """By dotted name what it takes, None for what is no function."""
    found: dict[str, str | None] = {}
    for file in sorted(ADAPTER.glob("*.py")):
        module = importlib.import_module(f"{_torch.__name__}.{file.stem}")
        for path in _paths(ast.parse(file.read_text(encoding="utf-8")), module):
            found[path] = parameters_of(resolved(path))
    return found


def _paths(tree: ast.AST, module: ModuleType) -> Iterator[str]:
    """Dotted names with a private part that a module of the adapter has for things of torch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_torchs(node.module or ""):
            yield from _private(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from _private(alias.name for alias in node.names if _is_torchs(alias.name))
        elif isinstance(node, ast.Attribute):
            yield from _private(_chain(node, module))


def _chain(node: ast.expr, module: ModuleType) -> Iterator[str]:
    """``_prop.LocalLRUCache`` as torch names it; nothing where it begins with a variable."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    root = getattr(module, node.id, None) if isinstance(node, ast.Name) else None
    start = _name_of(root)
    if start is not None:
        yield ".".join([start, *reversed(parts)])


def _name_of(thing: Any) -> str | None:
    """Where torch has a module or a class."""
    if isinstance(thing, ModuleType):
        name = thing.__name__
    elif inspect.isclass(thing):
        name = f"{thing.__module__}.{thing.__qualname__}"
    else:
        return None
    return name if _is_torchs(name) else None


def _is_torchs(name: str) -> bool:
    return name.partition(".")[0] == "torch"


def _private(paths: Iterator[str]) -> Iterator[str]:
    for path in paths:
        parts = path.split(".")
        is_private = any(part.startswith("_") and not part.startswith("__") for part in parts)
        if is_private and resolved(path) is not None:
            yield path


if __name__ == "__main__":
    sys.exit(main())
