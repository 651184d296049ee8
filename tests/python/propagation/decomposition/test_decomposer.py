"""Rows of ops that have no rule, from the calls that their decompositions make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement

from shardprop import _torch
from shardprop.propagation.decomposition.program import Declined, OrderMatters
from shardprop.propagation.propagator import current_policy
from shardprop.propagation.route import decomposer
from shardprop.rules import torch_registry

from ...specs import P, R, S, spec_of
from .traced import one_rank

aten = torch.ops.aten
Row = Sequence[Placement]

# Op, the shapes of its operands, and its rows where these are cut along their first dim: the
# output, then the operands.
ROWS: dict[str, tuple[Any, list[tuple[int, ...]], list[Row]]] = {
    "in place": (aten.hardswish_.default, [(8, 4)], [[S(0), S(0)], [S(1), S(1)], [R, R]]),
    "a weight per column": (
        aten._prelu_kernel.default,
        [(8, 4), (4,)],
        [[S(0), S(0), R], [S(1), S(1), S(0)], [R, R, R]],
    ),
    "a product that sums": (
        aten.mv.default,
        [(8, 4), (4,)],
        [[S(0), S(0), R], [P, S(1), S(0)], [R, R, R]],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_those_of_what_the_op_computes(
    name: str, mesh_of: Callable[..., DeviceMesh]
) -> None:
    op, shapes, rows = ROWS[name]
    assert not torch_registry.has_rule(op)
    specs = tuple(spec_of(mesh_of(4), shape, [S(0)]) for shape in shapes)
    found = decomposer.rows(torch_registry.op_schema(op, specs, {}), current_policy())
    assert {*map(tuple, found.rows)} == {*map(tuple, rows)}
    assert not found.refused_by_torch


@pytest.mark.parametrize("where", ["inside another decomposition", "while tracing"])
def test_an_answer_of_torchs_cache_is_torchs_where_it_has_no_cache_of_its_own(
    where: str, mesh_of: Callable[..., DeviceMesh], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors by keyword are not in its key, so that earlier questions decide later ones."""
    tracing = where == "while tracing"
    monkeypatch.setattr(_torch, "are_we_tracing", lambda: tracing)
    mesh = mesh_of(4) if tracing else one_rank()
    x, y, out = (spec_of(mesh, (8, 3), [S(0)]) for _ in range(3))
    schema = torch_registry.op_schema(aten.cross.out, (x, y, 1), {"out": out})
    with pytest.raises(OrderMatters, match="calls whose decisions torch takes from its cache"):
        decomposer.rows(schema, current_policy())


def test_what_torch_refuses_is_decided_by_calls_that_come_apart_too(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    """Whatever was asked before, and where a dim of the scores is tried on targets without it."""
    mesh = mesh_of(4)
    op = aten.cross_entropy_loss.default
    for place in (R, S(0)):
        scores = spec_of(mesh, (8, 3), [place])
        targets = spec_of(mesh, (8,), [place], dtype=torch.int64)
        schema = torch_registry.op_schema(op, (scores, targets, spec_of(mesh, (3,), [place])), {})
        with _torch.as_dispatched():
            assert decomposer.rows(schema, current_policy()).refused_by_torch


def test_what_torch_refuses_is_not_left_to_its_search(
    mesh_of: Callable[..., DeviceMesh], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tries every combination of placements inside: 35 s for this op."""
    decided = []

    def decide(schema: Any, meta: Any, chooser: Any) -> Any:
        decided.append(schema.op)
        return plain(schema, meta, chooser)

    plain = decomposer.decide
    monkeypatch.setattr(decomposer, "decide", decide)
    decomposer.clear()
    mesh = mesh_of(4)
    out, x = (spec_of(mesh, (2, 3, n, n), [S(0)]) for n in (12, 8))
    op = aten.reflection_pad2d_backward.default
    with _torch.as_dispatched(), pytest.raises(Declined, match="has no rows of ours"):
        decomposer.rows(torch_registry.op_schema(op, (out, x, [2, 2, 2, 2]), {}), current_policy())
    assert all(map(torch_registry.has_rule, decided))
