"""Each op that torch can decide: the run, `propagate`, `strategies` and `explain` say the same.

A question of each sixteenth op by default; with SHARDPROP_AGREEMENT=all every question of every op
(half an hour).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.utils._pytree import tree_leaves

import shardprop
from shardprop.route import Who, route_of

from .answers import disagreements
from .questions import Question, questions_of
from .samples import decided_ops, problems_of

MeshOf = Callable[..., DeviceMesh]

_CHUNKS = 6
_EVERYTHING = os.environ.get("SHARDPROP_AGREEMENT") == "all"
_PER_OP = None if _EVERYTHING else 1
_EACH = 1 if _EVERYTHING else 16
# torch follows a decomposition for every combination of placements: minutes for many operands.
_MOST_OPERANDS = 6

# Ops of which nothing is known that they take, in the torch that has most of them. Mostly sparse,
# quantized and recurrent ones, and those of accelerators.
_WITHOUT_SAMPLES = 261


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_one_decision_whoever_is_asked(mesh_of: MeshOf, chunk: int) -> None:
    asked = 0
    found = []
    with shardprop.enabled():
        for op in decided_ops()[chunk :: _CHUNKS * _EACH]:
            for question in questions_of(op, mesh_of, _PER_OP):
                if not _EVERYTHING and _takes_long(question):
                    continue
                asked += 1
                found += disagreements(question)
    assert asked > 8
    assert not found, f"{len(found)} of {asked}:\n" + "\n".join(map(str, found[:20]))


def test_few_ops_have_no_samples() -> None:
    without = [str(op) for op in decided_ops() if not problems_of(op)]
    assert len(without) <= _WITHOUT_SAMPLES, without


def _takes_long(question: Question) -> bool:
    is_followed = route_of(question.op).who is Who.DECOMPOSITION
    leaves = tree_leaves((question.args, question.kwargs))
    return is_followed and sum(isinstance(x, DTensorSpec) for x in leaves) > _MOST_OPERANDS
