"""Which layouts of several operands are asked of an op that follows them."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import Placement

from shardprop.planning.strategies.call_template import CallTemplate
from shardprop.planning.strategies.following import combinations

from ...specs import P, R, S, meta_of


def test_each_source_of_an_operand_is_asked_with_each_of_the_others(mesh_of: Any) -> None:
    meta = meta_of((8, 8))
    call = CallTemplate(torch.ops.aten.cat.default, ([meta, meta],), {}, mesh_of(4))
    sources: list[list[tuple[Placement, ...]]] = [[(S(0),), (S(1),)], [(P,), (S(0),)]]
    assert [tuple(layouts) for layouts in combinations(call, sources)] == [
        ((S(0),), (P,)),
        ((S(0),), (S(0),)),
        ((S(1),), (P,)),
        ((S(1),), (S(0),)),
        ((R,), (R,)),
    ]
