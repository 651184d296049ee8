"""Which calls are answered by a look into the rows that an earlier answer left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import shardprop
from shardprop import _torch
from shardprop._torch import DTensorSpec, OpSchema
from shardprop.propagation.answer import output_placements
from shardprop.propagation.decomposition.by_rows import ByRows, DimLayout, NotPlain
from shardprop.propagation.decomposition.program import Call, Program, Ref, fill
from shardprop.rules import torch_registry
from shardprop.rules.rule import DecompositionRule

from ...narrow import known
from ...specs import R, S, meta_of, spec_of
from .traced import one_rank, program_of

OPERAND = meta_of((8, 6, 4))
CALLS: dict[str, tuple[Callable[..., Any], bool]] = {
    "a product": (lambda x: torch.mul(x, x), True),
    # torch makes the number of samples local, which may fail.
    "a group norm": (lambda x: torch.native_group_norm(x, None, None, 8, 6, 4, 2, 1e-5)[0], False),
}


def schema_of(call: Call) -> OpSchema:
    """The call on an operand that is cut along its first dim."""
    spec = DTensorSpec(one_rank(), (S(0),), tensor_meta=OPERAND)
    return torch_registry.op_schema(call.op, fill(call.args, lambda _: spec), {})


@pytest.mark.parametrize("name", CALLS)
def test_arguments_that_torch_rewrites_are_rewritten_each_time(name: str) -> None:
    function, looked_up = CALLS[name]
    program = program_of(function, OPERAND)
    (call,) = program.calls
    asked = ByRows(program, call, one_rank())
    rows = DimLayout(S(0), None)
    layouts = {0: rows}
    assert asked.from_table(layouts) is None
    outputs = asked.from_core(schema_of(call), layouts, known(asked.rule))
    assert outputs == (rows,) * len(call.outputs)
    assert asked.from_table(layouts) == ((outputs,) if looked_up else None)


def test_a_list_of_one_output_is_no_output_to_torch_before_it_places_lists() -> None:
    """torch 2.13 gives such an output a spec, and refuses the op since that is no list."""
    program = program_of(lambda x: torch.ops.aten.unsafe_split.Tensor(x, 6, 1), OPERAND)
    (call,) = program.calls
    asked, rows = ByRows(program, call, one_rank()), DimLayout(S(0), None)
    rule = DecompositionRule([[S(0), S(0)], [R, R]], 1)
    if _torch.IS_215_OR_LATER:
        assert asked.from_core(schema_of(call), {0: rows}, rule) == (rows,)
    else:
        with pytest.raises(NotPlain):
            asked.from_core(schema_of(call), {0: rows}, rule)


def test_one_placement_is_that_of_each_of_several_outputs() -> None:
    program = program_of(lambda x: torch.topk(x, 2, 1)[0], OPERAND)
    (call,) = program.calls
    asked, rows = ByRows(program, call, one_rank()), DimLayout(S(0), None)
    rule = DecompositionRule([[S(0), S(0)], [R, R]], 1)
    assert asked.from_core(schema_of(call), {0: rows}, rule) == (rows, rows)


def test_torch_gives_the_outputs_of_an_op_no_spec_whose_first_is_one_of_several_lists() -> None:
    with torch.library._scoped_library("shardprop_by_rows", "DEF") as library:
        library.define("both(Tensor x) -> (Tensor[], Tensor)")
        both = torch.ops.shardprop_by_rows.both.default
        meta = OPERAND
        call = Call(both, (Ref(0),), {}, (0,), (1, 2), (meta, meta))
        program = Program((meta,) * 3, 1, (call,), (1, 2))
        asked, rows = ByRows(program, call, one_rank()), DimLayout(S(0), None)
        rule = DecompositionRule([[S(0), S(0), S(0)], [R, R, R]], 2)
        assert asked.from_core(schema_of(call), {0: rows}, rule) == (None, None)


def test_torch_does_not_see_that_a_list_op_inside_would_move_its_operands(mesh_of: Any) -> None:
    """Nor do we with corrections off."""
    specs = [spec_of(mesh_of(2), (8, 8), [placement]) for placement in (S(0), S(1))]
    with torch.library._scoped_library("shardprop_by_rows", "DEF") as library:
        library.define("sum_of_two(Tensor x, Tensor y) -> Tensor")
        library.impl(
            "sum_of_two", lambda x, y: torch._foreach_add([x], [y])[0], "CompositeImplicitAutograd"
        )
        op = torch.ops.shardprop_by_rows.sum_of_two.default
        schema = torch_registry.op_schema(op, tuple(specs), {})
        by_torch = _torch.propagator().propagate_op_sharding_non_cached(schema)
        with shardprop.enabled(strict=True, corrections=False):
            shardprop.reset_stats()
            found = _torch.propagator().propagate_op_sharding_non_cached(schema)
            assert shardprop.stats().delegated == {}
    assert output_placements(found) == output_placements(by_torch) == ((S(0),),)
    assert not (found.needs_redistribute or by_torch.needs_redistribute)
