"""What claims the rows that are checked, in the words of the report."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shardprop import _torch
from shardprop.verification.validate.claimed_rows import kind_of_rule

aten = torch.ops.aten

# What shardprop asks, and what torch alone would; an op of ours by rows is torch's own since 2.15.
KINDS: dict[Any, tuple[str, str]] = {
    aten.mm.default: ("torch single-dim rule", "torch single-dim rule"),
    aten.sort.default: (
        ("torch single-dim rule", "torch single-dim rule")
        if _torch.IS_215_OR_LATER
        else ("own rule", "torch full-mesh strategy")
    ),
    aten.view.default: ("own rule", "torch full-mesh strategy"),
    aten.mv.default: ("decomposition", "decomposition"),
    aten.nonzero.default: ("none", "none"),
    aten._amp_foreach_non_finite_check_and_unscale_.default: ("custom handler", "custom handler"),
}


@pytest.mark.parametrize("op", KINDS, ids=str)
def test_the_rule_is_named_by_whose_it_is(op: Any) -> None:
    assert (kind_of_rule(op, "active"), kind_of_rule(op, "torch")) == KINDS[op]
