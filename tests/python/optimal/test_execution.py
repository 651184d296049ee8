"""Plans carried out on simulated ranks leave the data of their last layout."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch
from torch.distributed.tensor import Partial, Replicate, Shard

from .local import fault, split
from .moves import Tensor, random_walk
from .ranks import all_groups, carried_out, fault_of, numbers

R, S, P = Replicate(), Shard, Partial

SHAPES: dict[tuple[int, ...], list[tuple[int, ...]]] = {
    (2, 2): [(8, 4), (5, 3), (1, 6), (0, 4), (7,)],
    (2, 4): [(16, 8), (9, 5), (3, 8), (2, 0)],
    (3, 2): [(12, 6), (7, 5), (7,), (1, 1)],
    (2, 2, 2): [(8, 16), (5, 9), (3, 8, 4), (1, 2)],
    (2, 2, 2, 2): [(16, 16), (16, 9), (3, 5)],
    (1, 4): [(8, 4), (5, 2), (3,)],
    (4, 1, 2): [(8, 8), (9, 5)],
}


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_random_plans_are_carried_out(sizes: tuple[int, ...]) -> None:
    chance = random.Random(str(sizes))
    done: Counter[str] = Counter()
    for shape in SHAPES[sizes]:
        tensor = Tensor(shape, sizes, all_groups(sizes))
        for seed in range(40):
            steps = random_walk(tensor, 6, chance)
            if not steps:
                continue
            try:
                reason = fault_of(steps, tensor, seed, async_op=seed % 2 == 0)
            except Exception as e:
                print("RAISED", shape, [(s.kind, s.mesh_dims, s.before) for s in steps], e); raise
            assert reason is None, f"{shape} {seed}: {steps}\n{reason}"
            done.update(f"{step.kind} {len(step.mesh_dims)}" for step in steps)
    print(done)
