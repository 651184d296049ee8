"""Greedy generation by a tensor-parallel Llama without gradients.

Under inference_mode composite ops reach DTensor whole: it must refuse them as torch does, for
torch's dispatcher to take them apart.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial

import pytest
import torch
from torch.distributed.tensor import DTensor

from ..narrow import sharded
from .check import check
from .llama import Size, build, parallelize
from .outcome import Results
from .pool import Pool
from .world import mesh_of, tokens

pytestmark = pytest.mark.slow

SIZE = Size(layers=1)


def run(without_gradients: type[AbstractContextManager[None]]) -> Results:
    mesh = mesh_of((4,), ("tp",))
    model = parallelize(build(SIZE), mesh, local_attention=False, loss_parallel=True)
    ids = tokens(SIZE.vocab, 2, SIZE.seq)
    results: dict[str, object] = {}
    with without_gradients():
        for step in range(2):
            # The window slides: sequence sharding needs a length that divides.
            logits = model(ids[:, -SIZE.seq :])
            assert isinstance(logits, DTensor)
            last = logits[:, -1]
            best, chosen = last.topk(3, dim=-1)
            following = sharded(last.argmax(dim=-1, keepdim=True)).full_tensor()
            results |= {f"logits {step}": last, f"best {step}": best, f"chosen {step}": chosen}
            ids = torch.cat((ids, following), dim=1)
    return results | {"ids": ids}


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_generation(gloo: Pool, without_gradients: type[AbstractContextManager[None]]) -> None:
    check(gloo.run(partial(run, without_gradients)), decisions=10)
