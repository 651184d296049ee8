"""Fully sharded data parallelism over tensor parallelism: parameters on 2-D and 3-D meshes.

Their decisions are those of the gradient norm and the optimizer, on shards of shards.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.fsdp import fully_shard

from ..narrow import sharded
from .check import check
from .compare import compare
from .llama import Size, build, parallelize
from .outcome import Results
from .pool import Pool
from .world import mesh_of, tokens, train

pytestmark = pytest.mark.slow

SIZE = Size(layers=1)


def run(shape: tuple[int, ...]) -> Results:
    """`shape` is (dp_shard, tp), or (dp_replicate, dp_shard, tp)."""
    names = ("dp_replicate", "dp_shard", "tp")[-len(shape) :]
    mesh = mesh_of(shape, names)
    model = parallelize(build(SIZE), mesh["tp"])
    data = mesh[names[:-1]]
    for layer in model.layers:
        fully_shard(layer, mesh=data)
    fully_shard(model, mesh=data)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)

    def loss(step: int) -> Tensor:
        # Every data-parallel rank reads tokens of its own; ranks of one tp group are neighbours.
        place = dist.get_rank() // mesh["tp"].size()
        ids = tokens(SIZE.vocab, SIZE.batch, SIZE.seq + 1, seed=10 * step + place)
        return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    results = train(model, optimizer, loss, max_norm=0.5)
    whole = {name: sharded(parameter).full_tensor() for name, parameter in model.named_parameters()}
    return {**results, "whole parameters": whole}


@pytest.mark.parametrize("shape", [(2, 2), (2, 1, 2), (2, 2, 1)], ids=str)
def test_on_real_processes(gloo: Pool, shape: tuple[int, ...]) -> None:
    check(gloo.run(partial(run, shape)), decisions=40)


def test_hsdp_and_tensor_parallelism_on_2x2x2() -> None:
    check([compare(partial(run, (2, 2, 2)))], decisions=40)
