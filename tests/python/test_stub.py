"""The stub of the compiled core says what the core has."""

from __future__ import annotations

import ast
from pathlib import Path

import shardprop
from shardprop import _core


def _stub() -> ast.Module:
    return ast.parse((Path(shardprop.__file__).parent / "_core.pyi").read_text())


def _public(names: object) -> set[str]:
    return {name for name in dir(names) if not name.startswith("_")}


def test_the_stub_lists_every_name_of_the_core() -> None:
    stubbed = {
        node.name for node in _stub().body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }
    assert stubbed == _public(_core)


def test_the_stub_lists_every_member_of_the_classes() -> None:
    for node in _stub().body:
        if not isinstance(node, ast.ClassDef) or issubclass(getattr(_core, node.name), Exception):
            continue
        members = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        assert {m for m in members if not m.startswith("_")} == _public(getattr(_core, node.name))
