"""A tensor that the elements of a list share is in one place, and right for all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._decomp import decomposition_table, register_decomposition
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Shard

import shardprop
from shardprop._torch import OpOverload
from shardprop.corrections.shared_in_list import SHARED_IN_LIST
from shardprop.errors import RefusedPlacementError
from shardprop.model.placements import Placements
from shardprop.propagation import propagator, shared_operands

from ..narrow import sharded
from ..specs import P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]

aten = torch.ops.aten

RANKS = 3
ITEMS = [torch.arange(18.0).reshape(6, 3), torch.arange(18.0, 36.0).reshape(6, 3)]
OTHER = torch.tensor(6.0)
OPS: list[OpOverload] = [
    op.Tensor
    for name in ("_foreach_add", "_foreach_mul", "_foreach_div")
    for op in (getattr(aten, name), getattr(aten, f"{name}_"))
]


def held(whole: torch.Tensor, mesh: DeviceMesh, placement: Placement) -> DTensor:
    """The tensor on ranks that hold different parts of a pending sum."""
    if placement == S(0):
        parts = list(whole.chunk(RANKS))
    elif placement == P:
        parts = [whole * share for share in (1 / 6, 2 / 6, 3 / 6)]
    else:
        parts = [whole] * RANKS
    local = LocalTensor({rank: part.clone() for rank, part in enumerate(parts)})
    return DTensor.from_local(local, mesh, [placement], run_check=False)


def computed(
    op: OpOverload, mesh: DeviceMesh, items: tuple[Placement, ...], other: Placement
) -> list[torch.Tensor]:
    with LocalTensorMode(RANKS):
        given = [held(x, mesh, p) for x, p in zip(ITEMS, items, strict=True)]
        made = op(given, held(OTHER, mesh, other))
        return [sharded(x).full_tensor().reconcile() for x in (given if made is None else made)]  # type: ignore[attr-defined]


LAYOUTS = [(first, second) for first in (R, P, S(0)) for second in (R, P, S(0))]


@pytest.mark.parametrize("policy", ["torch", "optimal"])
@pytest.mark.parametrize("op", OPS, ids=str)
def test_values_are_those_of_one_device(op: OpOverload, policy: str, mesh_of: MeshOf) -> None:
    mesh = mesh_of(RANKS)
    topology = "h100-nvlink" if policy == "optimal" else None
    right = [x.clone() for x in ITEMS]
    right = op(right, OTHER) or right
    with shardprop.enabled(policy=policy, topology=topology):
        for layout in LAYOUTS:
            for other in (R, P):
                try:
                    found = computed(op, mesh, layout, other)
                except RuntimeError as error:  # what is written into stays pending, or not at all
                    assert op.name().split(".")[0].endswith("_"), error
                    assert P in layout, error
                    continue
                for one, whole in zip(found, right, strict=True):
                    assert torch.allclose(one, whole), (layout, other)


@pytest.mark.parametrize("items", [(P, R), (R, P), (S(0), P)], ids=str)
def test_torch_alone_takes_the_first_ones_word(
    items: tuple[Placement, ...], mesh_of: MeshOf
) -> None:
    op = aten._foreach_mul.Tensor
    right = op(ITEMS, OTHER)
    alone = computed(op, mesh_of(RANKS), items, P)
    assert not all(map(torch.allclose, alone, right))
    with shardprop.enabled(corrections=False):
        assert all(map(torch.equal, computed(op, mesh_of(RANKS), items, P), alone))


def test_it_moves_only_on_the_mesh_dims_on_which_they_disagree(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 4)
    lists = [spec_of(mesh, (64, 64), p) for p in ((R, R), (R, P))]
    with shardprop.enabled():
        found = shardprop.propagate(aten._foreach_mul.Tensor, lists, spec_of(mesh, (), (P, P)))
    assert found.operands == ((R, R), (R, P), (P, R))
    assert found.route.correction is SHARED_IN_LIST


# Of two matrices and a number for both: placements over the mesh dims.
TOGETHER = [
    ((4,), (P,), (R,), (P,)),
    ((2, 4), (P, R), (R, P), (P, P)),
    ((2, 4), (P, S(0)), (P, P), (P, R)),
]


@pytest.mark.parametrize(("sizes", "one", "two", "other"), TOGETHER, ids=str)
def test_under_policy_optimal_elements_are_decided_together(
    sizes: tuple[int, ...], one: Placements, two: Placements, other: Placements, mesh_of: MeshOf
) -> None:
    """What they share is moved once, so that the least of each is not the least of all."""
    mesh = mesh_of(*sizes)
    lists = [spec_of(mesh, (2048, 2048), one), spec_of(mesh, (2048, 2048), two)]
    number = spec_of(mesh, (), other)
    with shardprop.enabled():
        torchs = shardprop.propagate(aten._foreach_add.Tensor, lists, number)
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        ours = shardprop.propagate(aten._foreach_add.Tensor, lists, number)
        price = propagator.current_policy().cost
        costs = [
            sum(
                price(src, spec_of(mesh, tuple(src.shape), wanted))
                for src, wanted in zip([*lists, number], found.operands, strict=True)
                if src.placements != wanted
            )
            for found in (ours, torchs)
        ]
    assert costs[0] <= costs[1]
    assert sum(ours.operand_costs) == pytest.approx(costs[0])
    assert ours.route.correction is None


class MyShard(Shard):
    """A placement that the core does not know."""


def test_what_the_core_leaves_to_torch_is_refused(mesh_of: MeshOf) -> None:
    mesh = mesh_of(RANKS)
    lists = [spec_of(mesh, (6, 3), (p,)) for p in (R, P, MyShard(0))]
    op = aten._foreach_mul.Tensor
    with shardprop.enabled():
        with pytest.raises(RefusedPlacementError, match="moved for it alone"):
            shardprop.propagate(op, lists, spec_of(mesh, (), (P,)))
        found = shardprop.propagate(op, [lists[0], lists[2]], spec_of(mesh, (), (R,)))
    assert found.operands[0] == (R,)


def test_without_anything_pending_elements_are_asked_once(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = mesh_of(RANKS)
    lists = [spec_of(mesh, (6, 3), (p,)) for p in (R, S(0))]
    monkeypatch.setattr(shared_operands, "asked_of", None)
    with shardprop.enabled():
        found = shardprop.propagate(aten._foreach_mul_.Tensor, lists, spec_of(mesh, (), (R,)))
    assert found.operands == ((R,), (S(0),), (R,))


def test_elements_that_agree_are_decided_as_torch_does(mesh_of: MeshOf) -> None:
    mesh = mesh_of(RANKS)
    lists = [spec_of(mesh, (6, 3), (p,)) for p in (R, S(0), R)]
    with shardprop.enabled():
        found = shardprop.propagate(aten._foreach_mul.Tensor, lists, spec_of(mesh, (), (P,)))
    assert found.outputs == ((P,), (P,), (P,))
    assert found.route.correction is None


def test_what_is_run_is_what_is_counted_and_explained(mesh_of: MeshOf) -> None:
    mesh = mesh_of(RANKS)
    op = aten._foreach_mul.Tensor
    with shardprop.enabled():
        shardprop.clear_caches()
        shardprop.reset_stats()
        computed(op, mesh, (R, P), P)
        assert shardprop.stats().corrections == {SHARED_IN_LIST.name: 1}
        lists = [spec_of(mesh, (6, 3), (p,)) for p in (R, P)]
        found = shardprop.explain(op, lists, spec_of(mesh, (), (P,)))
        decided = shardprop.propagate(op, lists, spec_of(mesh, (), (P,)))
    elements = found.decision.elements
    assert [[m.dst.placements for m in one.moves] for one in elements] == [[(R,)], [(R,)]]
    assert decided.operands == ((R,), (P,), (R,))
    assert SHARED_IN_LIST.right in decided.why


def test_inside_a_decomposition_that_layout_is_left_out(mesh_of: MeshOf) -> None:
    def scaled(x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.add(*aten._foreach_mul.Tensor([x, y], scale))

    with torch.library._scoped_library("shardprop_shared", "DEF") as library:
        library.define("scaled(Tensor x, Tensor y, Tensor scale) -> Tensor")
        library.impl("scaled", scaled, "CompositeExplicitAutograd")
        op: OpOverload = torch.ops.shardprop_shared.scaled.default
        register_decomposition(op)(scaled)
        try:
            with shardprop.enabled(), LocalTensorMode(RANKS):
                operands = zip([*ITEMS, OTHER], (R, P, P), strict=True)
                made = op(*(held(x, mesh_of(RANKS), p) for x, p in operands))
                found = sharded(made).full_tensor().reconcile()  # type: ignore[attr-defined]
            assert torch.allclose(found, scaled(ITEMS[0], ITEMS[1], OTHER))
        finally:
            del decomposition_table[op]


def test_averages_are_brought_to_one_place_too(mesh_of: MeshOf) -> None:
    mesh = mesh_of(RANKS)
    lists = [spec_of(mesh, (6, 3), (p,)) for p in (R, Partial("avg"))]
    with shardprop.enabled():
        found = shardprop.propagate(aten._foreach_add.Tensor, lists, spec_of(mesh, (), (R,)))
    assert found.operands[-1] == (R,)
