"""Redistributions carried out by torch on simulated ranks; a wrong one is found."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.tensor import Partial, Placement

from shardprop.verification.validate.plans import check_plan, check_plans

from ...specs import SS, R, S

P = Partial()
MAX = Partial("max")


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(8, 12), (7, 5)], ids=str)
@pytest.mark.parametrize("flattened", [False, True], ids=["", "flattened"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((S(0), S(1)), (R, R)),
        ((S(0), S(0)), (R, S(0))),
        ((S(0), S(1)), (S(1), S(0))),
        ((P, P), (R, R)),
        ((P, R), (S(0), R)),
        ((P, S(0)), (S(1), R)),
        ((MAX, S(0)), (MAX, S(1))),
        ((R, R), (S(0), S(0))),
    ],
    ids=str,
)
def test_plans_of_torch_are_right(
    shape: tuple[int, ...],
    source: tuple[Placement, ...],
    target: tuple[Placement, ...],
    flattened: bool,
) -> None:
    whole = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert check_plan(whole, (2, 2), source, target, flattened=flattened) is None


def test_a_strided_shard_stands_for_an_order() -> None:
    whole = torch.arange(48.0).reshape(8, 6)
    assert check_plan(whole, (2, 2), (SS(0, 2), S(0)), (R, R)) is None
    assert check_plan(whole, (2, 2), (SS(0, 2), S(0)), (S(0), S(0))) is None


def test_a_merged_gather_of_uneven_shards_is_found_to_be_wrong() -> None:
    """A defect of torch: the padding of the first gather stays in the middle of the tensor."""
    whole = torch.arange(13.0)
    assert check_plan(whole, (2, 2), (S(0), S(0)), (R, R)) is None
    reason = check_plan(whole, (2, 2), (S(0), S(0)), (R, R), flattened=True)
    assert reason is not None and reason.startswith("off by ")


@pytest.mark.slow
def test_random_plans_are_counted_and_the_same_each_time() -> None:
    first = check_plans(count=40, seed=3)
    again = check_plans(count=40, seed=3)
    assert first.calls == 40
    assert first.checks + sum(first.skipped.values()) == 40
    assert first.checks > 30
    assert first.findings == again.findings
