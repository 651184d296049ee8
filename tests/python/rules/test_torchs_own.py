"""What torch itself decides an op by, told from what a program registered with torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor._ops.utils import register_op_strategy, replicate_op_strategy

import shardprop
from shardprop import _torch
from shardprop._torch import registries
from shardprop.rules import torch_registry

from ..narrow import sharded

MeshOf = Callable[..., DeviceMesh]
SORT = torch.ops.aten.sort.default


@pytest.fixture
def restored() -> Iterator[None]:
    """Registries as they were."""
    prop = _torch.propagator()
    tables = [
        prop.op_single_dim_strategy_funcs,
        prop.op_strategy_funcs,
        prop.op_to_rules,
        prop.op_to_schema_info,
        prop.op_to_schema_info_for_single_dim_strategy,
    ]
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)
    shardprop.clear_caches()


def forget(op: Any) -> None:
    """torch's own rule of an op, and its notes on arguments, are gone."""
    prop = _torch.propagator()
    for table in (
        prop.op_single_dim_strategy_funcs,
        prop.op_strategy_funcs,
        prop.op_to_schema_info,
    ):
        table.pop(op, None)


def test_torch_decides_sort_by_what_came_with_it() -> None:
    assert torch_registry.is_rule_torchs(SORT)


def of_another_op() -> Any:
    """A function of torch's own that decides something else."""
    functions = _torch.propagator().op_strategy_funcs
    return next(f for op, f in functions.items() if op is not SORT and f is not functions.get(SORT))


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("function", [replicate_op_strategy, of_another_op()])
def test_a_function_of_torch_s_that_a_program_registers_is_the_program_s(function: Any) -> None:
    forget(SORT)
    register_op_strategy(SORT)(function)
    assert not torch_registry.is_rule_torchs(SORT)
    assert not torch_registry.has_own_full_mesh_strategy(SORT)


@pytest.mark.usefixtures("restored")
def test_sort_is_right_on_every_dim_where_a_program_has_it_replicated(mesh_of: MeshOf) -> None:
    """Our rule of sort looks at the dim, which the program's key of the decision has not."""
    forget(SORT)
    register_op_strategy(SORT)(replicate_op_strategy)
    x = distribute_tensor(torch.randn(8, 8), mesh_of(4), [Shard(1)])
    with shardprop.enabled():
        placements = [sharded(torch.sort(x, dim=dim)[0]).placements for dim in (0, 1)]
    alone = [sharded(torch.sort(x, dim=dim)[0]).placements for dim in (0, 1)]
    assert placements == alone
    assert not any(p.is_shard() for layout in placements for p in layout)


def test_what_torch_registers_once_inductor_is_imported_is_torch_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    importlib.import_module("torch._inductor.inductor_prims")
    fma = torch.ops.prims.fma.default
    # As if shardprop had been imported first.
    monkeypatch.delitem(registries._AT_IMPORT, fma, raising=False)
    assert torch_registry.is_rule_torchs(fma)
