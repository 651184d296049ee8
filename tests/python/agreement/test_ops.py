"""Each op that torch can decide: the run, `propagate`, `strategies` and `explain` say the same.

A question of each fourth op by default, of every op with SHARDPROP_AGREEMENT=all (a minute and a
half).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

from .answers import disagreements
from .questions import question_of
from .samples import decided_ops, problems_of

MeshOf = Callable[..., DeviceMesh]

_CHUNKS = 24
_EACH = 1 if os.environ.get("SHARDPROP_AGREEMENT") == "all" else 4

# Of a chunk's questions: how many are compared at least.
_LEAST_COMPARED = {1: 70, 4: 15}

# Ops of which nothing is known that they take, by version of torch. Mostly sparse, quantized and
# recurrent ones, and those of accelerators.
_WITHOUT_SAMPLES = {"2.13": 258, "2.15": 259}


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_one_decision_whoever_is_asked(mesh_of: MeshOf, chunk: int) -> None:
    compared = 0
    found = []
    for op in decided_ops()[chunk * _EACH :: _CHUNKS * _EACH]:
        question = question_of(op, mesh_of)
        differing = None if question is None else disagreements(question)
        if differing is not None:
            compared += 1
            found += differing
    assert not found, f"{len(found)} of {compared}:\n" + "\n".join(map(str, found[:20]))
    assert compared >= _LEAST_COMPARED[_EACH]


@pytest.mark.slow
def test_few_ops_have_no_samples() -> None:
    version = ".".join(torch.__version__.split(".")[:2])
    without = [str(op) for op in decided_ops() if not problems_of(op)]
    assert len(without) <= _WITHOUT_SAMPLES[version], without
