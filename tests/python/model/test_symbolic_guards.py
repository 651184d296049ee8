"""A decision for sizes that torch.compile sees is guarded where it would be another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch.distributed.device_mesh import DeviceMesh

from shardprop.model.symbolic_guards import SymbolicSizes

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
