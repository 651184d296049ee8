"""That the comparison of programs notices what it is for, and that a broken rank is reported."""

from __future__ import annotations

import math
import re

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard

import shardprop

from .check import check
from .compare import Program, compare
from .outcome import Results
from .pool import Pool
from .world import mesh_of, seeded, spread

pytestmark = pytest.mark.slow

R, S = Replicate(), Shard


def another_value() -> Results:
    """Its result is one bit off with shardprop."""
    value = torch.ones(3)
    if shardprop.is_enabled():
        value[1] += torch.finfo(value.dtype).eps
    return {"value": [value]}


def another_decision() -> Results:
    """With shardprop an op is asked for in another layout; nothing of it is returned."""
    x = spread(seeded(8, 8), mesh_of((2, 2)), S(0), S(1) if shardprop.is_enabled() else S(0))
    x.exp()
    return {}


def another_redistribution() -> Results:
    """With shardprop a tensor takes a detour to the same layout."""
    x = spread(seeded(8, 8), mesh_of((4,)), S(0))
    if shardprop.is_enabled():
        x = x.redistribute(placements=[S(1)])
    x.redistribute(placements=[R])
    return {}


def asked_again() -> Results:
    """With shardprop a decision is made twice that torch alone makes once."""
    x = spread(seeded(8, 8), mesh_of((4,)), S(0))
    x.exp()
    if shardprop.is_enabled():
        shardprop.clear_caches()
    x.exp()
    return {}


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (another_value, "results[0][1][0]: torch alone ('tensor'"),
        (another_decision, "decision 0: torch alone"),
        (another_redistribution, "redistributions: torch alone made 1, with shardprop 2"),
        (asked_again, "torch alone asked for 1 decisions, with shardprop for 2"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_difference_is_noticed(program: Program, found: str) -> None:
    report = compare(program)
    assert any(difference.startswith(found) for difference in report.differences), report
    with pytest.raises(AssertionError, match=re.escape(found)):
        check([report], decisions=0)


def test_results_that_are_not_finite_are_noticed() -> None:
    report = compare(lambda: {"loss": torch.tensor([1.0, math.nan])})
    assert report.differences == (), "NaN equals NaN"
    with pytest.raises(AssertionError, match="NaN or infinity"):
        check([report], decisions=0)


def fails_on_rank_1() -> Results:
    if dist.get_rank() == 1:
        raise ValueError("rank 1 is broken")
    dist.barrier()
    return {}


def sums_ranks() -> Results:
    total = torch.tensor(float(dist.get_rank()))
    dist.all_reduce(total)
    return {"total": total}


def test_a_rank_that_raises_is_reported_and_the_pool_starts_again() -> None:
    pool = Pool(2)
    try:
        with pytest.raises(AssertionError, match="rank 1 is broken"):
            pool.run(fails_on_rank_1)
        reports = pool.run(sums_ranks)
        check(reports, decisions=0)
        assert len(reports) == 2
    finally:
        pool.close()
