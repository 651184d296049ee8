"""torch.compile of a tensor-parallel MLP, with static and with dynamic sizes.

Timed is the whole first call: Dynamo, AOT autograd and the local ops, with every cache cold. The
share of it that DTensor spends on deciding is in the run's `extra_info`, as `propagation_share`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, distribute_tensor

import shardprop
from shardprop import _torch
from shardprop.propagation.timing import watch_propagation

from .conftest import MESHES
from .engine import R, S

TOKENS, FEATURES, HIDDEN = 512, 64, 128


def mlp(mesh: DeviceMesh) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The program and its input: tokens over all mesh dims, weights over the last and one more."""
    outer = mesh.ndim - 1

    def sharded(tensor: Tensor, placements: tuple[Placement, ...]) -> Tensor:
        return distribute_tensor(tensor, mesh, placements, src_data_rank=None)

    over = (*(R,) * (outer - 1), S(1)) if outer else ()
    gate, up = (sharded(torch.ones(HIDDEN, FEATURES), (*over, S(0))) for _ in range(2))
    down = sharded(torch.ones(FEATURES, HIDDEN), (*(R,) * outer, S(1)))
    norm = sharded(torch.ones(FEATURES), (R,) * mesh.ndim)
    spread, whole = (S(0),) * mesh.ndim, (*(S(0),) * outer, R)

    def run(x: Any) -> Tensor:
        hidden: Any = F.layer_norm(x, (FEATURES,), norm, norm)
        hidden = hidden.redistribute(placements=whole)
        y: Any = F.linear(F.silu(F.linear(hidden, gate)) * F.linear(hidden, up), down)
        return x + y.redistribute(placements=spread)

    return run, sharded(torch.ones(TOKENS, FEATURES), spread)


@pytest.mark.parametrize(
    ("sizes", "ndim"),
    [("static", 1), ("static", 2), ("static", 3), ("dynamic", 1), ("dynamic", 2)],
    ids=lambda value: f"{value}D" if isinstance(value, int) else value,
)
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_compile_mlp(
    who: str, sizes: str, ndim: int, mesh_of: Any, run: Any, benchmark: Any
) -> None:
    program, x = mlp(mesh_of(*MESHES[ndim]))
    with torch.no_grad():
        expected: Any = program(x)
    seconds: list[float] = []

    def forget() -> None:
        torch._dynamo.reset()
        _torch.clear_torch_caches()
        shardprop.clear_caches()

    def first_call() -> Any:
        if sizes == "dynamic":
            torch._dynamo.mark_dynamic(x, 0)
        with torch.no_grad():
            return torch.compile(program, backend="aot_eager")(x)

    def measure() -> Any:
        with watch_propagation(lambda schema, answer, took: seconds.append(took)):
            return run(first_call, rounds, f"compile mlp {sizes} {ndim}-D", before=forget)

    if who == "torch":
        rounds = 2 if sizes == "dynamic" or ndim == 3 else 3
        result = measure()
    else:
        rounds = 5
        with shardprop.enabled(strict=True):
            result = measure()
    share = sum(seconds) / rounds / benchmark.stats.stats.mean
    benchmark.extra_info["propagation_share"] = round(share, 3)
    assert result._spec == expected._spec
    torch.testing.assert_close(result.to_local(), expected.to_local())
