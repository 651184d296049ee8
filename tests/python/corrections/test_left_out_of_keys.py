"""Calls that differ in a dtype, in ``out=`` or in a keyword tensor have decisions of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop import _torch

from ..narrow import known, sharded
from ..specs import P, R, S

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


def placed(mesh: DeviceMesh, placement: Placement, local: torch.Tensor) -> DTensor:
    return DTensor.from_local(local, mesh, [placement], run_check=False)


def spec(made: torch.Tensor) -> DTensorSpec:
    return _torch.spec_of(sharded(made))


CALLS: dict[str, Callable[[torch.Tensor, torch.dtype], torch.Tensor]] = {
    "sum": lambda x, dtype: x.sum(1, dtype=dtype),
    "mean": lambda x, dtype: x.mean(1, dtype=dtype),
    "prod": lambda x, dtype: x.prod(1, dtype=dtype),
    "cumsum": lambda x, dtype: x.cumsum(1, dtype=dtype),
    "norm": lambda x, dtype: torch.linalg.vector_norm(x, 2, 1, dtype=dtype),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_reduction_in_another_dtype(mesh_of: MeshOf, call: str) -> None:
    x = placed(mesh_of(2), S(0), torch.ones(4, 4))
    dtypes = torch.float32, torch.float64, torch.float32
    with shardprop.enabled():
        made = [known(spec(CALLS[call](x, dtype)).tensor_meta).dtype for dtype in dtypes]
    assert made == [*dtypes]


def test_a_view_in_another_dtype(mesh_of: MeshOf) -> None:
    x = placed(mesh_of(2), S(0), torch.ones(4, 4))
    with shardprop.enabled():
        shapes = [spec(x.view(to)).shape for to in (torch.int32, torch.int16)]
    assert shapes == [(8, 4), (8, 8)]


def test_what_is_pending_is_looked_at_in_each_dtype(mesh_of: MeshOf) -> None:
    x = placed(mesh_of(2), P, torch.ones(4, 4))
    with shardprop.enabled():
        made = [sharded(x.sum(1, dtype=to)).placements for to in (torch.float64, torch.int64)]
    assert made == [(Partial("sum"),), (R,)]


def test_a_keyword_tensor_that_is_pending_is_refused_after_one_that_is_not(mesh_of: MeshOf) -> None:
    x = placed(mesh_of(2), R, torch.eye(4))
    whole, pending = (placed(mesh_of(2), p, torch.tensor(0.25)) for p in (R, P))
    with shardprop.enabled():
        torch.linalg.pinv(x, rtol=whole)
        with pytest.raises(RuntimeError, match="by keyword"):
            torch.linalg.pinv(x, rtol=pending)


def _notes() -> dict[str, Any]:
    prop = _torch.propagator()
    tables = prop.op_to_schema_info, prop.op_to_schema_info_for_single_dim_strategy
    return {f"{at} {op}": note for at, table in enumerate(tables) for op, note in table.items()}


def test_torchs_notes_are_put_back() -> None:
    before = _notes()
    for corrections in (True, False, True):
        with shardprop.enabled(corrections=corrections):
            assert (_notes() == before) is not corrections
        assert _notes() == before


def test_what_a_program_notes_meanwhile_stays() -> None:
    op = aten.sum.dim_IntList
    with shardprop.temporary_rules():
        shardprop.enable()
        shardprop.register_single_dim_rule(op, override=True)(lambda *_: [])
        own = _torch.op_schema_info(op)
        shardprop.disable()
        assert _torch.op_schema_info(op) is own
    assert _torch.op_schema_info(op) is not own


@pytest.mark.parametrize("is_enabled", [True, False])
def test_notes_follow_a_rule_that_goes(is_enabled: bool) -> None:
    """A program's rule came while shardprop was off (on), and goes while it is on (off)."""
    op = aten.mean.dim
    torchs = _torch.op_schema_info(op)
    with shardprop.temporary_rules():
        shardprop.disable() if is_enabled else shardprop.enable()
        shardprop.register_single_dim_rule(op, override=True)(lambda *_: [])
        shardprop.enable() if is_enabled else shardprop.disable()
    keys = getattr(_torch.op_schema_info(op), "static_kwargkey", None) or ()
    shardprop.disable()
    assert ("dtype" in keys) is is_enabled
    assert _torch.op_schema_info(op) is torchs


def test_out_of_an_op_that_is_decomposed(mesh_of: MeshOf) -> None:
    """Each call has a decision of its own, from the first on: torch notes the arguments then."""
    x = placed(mesh_of(2), R, torch.ones(4, 4))
    made = []
    with shardprop.enabled():
        for placement in (S(0), S(1), R, S(0)):
            local = torch.zeros(
                (2, 4) if placement == S(0) else (4, 2) if placement == S(1) else (4, 4)
            )
            out = placed(mesh_of(2), placement, local)
            aten.leaky_relu_backward.grad_input(x, x, 0.5, False, grad_input=out)
            made.append((out.placements, tuple(out.to_local().shape)))
    assert made == [((S(0),), (2, 4)), ((S(1),), (4, 2)), ((R,), (4, 4)), ((S(0),), (2, 4))]
