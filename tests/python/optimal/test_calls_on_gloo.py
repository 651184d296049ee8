"""A sample of the random calls, and what the modes around a program see of policy ``optimal``."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor._redistribute import (
    disable_redistribute_transform_optimization as no_merging,
)
from torch.distributed.tensor.debug import CommDebugMode

import shardprop

from .gloo import PROCESSES, Processes
from .random_calls import faults
from .random_redistributions import TOPOLOGIES, mesh_of

pytestmark = pytest.mark.slow

R, S, P = Replicate(), Shard, Partial
PAIRS: tuple[tuple[tuple[Placement, ...], tuple[Placement, ...]], ...] = (
    ((S(0), S(0)), (R, R)),
    ((P(), P()), (R, R)),
    ((P(), P()), (S(0), S(0))),
)


def test_random_calls(gloo: Processes) -> None:
    assert gloo.call(faults, 0, 2) == [[]] * PROCESSES


def collectives(merged: bool) -> list[int]:
    """How many of them each of `PAIRS` takes, as CommDebugMode counts them."""
    counts = []
    with shardprop.enabled(policy="optimal", topology=TOPOLOGIES[0]):
        for source, target in PAIRS:
            local = torch.ones(4, 4) if source[0].is_partial() else torch.ones(1, 4)
            x = DTensor.from_local(local, mesh_of((2, 2)), source, run_check=False)
            mode = CommDebugMode()
            with mode, nullcontext() if merged else no_merging():
                x.redistribute(placements=target)
            counts.append(mode.get_total_counts())
    return counts


def test_steps_over_a_flattened_mesh_are_one_collective_unless_forbidden(gloo: Processes) -> None:
    assert gloo.call(collectives, True) == [[1, 1, 1]] * PROCESSES
    assert gloo.call(collectives, False) == [[2, 2, 2]] * PROCESSES
