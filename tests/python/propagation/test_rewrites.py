"""Arguments that hold sizes are those of the shards, as torch makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._op_schema import OutputSharding

import shardprop
from shardprop import _core, _torch
from shardprop.propagation.rewrites import rewrite
from shardprop.rules import torch_registry

from ..specs import SS, P, R, S, meta_of, spec_of

aten = torch.ops.aten
SIZES = (8, 6, 4)

# Op, shape and placements of its operand, other arguments, and these as the op is to be called.
CASES: dict[str, tuple[Any, tuple[int, ...], Placement, tuple[Any, ...], tuple[Any, ...]]] = {
    "view": (aten.view.default, SIZES, S(0), ([8, 24],), ([2, 24],)),
    "view, whole": (aten.view.default, SIZES, R, ([8, 24],), ([8, 24],)),
    # Two runs of 6 rows, of which rank 0 has 2 and 2: no quarter of the 12.
    "view of runs": (aten.view.default, (12, 4, 2), SS(0, 2), ([12, 8],), ([4, 8],)),
    "new memory": (aten.new_zeros.default, SIZES, S(0), ([8, 6, 4],), ([2, 6, 4],)),
    "squeeze": (aten.squeeze.default, (4, 1, 6), S(0), (), ((1,),)),
    "group norm": (
        aten.native_group_norm.default,
        (8, 6, 4),
        S(0),
        (None, None, 8, 6, 4, 2, 1e-5),
        (None, None, 2, 6, 4, 2, 1e-5),
    ),
    "group norm of a pending sum": (
        aten.native_group_norm.default,
        (8, 6, 4),
        P,
        (None, None, 8, 6, 4, 2, 1e-5),
        (None, None, 8, 6, 4, 2, 1e-5),
    ),
}


def said(sharding: OutputSharding) -> tuple[Any, ...]:
    call = sharding.redistribute_schema
    return (
        sharding.output_spec,
        sharding.needs_redistribute,
        sharding.use_val_from_redistribute_schema,
        None if call is None else (call.op, call.args_schema, call.kwargs_schema),
    )


@pytest.mark.parametrize("name", CASES)
def test_sizes_among_the_arguments_become_local(
    mesh_of: Callable[..., DeviceMesh], name: str
) -> None:
    op, shape, placement, given, wanted = CASES[name]
    schema = torch_registry.op_schema(op, (spec_of(mesh_of(4), shape, [placement]), *given), {})
    theirs = _torch.torch_propagate(schema)
    with shardprop.enabled():
        ours = _torch.propagator().propagate_op_sharding_non_cached(schema)
    assert said(ours) == said(theirs)
    call = ours.redistribute_schema or schema
    assert [_plain(arg) for arg in call.args_schema[1:]] == [_plain(arg) for arg in wanted]


def test_counts_become_local_in_the_call_that_moves_an_operand(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    mesh = mesh_of(4)
    batch, weight = spec_of(mesh, (8, 6, 4), [S(0)]), spec_of(mesh, (6,), [S(0)])
    op = aten.native_group_norm.default
    schema = torch_registry.op_schema(op, (batch, weight, None, 8, 6, 4, 2, 1e-5), {})
    theirs = _torch.torch_propagate(schema)
    with shardprop.enabled():
        ours = _torch.propagator().propagate_op_sharding_non_cached(schema)
    assert said(ours) == said(theirs)
    call = ours.redistribute_schema
    assert ours.needs_redistribute and call is not None
    assert [spec.placements for spec in call.args_spec] == [(S(0),), (R,)]
    assert call.args_schema[3:] == (2, 6, 4, 2, 1e-5)


def test_a_shape_beside_several_outputs_is_left_to_torch(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    spec, meta = spec_of(mesh_of(4), SIZES, [S(0)]), meta_of(SIZES)
    schema = torch_registry.op_schema(aten.view.default, (spec, [8, 24]), {})
    for output, metas in (((spec, spec), meta), (spec, (meta, meta))):
        with pytest.raises(_core.Unsupported, match="shape arguments of an op with several outp"):
            rewrite(schema, None, [spec], output, metas)


def _plain(arg: Any) -> Any:
    return list(arg) if isinstance(arg, (list, tuple)) else arg
