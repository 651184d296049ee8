"""Ops that nobody has a rule for, on replicated operands: `enable(without_rule="replicate")`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

import shardprop
from shardprop import ShardpropError
from shardprop.propagation import warning

from ..specs import P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]

REFUSED = "does not have a sharding strategy registered"

_library = torch.library.Library("replicated_test", "DEF")
for _schema in (
    "halved(Tensor x) -> Tensor",
    "halved_in_place(Tensor(a!) x) -> Tensor(a!)",
    "viewed(Tensor(a) x) -> Tensor(a)",
    "counted(Tensor x) -> int",
):
    _library.define(_schema)
_library.define("drawn(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
_library.define("found(Tensor x) -> Tensor", tags=(torch.Tag.dynamic_output_shape,))
for _name in ("halved", "drawn", "found"):
    _library.impl(_name, lambda x: x / 2, "CompositeExplicitAutograd")
ops = torch.ops.replicated_test


@pytest.fixture(autouse=True)
def not_warned_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(warning, "_warned_of", set())
    yield
    shardprop.disable()


def spread(mesh: DeviceMesh, shape: tuple[int, ...], *placements: Any) -> DTensor:
    whole = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return distribute_tensor(whole, mesh, placements, src_data_rank=None)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "fold": lambda x: F.fold(x, (3, 3), (2, 2)),
    "reflection_pad2d": lambda x: F.pad(x.unsqueeze(0), (1, 1, 1, 1), mode="reflect"),
    "cdist": lambda x: torch.cdist(x, x),
    "own": lambda x: ops.halved(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_on_what_is_gathered(mesh_of: MeshOf, name: str) -> None:
    program, x = PROGRAMS[name], spread(mesh_of(4), (1, 8, 4), S(1))
    with shardprop.enabled(), pytest.raises(NotImplementedError, match=REFUSED):
        program(x)
    shardprop.reset_stats()
    with shardprop.enabled(without_rule="replicate"):
        with pytest.warns(UserWarning, match="runs on replicated operands") as caught:
            made = program(x)
        assert {warned.filename for warned in caught} == {__file__}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert program(x).shape == made.shape  # warned of once
        found = shardprop.stats()
        assert sum(found.without_rule.values()) >= 1 and found.refused == {}
        assert made.placements == (R,)
        assert made.shape == program(torch.empty(x.shape, device="meta")).shape
    with shardprop.enabled(), pytest.raises(NotImplementedError, match=REFUSED):
        program(x)


@pytest.mark.filterwarnings("ignore:.* has no sharding rule")
def test_gradients_come_back(mesh_of: MeshOf) -> None:
    x = spread(mesh_of(4), (1, 8, 4), S(1)).requires_grad_()
    with shardprop.enabled(without_rule="replicate"):
        for program in (PROGRAMS["fold"], PROGRAMS["reflection_pad2d"], PROGRAMS["cdist"]):
            x.grad = None
            program(x).sum().backward()
            assert isinstance(x.grad, DTensor) and x.grad.shape == x.shape


@pytest.mark.parametrize("placement", [S(0), P, R])
def test_values_are_those_of_the_whole(mesh_of: MeshOf, placement: Any) -> None:
    """One rank has all there is: collectives of the fake group move nothing."""
    whole = torch.randn(4, 4)
    x = DTensor.from_local(whole, mesh_of(1), [placement], run_check=False)
    with shardprop.enabled(without_rule="replicate"), pytest.warns(UserWarning):
        made = ops.halved(x)
    assert torch.equal(made.to_local(), whole / 2)


def test_what_is_asked_beforehand_is_what_runs(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(4), (8, 4), [S(0)])
    with shardprop.enabled(without_rule="replicate"):
        decided = shardprop.propagate(ops.halved.default, x)
        assert decided.outputs == ((R,),)
        assert "without_rule" in str(shardprop.explain(ops.halved.default, x))


@pytest.mark.parametrize("name", ["halved_in_place", "viewed", "counted", "drawn", "found"])
def test_what_would_not_be_right_is_refused(mesh_of: MeshOf, name: str) -> None:
    x = spread(mesh_of(4), (8, 4), S(0))
    with (
        shardprop.enabled(without_rule="replicate"),
        pytest.raises((NotImplementedError, RuntimeError)),
    ):
        getattr(ops, name)(x)
    assert shardprop.stats().without_rule.get(f"replicated_test.{name}.default") is None


def test_a_rule_takes_its_place(mesh_of: MeshOf) -> None:
    x = spread(mesh_of(4), (8, 4), S(0))
    with shardprop.enabled(without_rule="replicate"), shardprop.temporary_rules():
        with pytest.warns(UserWarning):
            assert ops.halved(x).placements == (R,)
        shardprop.register_rule(ops.halved.default, "m n -> m n")
        assert ops.halved(x).placements == (S(0),)
        with shardprop.enabled(without_rule="replicate"):
            assert ops.halved(x).placements == (S(0),)


def test_another_value_is_refused() -> None:
    with pytest.raises(ShardpropError, match="without_rule: Expected 'replicate' or None"):
        shardprop.enable(without_rule="shard")


def test_it_does_not_come_back(mesh_of: MeshOf) -> None:
    x = spread(mesh_of(4), (8, 4), S(0))
    shardprop.enable(without_rule="replicate")
    with pytest.warns(UserWarning):
        ops.halved(x)
    with shardprop.temporary_rules():
        shardprop.disable()
    with pytest.raises(NotImplementedError, match=REFUSED):
        ops.halved(x)
    with pytest.raises(ShardpropError, match="registered by shardprop, got one without"):
        shardprop.unregister(ops.halved.default)
