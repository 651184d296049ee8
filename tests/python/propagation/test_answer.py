"""Which operands a choice moves, and where to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

from shardprop import _core
from shardprop.metadata import output_meta
from shardprop.model.question import Choice, question_of
from shardprop.propagation.answer import SpecMaker, moves, output_sharding
from shardprop.rules import torch_registry

from ..specs import R, S, spec_of

aten = torch.ops.aten
MeshOf = Callable[..., DeviceMesh]


def choice_on(mesh: DeviceMesh, *, pinned: tuple[int, ...]) -> Choice:
    """Both operands of an op are to be whole."""
    whole = (R,) * mesh.ndim
    return Choice((whole,), (whole, whole), mesh, 0.0, [0.0, 0.0], 1, pinned)


@pytest.mark.parametrize("pinned", [(), (1,)], ids=["free", "pinned"])
def test_an_operand_of_the_ops_mesh_moves_pinned_or_not(
    mesh_of: MeshOf, pinned: tuple[int, ...]
) -> None:
    mesh = mesh_of(2, 4)
    choice = choice_on(mesh, pinned=pinned)
    operands = [spec_of(mesh, (8, 8), at) for at in ((R, R), (S(0), R))]
    assert [moves(spec, choice, i) for i, spec in enumerate(operands)] == [False, True]
    wanted = SpecMaker(operands, operands).wanted(operands[1], choice, 1)
    assert (wanted.mesh, wanted.placements) == (mesh, (R, R))


def test_an_operand_pinned_to_another_mesh_stays_as_it_is(mesh_of: MeshOf) -> None:
    choice, elsewhere = choice_on(mesh_of(2, 4), pinned=(1,)), mesh_of(4)
    operand = spec_of(elsewhere, (8, 8), (S(0),))
    assert not moves(operand, choice, 1)
    wanted = SpecMaker([operand], [operand]).wanted(operand, choice, 1)
    assert (wanted.mesh, wanted.placements) == (elsewhere, (S(0),))


@pytest.mark.parametrize(
    ("op", "rest", "placed"),
    [
        (aten.split.Tensor, (6, 1), (S(0),)),  # a list of one
        (aten.relu.default, (), None),
    ],
    ids=str,
)
def test_one_output_is_placed_by_its_metadata_and_its_placements(
    mesh_of: MeshOf, op: Any, rest: tuple[Any, ...], placed: Any
) -> None:
    schema = torch_registry.op_schema(op, (spec_of(mesh_of(4), (8, 6), (S(0),)), *rest), {})
    question = question_of(schema, output_meta(schema))
    choice = Choice((placed,), ((S(0),),), mesh_of(4), 0.0, [0.0], 1, ())
    with pytest.raises(_core.Unsupported, match="without tensor metadata"):
        output_sharding(schema, question, choice)
