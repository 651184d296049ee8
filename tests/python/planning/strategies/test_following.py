"""Which layouts of several operands are asked of an op that follows them."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import Placement

from shardprop.planning.strategies.call_template import CallTemplate
from shardprop.planning.strategies.following import combinations, follow_sources
from shardprop.rules.follow_rule import Candidate, FollowRule

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


def test_all_outputs_share_the_layout_that_a_rule_names_once(mesh_of: Any) -> None:
    call = CallTemplate(torch.ops.aten.var_mean.correction, (meta_of((8, 6)), [1]), {}, mesh_of(4))
    rule = FollowRule(lambda question: Candidate(((S(0),),), (question.operands[0].placements,)))
    call.settle(rule)
    found = follow_sources(call, rule, [[(S(0),)]], 2)
    assert found.outputs == 2
    assert [[found.layouts[number] for number in row] for row in found.table] == [
        [(S(0),), (S(0),), (S(0),)],
        [(S(0),), (S(0),), (R,)],
    ]
