"""Which modules and packages of shardprop there are, in which layer, and what each imports.

A piece is a module or a package that lies in ``python/shardprop`` itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

PACKAGE = "shardprop"

_ROW = re.compile(r"\| L(\d) \| ([^|]*) \|")


class Import(NamedTuple):
    """A piece that a source imports, and where."""

    line: int
    piece: str


class Upward(NamedTuple):
    """A piece that imports one of a layer above its own."""

    piece: str
    imported: str


def layers_of(table: str) -> list[tuple[str, int]]:
    """The pieces of the table in docs/design.md with their layers, in its order."""
    return [
        (name.removesuffix("/").removesuffix(".py"), int(layer))
        for layer, cell in _ROW.findall(table)
        for name in re.findall(r"`([^`]*)`", cell)
    ]


def pieces_of(root: Path) -> set[str]:
    """The pieces that there are, the compiled core among them."""
    modules = {path.stem for path in root.glob("*.py")}
    return {"_core"} | modules | {path.parent.name for path in root.glob("*/*.py")}


def sources_of(root: Path) -> dict[str, str]:
    """The source of each file by its dotted name, that of a package with ``.__init__``."""
    return {
        ".".join((PACKAGE, *path.relative_to(root).with_suffix("").parts)): path.read_text()
        for path in sorted(root.rglob("*.py"))
    }


def imports(source: str, module: str, pieces: Collection[str]) -> Iterator[Import]:
    """What a source imports of the package, wherever in it: in functions and for type checkers
    too.

    `module` is its dotted name, that of a package with ``.__init__``. What is imported from the
    package itself and is no piece is imported from ``__init__``.
    """
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        for name in _imported(node, package):
            parts = name.split(".")
            if parts[0] == PACKAGE:
                piece = parts[1] if len(parts) > 1 and parts[1] in pieces else "__init__"
                yield Import(node.lineno, piece)  # type: ignore[attr-defined]


def _imported(node: ast.AST, package: list[str]) -> list[str]:
    """Absolute dotted names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        start = package[: len(package) - node.level + 1] if node.level else []
        base = [*start, *filter(None, [node.module])]
        return [".".join((*base, alias.name)) for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        given = node.args[0] if node.args else None
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            dots = len(given.value) - len(given.value.lstrip("."))
            start = package[: len(package) - dots + 1] if dots else []
            return [".".join((*start, given.value.lstrip(".")))]
    return []


def upward_imports(files: Mapping[str, str], layers: Mapping[str, int]) -> dict[Upward, list[str]]:
    """Imports that go up a layer, with the places; `files` are sources by their dotted names."""
    found: dict[Upward, list[str]] = {}
    for module, source in files.items():
        own = module.split(".")[1]
        for line, piece in imports(source, module, layers.keys()):
            if layers[own] < layers[piece]:
                found.setdefault(Upward(own, piece), []).append(f"{module}:{line}")
    return found
