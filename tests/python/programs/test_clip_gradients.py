"""clip_grad_norm_ over gradients of several layouts: norms, clipped gradients, and its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from shardprop.corrections.extremes_through_ops import EXTREMES_THROUGH_OPS

from .check import check
from .outcome import Results
from .pool import Pool
from .world import mesh_of, placed, seeded, spread

pytestmark = pytest.mark.slow

R, P, S = Replicate(), Partial(), Shard
LAYOUTS: list[tuple[tuple[int, ...], tuple[Placement, ...]]] = [
    ((8, 8), (S(0), S(1))),
    ((8, 8), (S(0), S(0))),
    ((7, 5), (S(0), R)),
    ((8,), (R, R)),
    ((6, 8), (R, P)),
]


def parameters() -> list[nn.Parameter]:
    mesh = mesh_of((2, 2))
    made: list[nn.Parameter] = []
    for index, (shape, placements) in enumerate(LAYOUTS):
        full = seeded(*shape, seed=index)
        parameter = nn.Parameter(spread(full, mesh, R, R))
        parameter.grad = placed(full, mesh, *placements)
        made.append(parameter)
    return made


def run(norm_types: Sequence[float] = (2.0, 1.0, math.inf), *, foreach: bool) -> Results:
    results: dict[str, object] = {}
    for norm_type in norm_types:
        clipped = parameters()
        norm = nn.utils.clip_grad_norm_(
            clipped, 0.5, norm_type=norm_type, error_if_nonfinite=True, foreach=foreach
        )
        assert isinstance(norm, DTensor)
        results[f"norm {norm_type}"] = norm.full_tensor()
        results[f"gradients {norm_type}"] = [p.grad for p in clipped]
    return results


def refuse(*, foreach: bool) -> Results:
    """A gradient that is not finite on one rank is refused on all, before any is clipped."""
    broken = parameters()
    gradient = broken[0].grad
    assert isinstance(gradient, DTensor)
    if torch.distributed.get_rank() == 3:
        gradient.to_local().fill_(math.nan)
    try:
        nn.utils.clip_grad_norm_(broken, 0.5, error_if_nonfinite=True, foreach=foreach)
    except RuntimeError as error:
        return {"error": str(error), "gradients": [p.grad for p in broken[1:]]}
    raise AssertionError("clip_grad_norm_ let a NaN pass")


@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "one by one"])
def test_gradient_norms(gloo: Pool, foreach: bool) -> None:
    check(gloo.run(partial(run, (2.0, 1.0), foreach=foreach)), decisions=2)


@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "one by one"])
def test_maximum_norms(gloo: Pool, foreach: bool) -> None:
    """The norms of parameters are reduced before their own maximum is taken: torch takes what is
    pending for positive, as it is here. The results are the same to the bit."""
    for report in gloo.run(partial(run, (math.inf,), foreach=foreach)):
        assert report.finite
        assert [*report.stats.corrections] == [EXTREMES_THROUGH_OPS.name]
        decision, *others = (each for each in report.differences if each.startswith("decision "))
        assert "aten.linalg_vector_norm.default" in decision and others == []
        assert not any(each.startswith("results") for each in report.differences)


@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "one by one"])
def test_a_norm_that_is_not_finite(gloo: Pool, foreach: bool) -> None:
    check(gloo.run(partial(refuse, foreach=foreach)), decisions=1)
