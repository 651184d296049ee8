"""A torch that nobody has tried: its private functions are looked at, and its decisions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import shardprop
from shardprop import ShardpropError, _torch
from shardprop._torch import known
from shardprop.propagation import self_test
from shardprop.propagation.propagator import propagate_aside

PACKAGES = Path(shardprop.__file__).parents[1]
NEWEST = torch.__version__.startswith(known.KNOWN[-1])

UNKNOWN = "import torch; torch.__version__ = '2.99.0'\nimport torch.distributed.tensor\n"
RENAMED = (
    "from torch.distributed.tensor import _redistribute as r\n"
    "r.redistributed_otherwise = r.redistribute_local_tensor; del r.redistribute_local_tensor\n"
)


def ran(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_this_torch_is_known() -> None:
    assert known.is_known()


@pytest.mark.skipif(not NEWEST, reason="the names are those of the newest torch")
def test_the_names_are_those_that_are_used() -> None:
    assert known.changes() == []
    tool = [sys.executable, "-m", "tools.torch_names", "--check"]
    path = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        tool, cwd=Path(__file__).parents[3], env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert done.returncode == 0, "write them anew: python -m tools.torch_names"


@pytest.mark.slow
@pytest.mark.skipif(not NEWEST, reason="the names are those of the newest torch")
def test_a_torch_with_the_same_names_and_decisions_is_taken() -> None:
    done = ran(UNKNOWN + "import shardprop; shardprop.enable(); print(shardprop.is_enabled())")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not NEWEST, reason="the names are those of the newest torch")
def test_a_private_function_under_another_name_is_named() -> None:
    done = ran(UNKNOWN + RENAMED + "import shardprop; shardprop.enable()")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "shardprop.errors.ShardpropError: Expected torch 2.13 to 2.15, or one with the same "
        "private functions, got 2.99.0: "
        "torch.distributed.tensor._redistribute.redistribute_local_tensor is not there. "
        "Use a torch that is known, or a newer shardprop."
    )


@pytest.mark.slow
@pytest.mark.skipif(not NEWEST, reason="the names are those of the newest torch")
def test_a_program_that_was_not_edited_goes_on_without() -> None:
    gone = "import torch; del torch._C._clear_DTensor_sharding_propagator_cache\n"
    done = ran(gone + UNKNOWN + "import shardprop; print('went on')", SHARDPROP="1")
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert "shardprop: not enabled, ShardpropError: Expected torch 2.13 to " in done.stderr


def test_changes_that_matter_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    module = f"{__name__}"
    names.write_text(
        f'{{"{module}.taken": "(a, b=, *, c)", "{module}.more": "(a)", "{module}.gone": null,'
        f' "{module}.fewer": "(a, b)", "{module}.needs": "(a)", "{module}.NEWEST": null}}'
    )
    monkeypatch.setattr(known, "NAMES", names)
    assert known.changes() == [
        f"{module}.gone is not there",
        f"{module}.fewer takes (a), not (a, b)",
        f"{module}.needs takes (a, b), not (a)",
    ]


def taken(a: int, b: int = 0, *, c: int) -> None: ...


def more(a: int, b: int = 0, *args: int, c: int = 0, **kwargs: int) -> None: ...


def fewer(a: int) -> None: ...


def needs(a: int, b: int) -> None: ...


def test_decisions_are_compared() -> None:
    with shardprop.enabled(corrections=False):
        self_test.check_decisions(propagate_aside)
        assert len([*self_test._schemas()]) > 100


def test_a_decision_that_differs_is_named() -> None:
    def decide(schema: _torch.OpSchema) -> _torch.OutputSharding:
        if schema.op is torch.ops.aten.t.default:
            raise NotImplementedError
        return propagate_aside(schema)

    with shardprop.enabled(corrections=False), pytest.raises(ShardpropError) as caught:
        self_test.check_decisions(decide)
    assert "which is not known, to decide as shardprop, got for aten.t.default(" in str(
        caught.value
    )
    assert "NotImplementedError of shardprop" in str(caught.value)
