"""What torch refuses: its own error, no more and no less; counted as refused, and remembered."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy

import shardprop
from shardprop.propagation import decision
from shardprop.propagation.asked import asked_of

from ..narrow import sharded

MeshOf = Callable[..., DeviceMesh]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    shardprop.clear_caches()
    shardprop.reset_stats()
    yield
    shardprop.disable()


def uneven_view(mesh: DeviceMesh) -> DTensor:
    x = distribute_tensor(torch.ones(8, 256), mesh, [Shard(1)])
    return sharded(x.view(8, 2, -1))


def misfit(mesh: DeviceMesh) -> DTensor:
    x = distribute_tensor(torch.ones(8, 6), mesh, [Shard(0)])
    return sharded(torch.mm(x, x))


def needs_values(mesh: DeviceMesh) -> Any:
    return torch.nonzero(distribute_tensor(torch.ones(8), mesh, [Replicate()]))


def raised(program: Callable[[DeviceMesh], Any], mesh: DeviceMesh) -> list[str]:
    """The traceback of its error, line by line, without the note on how to give an op a rule."""
    try:
        program(mesh)
    except Exception:
        lines = traceback.format_exc().splitlines()
        return [line for line in lines if not line.startswith("shardprop: give it one")]
    raise AssertionError("torch refuses nothing")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="re-raising keeps the frames it came by")
@pytest.mark.parametrize("program", [uneven_view, needs_values], ids=lambda each: each.__name__)
@pytest.mark.parametrize("policy", [{}, {"policy": "optimal", "topology": "h100-nvlink"}], ids=str)
def test_an_error_is_torchs_line_by_line(
    program: Callable[[DeviceMesh], Any], policy: dict[str, Any], mesh_of: MeshOf
) -> None:
    mesh = mesh_of(4)
    theirs = raised(program, mesh)
    shardprop.enable(**policy)
    for _ in range(3):  # the later ones are remembered
        assert raised(program, mesh) == theirs


def test_an_error_of_the_operands_has_no_frame_of_ours_before_torchs(mesh_of: MeshOf) -> None:
    theirs = raised(misfit, mesh_of(4))
    shardprop.enable()
    ours = raised(misfit, mesh_of(4))
    assert ours[-3:] == theirs[-3:]
    assert "NoStrategyError" not in "".join(ours) and "During handling" not in "".join(ours)


def test_a_refusal_is_counted_apart_from_fallbacks(mesh_of: MeshOf) -> None:
    shardprop.enable()
    for count in (1, 2, 3):
        raised(uneven_view, mesh_of(4))
        stats = shardprop.stats()
        assert sum(stats.refused.values()) == count
        assert stats.fallbacks == {} and stats.delegated == {}
        assert "refused by torch: an uneven shard of a dim that is cut" in str(stats)
    raised(needs_values, mesh_of(4))
    assert shardprop.stats().refused["decomposition"] == 1
    raised(misfit, mesh_of(4))
    assert shardprop.stats().refused["RuntimeError in the op or its rule"] == 1


@pytest.mark.parametrize("policy", [{}, {"policy": "optimal", "topology": "h100-nvlink"}], ids=str)
def test_what_was_refused_is_not_decided_again(
    policy: dict[str, Any], mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def counted(schema: Any, *rest: Any) -> Any:
        asked.append(schema.op)
        return asked_of(schema, *rest)

    monkeypatch.setattr(decision, "asked_of", counted)
    shardprop.enable(**policy)
    views = [raised(uneven_view, mesh_of(4)) for _ in range(4)]
    view = torch.ops.aten.view.default
    assert views[0] == views[-1] and asked.count(view) == 1
    # A change of terms, of rules or an emptied cache has it decided anew.
    shardprop.clear_caches()
    raised(uneven_view, mesh_of(4))
    assert asked.count(view) == 2
    shardprop.enable(strict=True, **policy)
    raised(uneven_view, mesh_of(4))
    assert asked.count(view) == 3


def test_a_rule_that_came_since_is_asked(mesh_of: MeshOf) -> None:
    with torch.library._scoped_library("shardprop_refused", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        twice = torch.ops.shardprop_refused.twice.default
        x = distribute_tensor(torch.ones(8), mesh_of(4), [Shard(0)])
        shardprop.enable()
        for _ in range(2):
            with pytest.raises(NotImplementedError):
                twice(x)
        register_single_dim_strategy(twice)(lambda *_: [[Shard(0), Shard(0)]])
        try:
            assert twice(x).placements == (Shard(0),)
            assert shardprop.stats().decisions > 0
        finally:
            prop = DTensor._op_dispatcher.sharding_propagator
            prop.op_single_dim_strategy_funcs.pop(twice)
            prop.op_to_schema_info_for_single_dim_strategy.pop(twice, None)


def test_another_call_of_the_op_is_decided(mesh_of: MeshOf) -> None:
    shardprop.enable()
    mesh = mesh_of(4)
    raised(uneven_view, mesh)
    before = shardprop.stats().decisions
    x = distribute_tensor(torch.ones(8, 256), mesh, [Shard(1)])
    assert sharded(x.view(8, 4, -1)).placements == (Shard(1),)
    assert shardprop.stats().decisions > before
