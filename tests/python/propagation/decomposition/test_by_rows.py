"""Which calls are answered by a look into the rows that an earlier answer left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from shardprop._torch import DTensorSpec
from shardprop.propagation.decomposition.by_rows import ByRows, DimLayout
from shardprop.propagation.decomposition.program import fill
from shardprop.rules import torch_registry

from ...narrow import known
from ...specs import S, meta_of
from .traced import one_rank, program_of

CALLS: dict[str, tuple[Callable[..., Any], bool]] = {
    "a product": (lambda x: torch.mul(x, x), True),
    # torch makes the number of samples local, which may fail.
    "a group norm": (lambda x: torch.native_group_norm(x, None, None, 8, 6, 4, 2, 1e-5)[0], False),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_that_torch_rewrites_are_rewritten_each_time(name: str) -> None:
    function, looked_up = CALLS[name]
    mesh, operand, rows = one_rank(), meta_of((8, 6, 4)), DimLayout(S(0), None)
    program = program_of(function, operand)
    (call,) = program.calls
    asked = ByRows(program, call, mesh)
    spec = DTensorSpec(mesh, (S(0),), tensor_meta=operand)
    schema = torch_registry.op_schema(call.op, fill(call.args, lambda _: spec), {})
    layouts = {0: rows}
    assert asked.from_table(layouts) is None
    outputs = asked.from_core(schema, layouts, known(asked.rule))
    assert outputs == (rows,) * len(call.outputs)
    assert asked.from_table(layouts) == ((outputs,) if looked_up else None)
