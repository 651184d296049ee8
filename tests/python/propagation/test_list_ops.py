"""List ops, cat and stack on many tensors, of which many are alike: torch decides each on its own,
shardprop the alike ones together."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
import torch
from torch._ops import OpOverload
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema

import shardprop
from shardprop import _torch
from shardprop.propagation.list_ops import Elements
from shardprop.rules import torch_registry
from tests.python.parity.outcome import Normalizer, Outcome

from ..specs import SS, P, R, S, spec_of

aten = torch.ops.aten
LENGTH = 40
SHAPES = [(16, 8), (8, 16), (16, 16)]
LAYOUTS: list[tuple[Placement, ...]] = [
    (S(0), R),
    (S(1), S(0)),
    (R, P),
    (S(0), S(0)),
    (SS(0, 2), R),
    (R, R),
]


class Arguments(NamedTuple):
    """How many lists of tensors an op takes, and what comes after them."""

    lists: int
    scalars: tuple[Any, ...] = ()


OPS = {
    aten._foreach_add.List: Arguments(2),
    aten._foreach_addcdiv_.ScalarList: Arguments(3, ([1.0] * LENGTH,)),
    aten._foreach_lerp_.Scalar: Arguments(2, (0.5,)),
    aten._foreach_norm.Scalar: Arguments(1, (2.0,)),
    aten._foreach_sqrt.default: Arguments(1),
    aten.cat.default: Arguments(1),
    aten.stack.default: Arguments(1),
}


def many(
    mesh: Any, rng: random.Random, one_shape: bool = False, partial: bool = True
) -> list[DTensorSpec]:
    """Tensors of a few kinds in random order, some of them the same object."""
    layouts = [layout for layout in LAYOUTS if partial or P not in layout]
    kinds = {
        (shape, layout): spec_of(mesh, shape, layout) for shape in SHAPES for layout in layouts
    }
    made: list[DTensorSpec] = []
    for index in range(LENGTH):
        kind = SHAPES[0 if one_shape else index % len(SHAPES)], rng.choice(layouts)
        made.append(kinds[kind] if rng.random() < 0.5 else spec_of(mesh, *kind))
    return made


def arguments(op: OpOverload, mesh: Any, rng: random.Random) -> tuple[Any, ...]:
    if op in (aten.cat.default, aten.stack.default):
        return many(mesh, rng, one_shape=True), rng.choice([0, 1])
    in_place = op._schema.name.endswith("_")  # what is written must keep its layout
    lists = [many(mesh, rng, partial=not in_place)]
    lists += [many(mesh, rng) for _ in range(OPS[op].lists - 1)]
    return (*lists, *OPS[op].scalars)


def answer(op: OpOverload, args: tuple[Any, ...]) -> Outcome:
    schema = torch_registry.op_schema(op, args, {})
    sharding = _torch.propagator().propagate_op_sharding_non_cached(schema)
    return Normalizer().sharding(sharding, schema)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("op", OPS, ids=str)
def test_decision_on_a_long_list_equals_torch(op: OpOverload, seed: int, mesh_of: Any) -> None:
    args = arguments(op, mesh_of(2, 4), random.Random(f"{op}{seed}"))
    shardprop.clear_caches()
    expected = answer(op, args)
    with shardprop.enabled(strict=True):
        shardprop.reset_stats()
        assert answer(op, args) == expected
        assert shardprop.stats().decisions == 1


def test_several_outputs_that_are_no_list_have_the_metadata_of_the_whole_op(mesh_of: Any) -> None:
    """Those of the elements that are alike would be taken for outputs."""
    kinds = [spec_of(mesh_of(4), shape, [R]) for shape in SHAPES]
    given = [*kinds, *kinds, *kinds]
    schema = torch_registry.op_schema(aten._foreach_sqrt.default, (given,), {})
    elements = Elements(schema)
    assert (elements.length, len(elements.first)) == (9, 3)
    for outputs in (2, 4):  # fewer than there are kinds, and more

        def propagate(asked: OpSchema, outputs: int = outputs) -> Any:
            (specs,) = asked.args_schema
            assert isinstance(specs, list)
            metas = [spec.tensor_meta for spec in specs]
            return tuple(metas for _ in range(outputs))

        assert elements.meta(propagate) == propagate(schema)


def test_elements_that_are_alike_have_their_metadata_from_the_first_of_them(mesh_of: Any) -> None:
    kinds = [spec_of(mesh_of(4), shape, [R]) for shape in SHAPES]
    asked: list[int] = []

    def propagate(schema: OpSchema) -> Any:
        (specs,) = schema.args_schema
        assert isinstance(specs, list)
        asked.append(len(specs))
        return [spec.tensor_meta for spec in specs]

    for given in ([*kinds, *kinds, *kinds], kinds):
        schema = torch_registry.op_schema(aten._foreach_sqrt.default, (given,), {})
        assert Elements(schema).meta(propagate) == [spec.tensor_meta for spec in given]
    assert asked == [3, 3]


def test_torch_has_one_tensor_for_all_elements_where_the_first_wants_it(mesh_of: Any) -> None:
    """The second element alone would have its sum finished: it is multiplied by another sum, which
    is wrong; see corrections/test_shared_in_list.py."""
    whole, pending = (spec_of(mesh_of(4), (64, 64), [placement]) for placement in (R, P))
    op = aten._foreach_mul.Tensor
    args = ([whole, pending], spec_of(mesh_of(4), (), [P]))
    expected = answer(op, args)
    with shardprop.enabled(strict=True):
        assert shardprop.propagate(op, *args).operands == ((R,), (P,), (R,))
    with shardprop.enabled(strict=True, corrections=False):
        assert answer(op, args) == expected
        assert shardprop.propagate(op, *args).operands == ((R,), (P,), (P,))
        sharding = _torch.propagator().propagate_op_sharding_non_cached(
            torch_registry.op_schema(op, args, {})
        )
    assert not sharding.needs_redistribute
