"""A question asked again and again with other sizes: what is looked up equals torch's answer."""

from __future__ import annotations

import random
from typing import Any

import pytest

import shardprop
from shardprop.propagation import core_call, decision_cache

from .cases import draw_op
from .corrected import why_another
from .mix import DEFAULT
from .op_choice import pick_op
from .oracle import shardprop_decide, torch_decide
from .registry import Rule
from .resized import resizings

pytestmark = pytest.mark.slow

# Of the cases of a parity run, since each is asked with several sizes.
SHARE = 0.075
SIZES_EACH = 10


@pytest.mark.parametrize("part", range(2))
def test_answers_for_other_sizes_equal_torchs(
    part: int, parity_cases: int, parity_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[object] = []

    def counting(*args: Any) -> Any:
        searched.append(args)
        return answer(*args)

    answer = core_call.answer
    monkeypatch.setattr(decision_cache, "answer", counting)
    asked = 0
    for index in range(part, int(SHARE * parity_cases), 2):
        rng = random.Random(f"resized:{parity_seed}:{index}")
        case = draw_op(rng, pick_op(rng, DEFAULT, Rule.SINGLE_DIM), DEFAULT)
        for other in resizings(case, rng, SIZES_EACH):
            theirs = torch_decide(other)
            with shardprop.enabled():
                ours = shardprop_decide(other)
                is_due = ours == theirs or why_another(other) is not None
            assert is_due, f"resized:{parity_seed}:{index} {other}"
            asked += theirs.error is None
    assert len(searched) < 0.7 * asked, "nothing is looked up"
