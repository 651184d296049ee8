"""A whole miss through a real DTensor call: dispatch, metadata, decision, local op."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed.tensor import distribute_tensor

import shardprop
from shardprop import _torch

from .conftest import MESHES, TORCH_ROUNDS
from .engine import R, S


@pytest.mark.parametrize("ndim", list(MESHES), ids=lambda n: f"{n}D")
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_miss_of_mm(who: str, ndim: int, mesh_of: Any, run: Any) -> None:
    mesh = mesh_of(*MESHES[ndim])
    x = distribute_tensor(torch.ones(64, 64), mesh, [S(0), S(1), R, R][:ndim], src_data_rank=None)
    y = distribute_tensor(torch.ones(64, 64), mesh, [S(0), R, S(1), R][:ndim], src_data_rank=None)
    group = f"miss mm {ndim}-D"
    if who == "torch":
        run(lambda: torch.mm(x, y), TORCH_ROUNDS[ndim], group, before=_torch.forget_decisions)
        return
    with shardprop.enabled():
        answer = run(lambda: torch.mm(x, y), 50, group, before=_torch.forget_decisions)
    _torch.forget_decisions()
    assert answer._spec == torch.mm(x, y)._spec
