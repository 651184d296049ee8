"""Of a decomposition, a layout does not hold that moves what is in a list inside of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._decomp import decomposition_table, register_decomposition
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement

import shardprop
from shardprop._torch import OpOverload
from shardprop.corrections.list_moved_inside import LIST_MOVED_INSIDE

from ..specs import P, R, S


def square_plus(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch._foreach_add([x * x], [y])[0]


@pytest.fixture(scope="module")
def op() -> Iterator[OpOverload]:
    with torch.library._scoped_library("shardprop_lists", "DEF") as library:
        library.define("square_plus(Tensor x, Tensor y) -> Tensor")
        library.impl("square_plus", square_plus, "CompositeExplicitAutograd")
        op: OpOverload = torch.ops.shardprop_lists.square_plus.default
        register_decomposition(op)(square_plus)
        yield op
        del decomposition_table[op]


X, Y = torch.arange(8.0).reshape(4, 2), torch.arange(8.0, 16.0).reshape(4, 2)


def held(of_ranks: list[torch.Tensor], placement: Placement) -> DTensor:
    mesh = init_device_mesh("cpu", (2,))
    local = LocalTensor(dict(enumerate(part.clone() for part in of_ranks)))
    return DTensor.from_local(local, mesh, [placement], run_check=False)


def by_ranks(op: OpOverload, placement: Placement, parts: list[torch.Tensor]) -> torch.Tensor:
    with LocalTensorMode(2):
        whole: torch.Tensor = op(held([X, X], R), held(parts, placement)).full_tensor()
        return whole.reconcile()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("placement", "parts"),
    [(P, [Y / 2, Y / 2]), (S(0), [Y[:2], Y[2:]]), (S(1), [Y[:, :1], Y[:, 1:]]), (R, [Y, Y])],
    ids=str,
)
def test_values_are_those_of_one_device(
    op: OpOverload, placement: Placement, parts: list[torch.Tensor]
) -> None:
    with shardprop.enabled():
        assert torch.equal(by_ranks(op, placement, parts), X * X + Y)


def test_it_is_counted_where_the_layout_is_left_out(op: OpOverload) -> None:
    with shardprop.enabled():
        shardprop.reset_stats()
        by_ranks(op, P, [Y / 2, Y / 2])
        assert shardprop.stats().corrections == {LIST_MOVED_INSIDE.name: 1}


def test_without_corrections_it_is_as_torch_has_it(op: OpOverload) -> None:
    alone = by_ranks(op, P, [Y / 2, Y / 2])
    assert not torch.equal(alone, X * X + Y)
    with shardprop.enabled(corrections=False):
        assert torch.equal(by_ranks(op, P, [Y / 2, Y / 2]), alone)
