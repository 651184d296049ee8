"""Each op that torch can decide: the run, `propagate`, `strategies` and `explain` say the same.

A question of each fourth op by default, of every op with SHARDPROP_AGREEMENT=all (a minute and a
half).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from torch.distributed.device_mesh import DeviceMesh

import shardprop

from .answers import disagreements
from .questions import questions_of
from .samples import decided_ops, problems_of

MeshOf = Callable[..., DeviceMesh]

_CHUNKS = 24
_EACH = 1 if os.environ.get("SHARDPROP_AGREEMENT") == "all" else 4

# Ops of which nothing is known that they take, in the torch that has most of them. Mostly sparse,
# quantized and recurrent ones, and those of accelerators.
_WITHOUT_SAMPLES = 259


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_one_decision_whoever_is_asked(mesh_of: MeshOf, chunk: int) -> None:
    asked = 0
    found = []
    with shardprop.enabled():
        for op in decided_ops()[chunk :: _CHUNKS * _EACH]:
            for question in questions_of(op, mesh_of, 1):
                asked += 1
                found += disagreements(question)
    assert asked > 10
    assert not found, f"{len(found)} of {asked}:\n" + "\n".join(map(str, found[:20]))


def test_few_ops_have_no_samples() -> None:
    without = [str(op) for op in decided_ops() if not problems_of(op)]
    assert len(without) <= _WITHOUT_SAMPLES, without
