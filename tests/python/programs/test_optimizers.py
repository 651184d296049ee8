"""Optimizer steps on DTensor parameters of several layouts: parameters and state compared.

On the fake group: the steps are local, save where a gradient's layout is not its parameter's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Partial, Placement, Replicate, Shard

import shardprop
from shardprop.cli.decisions import clear_every_cache
from shardprop.model.question import Choice, Question
from shardprop.rules.rule import Chooser, TorchRule

from .check import check
from .compare import compare
from .outcome import Results
from .world import mesh_of, placed, seeded, spread

pytestmark = pytest.mark.slow

MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]

R, P, S = Replicate(), Partial(), Shard
LAYOUTS: list[tuple[tuple[int, ...], tuple[Placement, ...], tuple[Placement, ...]]] = [
    # shape, placements of the parameter, placements of its gradient
    ((8, 8), (S(0), S(1)), (S(0), S(1))),
    ((8, 8), (S(0), S(0)), (S(0), S(0))),
    ((8, 8), (R, S(0)), (R, S(0))),
    ((7, 5), (S(0), R), (S(0), R)),
    ((8,), (R, R), (R, R)),
    ((8,), (R, R), (P, R)),
    ((6, 8), (R, S(1)), (R, S(0))),
]
STEPS = 3


def with_gradients() -> list[nn.Parameter]:
    mesh = mesh_of((2, 2))
    made: list[nn.Parameter] = []
    for index, (shape, placements, gradient) in enumerate(LAYOUTS * 2):
        parameter = nn.Parameter(spread(seeded(*shape, seed=index), mesh, *placements))
        parameter.grad = placed(seeded(*shape, seed=100 + index), mesh, *gradient)
        made.append(parameter)
    return made


def run(make: MakeOptimizer) -> Results:
    parameters = with_gradients()
    optimizer = make(parameters)
    for _ in range(STEPS):
        optimizer.step()
    state = optimizer.state_dict()["state"]
    return {"parameters": parameters, "state": state, "lr": optimizer.param_groups[0]["lr"]}


AdamW = partial(torch.optim.AdamW, lr=1e-2, amsgrad=True)
SGD = partial(torch.optim.SGD, lr=1e-2, momentum=0.9, nesterov=True, weight_decay=0.1)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(partial(AdamW, foreach=True), id="AdamW, foreach"),
        pytest.param(partial(AdamW, fused=True), id="AdamW, fused"),
        pytest.param(partial(AdamW, foreach=False), id="AdamW, one by one"),
        pytest.param(partial(SGD, foreach=True), id="SGD, foreach"),
        pytest.param(partial(SGD, foreach=False), id="SGD, one by one"),
    ],
)
def test_optimizer(make: MakeOptimizer) -> None:
    check([compare(partial(run, make))], decisions=1)


def test_learning_rate_in_a_tensor() -> None:
    def program() -> Results:
        return run(partial(AdamW, lr=torch.tensor(1e-2), fused=True))

    check([compare(program)], decisions=1)


def test_an_optimizer_without_a_rule_is_refused_in_the_same_words() -> None:
    def program() -> Results:
        with pytest.raises(NotImplementedError, match="_fused_sgd_") as caught:
            run(partial(SGD, fused=True))
        if shardprop.is_enabled() and sys.version_info >= (3, 11):
            (note,) = caught.value.__notes__
            assert note.startswith(
                "shardprop: give it one: shardprop.register_rule(torch.ops.aten."
            )
        return {"error": str(caught.value)}

    assert compare(program).differences == ()


def test_a_step_over_300_parameters_is_decided_like_one_over_its_distinct_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    choose = TorchRule.choose

    def counted(rule: TorchRule, question: Question, terms: Chooser) -> Choice:
        asked.append(question.op)
        return choose(rule, question, terms)

    monkeypatch.setattr(TorchRule, "choose", counted)

    def step(repeats: int) -> tuple[int, list[object]]:
        asked.clear()
        clear_every_cache()
        shardprop.reset_stats()
        shapes = [(8, 8), (16, 8), (8,)] * repeats
        parameters = [
            nn.Parameter(spread(seeded(*shape), mesh_of((2, 2)), S(0), R)) for shape in shapes
        ]
        for parameter in parameters:
            parameter.grad = parameter.detach()
        optimizer = torch.optim.AdamW(parameters, foreach=True)
        with shardprop.enabled():
            optimizer.step()
        return shardprop.stats().decisions, list(asked)

    few = step(1)
    assert len(few[1]) >= 3 * 5, "several list ops, three distinct elements each"
    assert step(100) == few
