"""Imports go down the layers of docs/design.md, and one package knows torch's private names."""

from __future__ import annotations

import re

import pytest

from ..checkout import ROOT
from .import_layers import layers_of, pieces_of, sources_of, upward_imports
from .private_names import private_attributes, private_attributes_touched, private_imports

PACKAGE = ROOT / "python" / "shardprop"
SOURCES = sources_of(PACKAGE)
ADAPTER = {name: text for name, text in SOURCES.items() if name.startswith("shardprop._torch.")}
OTHERS = {name: text for name, text in SOURCES.items() if name not in ADAPTER}

# Of the import system's, where torch must not be imported.
WITHOUT_TORCH = {
    "shardprop.clients.spmd_types": {"checker._ShardPropagator"},
    "shardprop.half_imported": {"spec._initializing"},
}

# Private attributes of torch: those that the adapter touches, on whatever has them.
OF_TORCH = frozenset().union(*map(private_attributes_touched, ADAPTER.values()))


# --- torch's private names ----------------------------------------------------------------------


@pytest.mark.slow
def test_one_package_imports_private_names_of_torch() -> None:
    found = {name: private_imports(text) for name, text in OTHERS.items()}
    assert {name: hits for name, hits in found.items() if hits} == {}


@pytest.mark.slow
def test_one_package_touches_private_attributes_of_torch() -> None:
    assert {"_schema", "_spec", "_parameters", "_C"} <= OF_TORCH
    found = {}
    for name, text in OTHERS.items():
        hits = private_attributes(text, OF_TORCH)
        allowed = WITHOUT_TORCH.get(name, set())
        hits = [hit for hit in hits if hit.partition(": ")[2] not in allowed]
        if hits:
            found[name] = hits
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import torch._dynamo",
        "from torch._ops import OpOverload",
        "from torch.distributed import _functional_collectives",
        "from torch.testing import assert_close",
        "def later():\n    from .decision import _rule_for",
    ],
)
def test_a_private_import_is_found(source: str) -> None:
    assert len(private_imports(source)) == 1
    assert private_imports("from . import _core, _torch\nfrom ._torch import Shard") == []


@pytest.mark.parametrize(
    "source",
    [
        "returns = op._schema.returns",
        "tensor._is_param = True",
        "del tensor._spec",
        "with torch._C.DisableTorchFunction():\n    pass",
        "tensors = torch._foreach_add(tensors, 1)",
        "value = getattr(tensor, '_base', None)",
        "known = hasattr(tensor, '_base')",
        "setattr(fake, '_is_param', True)",
        "NAME = '_orig_mod'\nmodule = getattr(module, NAME, module)",
        "spec_of = operator.attrgetter('_spec')",
        "vars(spec)['_hash'] = None",
        "fields = spec.__dict__\nfields['_hash'] = None",
        "vars(prop).pop('_cache', None)",
        "class Mode(TorchDispatchMode):\n    def on(self):\n        return self._dispatch_key",
        "found = decision._rule",
    ],
)
def test_a_private_attribute_is_found(source: str) -> None:
    assert len(private_attributes(source)) == 1


def test_an_attribute_of_torchs_is_found_where_a_class_has_one_of_that_name() -> None:
    source = "class List:\n    def __init__(self, op):\n        self._schema = op._schema"
    assert private_attributes(source) == []
    assert private_attributes(source, frozenset({"_schema"})) == ["3: op._schema"]


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    _x = 0\n    def same(self, other):\n        return other._x == self._x",
        "class A:\n    __slots__ = ('_x', 'y')\n\ndef of(a):\n    return a._x",
        "class A(NamedTuple):\n    _x: int\n\ndef of(a):\n    return a._x",
        "row = row._replace(count=1)",
        "frame = sys._getframe(1)",
        "norm = torch.ops.aten._foreach_norm.Scalar",
        "aten = torch.ops.aten\nnorm = aten._foreach_norm.Scalar",
        "MARK = '_shardprop_mark'\nsetattr(tensor, MARK, 1)",
        "name = __name__, function.__code__",
    ],
)
def test_an_attribute_of_its_own_is_allowed(source: str) -> None:
    assert private_attributes(source, frozenset({"_schema"})) == []


# --- layers -------------------------------------------------------------------------------------


def layers() -> dict[str, int]:
    return dict(layers_of((ROOT / "docs" / "design.md").read_text()))


def test_each_module_and_package_stands_in_one_row() -> None:
    rows = layers_of((ROOT / "docs" / "design.md").read_text())
    assert sorted(name for name, _ in rows) == sorted(pieces_of(PACKAGE))


@pytest.mark.slow
def test_imports_go_down() -> None:
    assert upward_imports(SOURCES, layers()) == {}


@pytest.mark.parametrize(
    "source",
    [
        "from ..high import x",
        "from .. import high",
        "from ..high.part import x",
        "import shardprop.high",
        "from shardprop.high import x",
        "if TYPE_CHECKING:\n    from ..high import X",
        "def later():\n    from ..high import x",
        "found = importlib.import_module('shardprop.high')",
        "found = importlib.import_module('..high', __package__)",
        "from .. import something_public",
    ],
)
def test_an_import_that_goes_up_is_found(source: str) -> None:
    table = "| L2 | `__init__.py`, `high/` | x |\n| L1 | `low/`, `beside.py` | y |"
    down = "from ..beside import x\nfrom . import part\nfrom .part import y\nimport torch"
    found = upward_imports({"shardprop.low.module": f"{down}\n{source}"}, dict(layers_of(table)))
    (upward,) = found
    assert upward.piece == "low" and upward.imported in ("high", "__init__")


def test_imports_of_a_packages_own_file_count_from_the_package() -> None:
    table = dict(layers_of("| L2 | `__init__.py`, `high.py` | x |\n| L1 | `low/` | y |"))
    assert upward_imports({"shardprop.low.__init__": "from ..high import x"}, table)
    assert upward_imports({"shardprop.low.__init__": "from .high import x"}, table) == {}
    assert upward_imports({"shardprop.high": "from .low import x"}, table) == {}


# --- C++ ----------------------------------------------------------------------------------------


def test_the_core_includes_neither_python_nor_torch() -> None:
    includes = re.compile(r'#include\s+[<"](Python\.h|(pybind11|torch|ATen|c10)/)')
    core = [
        path for folder in ("core", "graph") for path in (ROOT / "csrc" / folder).rglob("*.[ch]*")
    ]
    assert len(core) > 120
    assert [path.name for path in core if includes.search(path.read_text())] == []


# What each folder may include, beside its own files.
BELOW: dict[str, dict[str, set[str]]] = {
    "core": {
        "layout": set(),
        "metadata": set(),
        "rule": {"layout"},
        "notation": {"layout", "rule"},
        "torch_plan": {"layout"},
        "search": {"layout", "rule", "torch_plan"},
        "optimal": {"layout", "rule", "torch_plan", "search"},
    },
    "graph": {
        "graph/presolve": {"graph"},
        "graph/bounds": {"graph", "graph/presolve"},
        "graph/search": {"graph", "graph/presolve", "graph/bounds"},
    },
}


@pytest.mark.parametrize("part", BELOW)
def test_folders_of_the_core_include_downwards(part: str) -> None:
    below, prefix = BELOW[part], "" if part == "core" else f"{part}/"
    folders = {f"{prefix}{p.name}": p for p in (ROOT / "csrc" / part).iterdir() if p.is_dir()}
    assert set(folders) == set(below)
    included = [
        (name, path.name, folder)
        for name, place in folders.items()
        for path in place.iterdir()
        for folder in re.findall(r'#include "([\w/]+)/\w+\.h"', path.read_text())
    ]
    assert len(included) > 20
    assert [each for each in included if each[2] not in {each[0], *below[each[0]]}] == []


def test_the_bindings_include_no_torch() -> None:
    includes = re.compile(r'#include\s+[<"](torch|ATen|c10)/')
    bindings = (ROOT / "csrc" / "bindings").iterdir()
    assert [path.name for path in bindings if includes.search(path.read_text())] == []


def test_no_file_is_too_long_to_read() -> None:
    files = [*(ROOT / "python").rglob("*.py"), *(ROOT / "csrc").rglob("*.*")]
    code = [path for path in files if path.suffix in {".py", ".h", ".cpp"}]
    assert {p.name for p in code if len(p.read_text().splitlines()) > 500} == set()
