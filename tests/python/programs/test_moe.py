"""A mixture of experts: tokens sorted for a grouped product, or dispatched by a one-hot mask."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from .check import check
from .compare import Program
from .outcome import Results
from .pool import Pool
from .world import mesh_of, seeded, spread, train

pytestmark = pytest.mark.slow

TOKENS, DIM, HIDDEN, EXPERTS, CHOSEN = 16, 16, 32, 8, 2


class Experts(nn.Module):
    """A router and the weights of all experts, every parameter a DTensor."""

    def __init__(self, mesh: DeviceMesh, up: Placement, down: Placement) -> None:
        super().__init__()
        self.router = nn.Parameter(spread(seeded(DIM, EXPERTS), mesh, Replicate()))
        self.up = nn.Parameter(spread(seeded(EXPERTS, DIM, HIDDEN, seed=1) * 0.2, mesh, up))
        self.down = nn.Parameter(spread(seeded(EXPERTS, HIDDEN, DIM, seed=2) * 0.2, mesh, down))

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weight and index of the chosen experts, [tokens, chosen] each."""
        return torch.topk(torch.softmax(x @ self.router, dim=-1), CHOSEN, dim=-1)


class Grouped(Experts):
    """Every expert's hidden units sharded; tokens sorted by expert for one grouped product."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__(mesh, Shard(2), Shard(1))

    def forward(self, x: Tensor) -> Tensor:
        weight, expert = self.route(x)
        expert = expert.flatten()
        order = torch.argsort(expert, stable=True)
        counts = F.one_hot(expert, EXPERTS).sum(dim=0)
        ends = counts.cumsum(dim=0).to(torch.int32)
        token = order // CHOSEN
        # torch takes bfloat16 only when it works out what a grouped product looks like.
        grouped = x.index_select(0, token).bfloat16()
        hidden = F.silu(torch._grouped_mm(grouped, self.up.bfloat16(), offs=ends))
        out = torch._grouped_mm(hidden, self.down.bfloat16(), offs=ends)
        scaled = out.float() * weight.flatten().index_select(0, order).unsqueeze(-1)
        return torch.zeros_like(x).index_add(0, token, scaled)


class Dispatched(Experts):
    """Whole experts on each rank; every expert sees all tokens, weighted by the mask."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__(mesh, Shard(0), Shard(0))

    def forward(self, x: Tensor) -> Tensor:
        weight, expert = self.route(x)
        mask = torch.zeros_like(x[:, :EXPERTS]).scatter(1, expert, weight)
        hidden = F.silu(torch.einsum("td,edh->eth", x, self.up))
        out = torch.bmm(hidden, self.down)
        return torch.einsum("etd,te->td", out, mask)


def run(kind: Callable[[DeviceMesh], Experts], *, tokens_sharded: bool) -> Results:
    mesh = mesh_of((4,), ("ep",))
    model = kind(mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)

    def loss(step: int) -> Tensor:
        placement = Shard(0) if tokens_sharded else Replicate()
        x = spread(seeded(TOKENS, DIM, seed=10 + step), mesh, placement)
        y = model(x)
        assert isinstance(y, DTensor)
        return (y - x).square().mean()

    return train(model, optimizer, loss)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(partial(run, Grouped, tokens_sharded=False), id="grouped"),
        pytest.param(partial(run, Dispatched, tokens_sharded=False), id="dispatched"),
        pytest.param(
            partial(run, Dispatched, tokens_sharded=True), id="dispatched, tokens sharded"
        ),
    ],
)
def test_mixture_of_experts(gloo: Pool, program: Program) -> None:
    check(gloo.run(program), decisions=25)
