"""Dependencies run one way: core <- bindings <- _core <- modules; one package knows torch."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _imported(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def test_one_package_imports_private_names_of_torch() -> None:
    offenders = {}
    package = ROOT / "python" / "shardprop"
    for path in sorted(package.rglob("*.py")):
        private = [
            name
            for name in _imported(path)
            if name.split(".")[0] == "torch"
            and any(part.startswith("_") and part != "__future__" for part in name.split("."))
        ]
        private += [n for n in _imported(path) if n.startswith("torch.testing")]
        if private and package / "_torch" not in path.parents:
            offenders[path.name] = private
    assert offenders == {}


def test_the_core_includes_neither_python_nor_torch() -> None:
    includes = re.compile(r'#include\s+[<"](Python\.h|pybind11|torch|ATen|c10)')
    core = [*(ROOT / "csrc" / "core").iterdir(), *(ROOT / "csrc" / "graph").iterdir()]
    assert len(core) > 20
    assert [path.name for path in core if includes.search(path.read_text())] == []


def test_the_bindings_include_no_torch() -> None:
    includes = re.compile(r'#include\s+[<"](torch|ATen|c10)')
    bindings = (ROOT / "csrc" / "bindings").iterdir()
    assert [path.name for path in bindings if includes.search(path.read_text())] == []


def test_no_file_is_too_long_to_read() -> None:
    files = [*(ROOT / "python").rglob("*.py"), *(ROOT / "csrc").rglob("*.*")]
    code = [path for path in files if path.suffix in {".py", ".h", ".cpp"}]
    assert {p.name for p in code if len(p.read_text().splitlines()) > 500} == set()
