"""The price and the plan of a redistribution equal torch's, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import shardprop
from shardprop.propagation.propagator import counters

from .layouts import Kind
from .redistribute_cases import Answer, Pair, hooked_answer, pair_at, shardprop_answer, torch_answer

pytestmark = pytest.mark.slow

# As many pairs per decision case as keep this under a minute.
_SHARE = 0.15
_CHUNKS = 4

# Subclasses of Partial that the core knows by identity only.
_OPAQUE = {Kind.MASK_PARTIAL, Kind.NORM_PARTIAL}

Asked = Sequence[tuple[Pair, Answer]]


@pytest.fixture(scope="module", params=range(_CHUNKS), ids=lambda chunk: f"chunk{chunk}")
def asked(request: pytest.FixtureRequest, parity_cases: int, parity_seed: int) -> Asked:
    """Pairs with torch's answers."""
    count = max(1, int(parity_cases * _SHARE / _CHUNKS))
    pairs = [pair_at(parity_seed, request.param * count + i) for i in range(count)]
    return [(pair, torch_answer(pair)) for pair in pairs]


def test_torch_agrees_with_itself(asked: Asked) -> None:
    again = [torch_answer(pair) for pair, _ in reversed(asked)][::-1]
    assert again == [theirs for _, theirs in asked]


def test_price_and_plan_equal_torch(asked: Asked) -> None:
    # `shardprop.plan` refuses with its own error what torch refuses, and huge tensors.
    answered = [(pair, theirs.refusing()) for pair, theirs in asked if not pair.huge]
    with shardprop.enabled(corrections=False):
        _compare(answered, shardprop_answer)


def test_hooked_price_and_plan_equal_torch_and_come_from_the_core(asked: Asked) -> None:
    """torch's planner is asked again only where it refuses."""
    theirs_of = {pair.name: theirs for pair, theirs in asked}

    def counted_answer(pair: Pair) -> Answer:
        before = sum(counters().price_fallbacks.values())
        ours = hooked_answer(pair)
        after = counters().price_fallbacks
        kinds = {pair.source.layout.kind, pair.target.layout.kind}
        if not (isinstance(theirs_of[pair.name].plan, str) or pair.huge or kinds & _OPAQUE):
            assert sum(after.values()) == before, f"{pair}: {after}"
        return ours

    with shardprop.enabled(corrections=False):
        _compare(asked, counted_answer)


def _compare(asked: Asked, answer: Callable[[Pair], Answer]) -> None:
    wrong = [
        _show(pair, theirs, ours) for pair, theirs in asked if (ours := answer(pair)) != theirs
    ]
    assert not wrong, f"{len(wrong)} of {len(asked)} differ, such as\n" + "\n\n".join(wrong[:5])


def _show(pair: Pair, theirs: Answer, ours: Answer) -> str:
    seed, index = pair.name.split(":")
    return f"{pair}\n  torch {theirs}\n  ours  {ours}\n  pair_at({seed}, {index})"
