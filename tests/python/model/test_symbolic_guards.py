"""A decision for sizes that torch.compile sees is guarded where it would be another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._redistribute import use_min_cost_redistribution_plan

import shardprop
from shardprop import _core
from shardprop.model.symbolic_guards import SymbolicSizes, symbolic_cost

from .. import specs
from ..specs import R, S
from ..symbolic import Symbols, spec_of

MeshOf = Callable[..., DeviceMesh]


@pytest.mark.parametrize("least", [None, 100])
@pytest.mark.parametrize("most", [None, 900])
def test_a_product_is_guarded_on_both_sides(
    mesh_of: MeshOf, least: int | None, most: int | None
) -> None:
    mesh, symbols = mesh_of(4), Symbols()
    rows, columns = symbols.backed("rows", 12), symbols.backed("columns", 20)
    with symbols.mode:
        spec = spec_of(mesh, (rows, 3, columns), [S(0)])
    before = len(symbols.env.guards)
    SymbolicSizes([spec], None).keep_product(0, least, most)
    guards = [guard.expr for guard in symbols.env.guards[before:]]

    def hold(product: int) -> bool:
        values = {rows.node.expr: 2, columns.node.expr: product // 2}
        return all(bool(guard.xreplace(values)) for guard in guards)

    assert hold(100) and hold(900)
    assert hold(98) == (least is None)
    assert hold(902) == (most is None)


def test_a_product_of_sizes_that_only_the_data_tell_is_not_guarded(mesh_of: MeshOf) -> None:
    mesh, symbols = mesh_of(4), Symbols()
    size = symbols.unbacked(2, 64)
    with symbols.mode:
        spec = spec_of(mesh, (size, 3), [R])
    before = len(symbols.env.guards)
    SymbolicSizes([spec], None).keep_product(0, 1, 2)
    assert len(symbols.env.guards) == before


@pytest.mark.parametrize(
    ("shape", "ends"),
    [((4,), ([S(0)], [R])), ((2, 4), ([S(0), S(1)], [R, R]))],
    ids=["one step", "two steps"],
)
def test_a_price_of_sizes_that_are_expressions_holds_for_their_values(
    mesh_of: MeshOf, shape: tuple[int, ...], ends: tuple[list[Placement], ...]
) -> None:
    mesh, symbols = mesh_of(*shape), Symbols()
    with symbols.mode:
        size = symbols.backed("size", 64)
        price = symbolic_cost(*(spec_of(mesh, (size, 8), placements) for placements in ends))
    fixed = (specs.spec_of(mesh, (64, 8), placements) for placements in ends)
    assert float(price) == shardprop.redistribute_cost(*fixed)


def test_a_plan_on_torchs_graph_has_no_price_as_an_expression(mesh_of: MeshOf) -> None:
    mesh, symbols = mesh_of(4), Symbols()
    with symbols.mode, use_min_cost_redistribution_plan(True):
        size = symbols.backed("size", 64)
        with pytest.raises(_core.Unsupported, match="symbolic shape in a graph plan"):
            symbolic_cost(*(spec_of(mesh, (size, 8), [placement]) for placement in (S(0), R)))
