"""Calls that are written by hand."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from shardprop.verification.calls.call import Call
from shardprop.verification.calls.samples import Samples
from shardprop.verification.calls.written import WRITTEN, written
from shardprop.verification.names import overload
from shardprop.verification.simulator.execution import Executable, expected_of
from shardprop.verification.simulator.partials import Untestable

aten = torch.ops.aten


@pytest.mark.parametrize("name", WRITTEN)
def test_an_op_takes_its_written_calls_and_gives_the_same_each_time(name: str) -> None:
    try:
        op = overload(name)
    except AttributeError:
        pytest.skip(f"torch {torch.__version__} has no {name}")
    calls = list(written(op))
    assert calls
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = expected_of(Executable(call))
        assert call.tensors and not call.is_made_up
        assert any(x is not None and x.numel() for x in (*made.outputs, *made.written.values()))


@pytest.mark.parametrize(
    "op", [aten.trace_backward.default, aten.quantile.out, aten.exponential.out], ids=str
)
def test_written_calls_are_an_ops_and_those_of_the_ops_that_write(op: Any) -> None:
    calls = Samples([op]).calls(op)
    assert calls
    for call in calls:
        assert call.op is op and call.origin.startswith("written by hand")
        assert call.results() is not None


def test_the_same_seed_writes_the_same_calls() -> None:
    def values(seed: int) -> list[list[Any]]:
        calls = written(aten.nll_loss.default, seed)
        return [tensor.tolist() for call in calls for tensor in call.tensors]

    assert values(1) == values(1)
    assert values(1) != values(2)


def test_a_random_op_is_tried_only_where_it_draws_the_same() -> None:
    with pytest.raises(Untestable, match="random op"):
        expected_of(Executable(Call(aten.dropout.default, (torch.ones(6, 4), 0.5, True))))
