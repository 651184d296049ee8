"""What happens to a Partial: addition needs every operand partial, multiplication exactly one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Placement

import shardprop

from ..specs import P, R, spec_of

aten = torch.ops.aten
AVG, MAX = Partial("avg"), Partial("max")
MeshOf = Callable[..., DeviceMesh]


def decided(mesh: DeviceMesh, op: Any, *operands: Placement | float) -> tuple[Any, ...]:
    """Output and wanted placements on a 1-D mesh, each operand a matrix or a number."""
    args = [
        spec_of(mesh, (64, 64), [operand]) if isinstance(operand, Placement) else operand
        for operand in operands
    ]
    decision = shardprop.propagate(op, *args)
    (output,) = decision.outputs
    return output, tuple(placements for (placements,) in decision.operands)


@pytest.mark.parametrize("op", [aten.add.Tensor, aten.sub.Tensor], ids=str)
@pytest.mark.parametrize("partial", [P, AVG], ids=str)
def test_addition_keeps_a_partial_that_all_operands_have(
    mesh_of: MeshOf, op: Any, partial: Placement
) -> None:
    assert decided(mesh_of(2), op, partial, partial) == ((partial,), (partial, partial))


@pytest.mark.parametrize("op", [aten.add.Tensor, aten.sub.Tensor], ids=str)
def test_addition_to_a_whole_operand_never_stays_partial_as_it_is(mesh_of: MeshOf, op: Any) -> None:
    output, wanted = decided(mesh_of(2), op, P, R)
    # Either nothing is pending any more, or the whole operand was made pending too.
    assert wanted == (P, P) if output == (P,) else P not in wanted


@pytest.mark.parametrize("partial", [P, AVG], ids=str)
def test_multiplication_keeps_the_partial_of_one_operand(
    mesh_of: MeshOf, partial: Placement
) -> None:
    assert decided(mesh_of(2), aten.mul.Tensor, partial, R) == ((partial,), (partial, R))
    assert decided(mesh_of(2), aten.mul.Tensor, R, partial) == ((partial,), (R, partial))


def test_a_product_of_partials_is_not_partial(mesh_of: MeshOf) -> None:
    _, wanted = decided(mesh_of(2), aten.mul.Tensor, P, P)
    assert wanted.count(P) < 2


def test_division_keeps_the_partial_of_the_numerator_only(mesh_of: MeshOf) -> None:
    assert decided(mesh_of(2), aten.div.Tensor, P, R) == ((P,), (P, R))
    _, wanted = decided(mesh_of(2), aten.div.Tensor, R, P)
    assert P not in wanted


@pytest.mark.parametrize("partial", [P, AVG], ids=str)
def test_negation_and_scaling_keep_a_partial(mesh_of: MeshOf, partial: Placement) -> None:
    assert decided(mesh_of(2), aten.neg.default, partial) == ((partial,), (partial,))
    assert decided(mesh_of(2), aten.mul.Scalar, partial, 2.0) == ((partial,), (partial,))
    assert decided(mesh_of(2), aten.div.Scalar, partial, 2.0) == ((partial,), (partial,))


def test_adding_a_number_settles_a_sum(mesh_of: MeshOf) -> None:
    output, wanted = decided(mesh_of(2), aten.add.Scalar, P, 1.0)
    assert P not in (*output, *wanted)


def test_a_maximum_does_not_pass_through_a_product(mesh_of: MeshOf) -> None:
    _, wanted = decided(mesh_of(2), aten.mul.Tensor, MAX, R)
    assert MAX not in wanted
