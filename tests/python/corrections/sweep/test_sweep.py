"""With shardprop enabled no function of torch is silently wrong, in value or gradient.

Two cases of each function by default, drawn from those of all sizes and layouts, and of some of
them on real processes; every case, what torch alone makes of it, and all functions on real
processes, with SHARDPROP_SWEEP=all (an hour).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable

import pytest
from torch.distributed.device_mesh import DeviceMesh

from ...optimal.gloo import Processes
from .cases import Case, cases_of, drawn_cases, outcome_of
from .on_gloo import outcomes_on_rank
from .outcome import Found, Outcome
from .samples import functions

MeshOf = Callable[..., DeviceMesh]

_CHUNKS = 8
_DRAWN = 2
_ALL = os.environ.get("SHARDPROP_SWEEP") == "all"

# For the cases of a function on real processes, which take less than one if none waits.
_MOST_SECONDS = 60.0
# Reads a number out of a pending tensor, each rank its own part as torch means it (with a warning:
# docs/corrections.md, "What is no fault"), and makes tensors of other sizes of it on each.
_READING_A_NUMBER = frozenset({"nn.functional.one_hot"})
# How many functions of a chunk are right, at least.
_LEAST_RIGHT = 40


def _cases(function: str, mesh_of: MeshOf) -> Iterable[Case]:
    return cases_of(function, mesh_of) if _ALL else drawn_cases(function, mesh_of, _DRAWN)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_no_function_is_silently_wrong(mesh_of: MeshOf, chunk: int) -> None:
    names = functions()[chunk::_CHUNKS]
    right = set()
    wrong = []
    raised: list[Case] = []
    others: list[Case] = []
    for name in names:
        for case in _cases(name, mesh_of):
            found = outcome_of(case)
            if found is None:
                continue
            if found.outcome is Outcome.RIGHT:
                right.add(name)
            elif found.outcome.is_wrong:
                wrong.append(f"{case}\n    {found}")
            (raised if found.outcome.is_raised else others).append(case)
    assert not wrong, "silently wrong:\n" + "\n".join(wrong)
    assert len(right) >= _LEAST_RIGHT
    if _ALL:
        assert _raise_by_torch_alone(len(raised), (*raised, *others))


def _raise_by_torch_alone(count: int, cases: Iterable[Case]) -> bool:
    """Do so many of the cases, or more, raise without shardprop? It runs no more than that takes:
    most that raise with it do so without."""
    by_torch = (_by_torch_alone(case).outcome.is_raised for case in cases)
    return count == sum(itertools.islice(filter(None, by_torch), count))


def _by_torch_alone(case: Case) -> Found:
    found = outcome_of(case, with_shardprop=False)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "outcome"),
    [("nn.functional.mse_loss", Outcome.WRONG_VALUE), ("amin", Outcome.WRONG_GRADIENT)],
)
def test_what_torch_alone_gets_wrong_is_seen(
    mesh_of: MeshOf, function: str, outcome: Outcome
) -> None:
    cases = drawn_cases(function, mesh_of, 3)
    assert outcome in {_by_torch_alone(case).outcome for case in cases}
    mine = {found.outcome for found in map(outcome_of, cases) if found is not None}
    assert Outcome.RIGHT in mine
    assert not any(each.is_wrong for each in mine)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3, 4])
def test_no_function_is_silently_wrong_on_gloo(world: int) -> None:
    """And none leaves a rank waiting."""
    names = [name for name in functions() if name not in _READING_A_NUMBER]
    names = names if _ALL else names[world::60]
    ranks = Processes(world, seconds=_MOST_SECONDS)
    right = 0
    wrong = []
    try:
        for name in names:
            for of_ranks in zip(*ranks.call(outcomes_on_rank, name, _DRAWN), strict=True):
                wrong += [
                    f"{case}\n    {found}" for case, found in of_ranks if found.outcome.is_wrong
                ]
                raised = {found.outcome.is_raised for _, found in of_ranks}
                assert len(raised) == 1, of_ranks  # all of them, or none
                right += all(found.outcome is Outcome.RIGHT for _, found in of_ranks)
    finally:
        ranks.close()
    assert not wrong, "silently wrong:\n" + "\n".join(wrong)
    assert right > len(names) // 2
