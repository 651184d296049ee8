"""A tensor-parallel Llama with sequence-sharded norms, on four real processes."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.tensor.parallel import loss_parallel

from shardprop.cli.demo_program.llama import LlamaSize

from .check import check
from .llama import Size, build, parallelize
from .outcome import Results
from .pool import Pool
from .world import mesh_of, tokens, train

pytestmark = pytest.mark.slow

SIZE = Size()
UNEVEN = Size(layers=1, vocab=50)
"""A vocabulary that four ranks cannot share evenly. The rest must be even: torch's styles make
plain tensors of activations and take each for a fourth of the whole."""


def run(
    *, size: LlamaSize = SIZE, local_attention: bool, tied: bool, parallel_loss: bool
) -> Results:
    model = parallelize(
        build(size, tied=tied),
        mesh_of((4,), ("tp",)),
        local_attention=local_attention,
        loss_parallel=parallel_loss,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)

    def loss(step: int) -> Tensor:
        ids = tokens(size.vocab, size.batch, size.seq + 1, seed=step)
        logits = model(ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    if not parallel_loss:
        return train(model, optimizer, loss)
    with loss_parallel():
        return train(model, optimizer, loss)


def test_heads_on_plain_tensors(gloo: Pool) -> None:
    program = partial(run, local_attention=True, tied=False, parallel_loss=False)
    check(gloo.run(program), decisions=30)


@pytest.mark.parametrize("parallel_loss", [False, True], ids=["full loss", "parallel loss"])
def test_uneven_vocabulary(gloo: Pool, parallel_loss: bool) -> None:
    program = partial(
        run, size=UNEVEN, local_attention=True, tied=True, parallel_loss=parallel_loss
    )
    check(gloo.run(program), decisions=30)


@pytest.mark.parametrize(
    ("tied", "parallel_loss"),
    [(True, False), (False, True)],
    ids=["tied output, full loss", "own output, parallel loss"],
)
def test_heads_on_dtensors(gloo: Pool, tied: bool, parallel_loss: bool) -> None:
    program = partial(run, local_attention=False, tied=tied, parallel_loss=parallel_loss)
    check(gloo.run(program), decisions=50)
