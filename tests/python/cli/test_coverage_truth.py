"""Coverage does not lie: who decides, asked of real decisions and compared with what was counted.

Ops are drawn per decider, cases by the parity suite's generators, and `shardprop.stats()` tells.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import shardprop
from shardprop import _torch
from shardprop.cli.coverage_table import Coverage, Decider, OpCoverage, coverage
from shardprop.propagation.propagator import counters
from shardprop.propagation.timing import watch_propagation
from tests.python.parity import families  # noqa: F401  registers the builders
from tests.python.parity.builders import builder_for
from tests.python.parity.cases import draw_op
from tests.python.parity.op_choice import UNREACHABLE
from tests.python.parity.oracle import shardprop_decide
from tests.python.parity.registry import find_op

aten = torch.ops.aten

OPS_PER_DECIDER = 40
DRAWS_PER_OP = 12


@pytest.fixture(scope="module")
def found() -> Coverage:
    return coverage()


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    with shardprop.enabled():
        yield


def can_be_drawn(op: OpCoverage) -> bool:
    """Has the parity suite a generator for the op? It refuses some ``out=`` forms when it runs."""
    if op.op in UNREACHABLE or builder_for(find_op(op.op)) is None:
        return False
    try:
        draw_op(random.Random(0), find_op(op.op))
    except NotImplementedError:
        return False
    return True


def sample(found: Coverage, decider: Decider) -> list[OpCoverage]:
    """Some ops of a decider, the same ones in every run."""
    ops = list(found.decided_by(decider).ops)
    random.Random(decider.value).shuffle(ops)
    return list(itertools.islice(filter(can_be_drawn, ops), OPS_PER_DECIDER))


def decisions(op: str) -> Iterator[shardprop.Stats]:
    """What each decision counted, of random cases that torch has an answer to."""
    rng = random.Random(op)
    for _ in range(DRAWS_PER_OP):
        case = draw_op(rng, find_op(op))
        shardprop.reset_stats()
        if shardprop_decide(case).error is None:
            yield counters()


BY_THE_CORE = [Decider.CORE_RULE, Decider.OWN_RULE, Decider.DECOMPOSITION]


@pytest.mark.slow
@pytest.mark.parametrize("decider", BY_THE_CORE, ids=lambda d: d.value)
def test_what_is_said_to_be_decided_by_the_core_is(found: Coverage, decider: Decider) -> None:
    ops = sample(found, decider)
    assert bool(ops) == bool(found.count(decider))
    answered = 0
    for op in ops:
        # torch has an answer to no case of some ops (out= forms that it cannot decompose). A case
        # may be declined (a tensor too large, say), but never an op that has answers.
        seen = list(decisions(op.op))
        by_core = [stats for stats in seen if stats.decisions]
        assert by_core or not seen, op
        assert all(stats.decisions == 1 and not stats.delegated for stats in by_core), op
        answered += bool(seen)
    assert answered >= 0.7 * len(ops)


def test_an_op_that_falls_back_is_counted_under_the_way_that_is_named(found: Coverage) -> None:
    ops = sample(found, Decider.FALLBACK)
    counted = {op: next(decisions(op.op), None) for op in ops}
    assert any(counted.values()) == bool(ops)
    for op, stats in counted.items():
        assert stats is None or op.how in stats.delegated, op


def handled_calls(x: DTensor, weight: DTensor, image: DTensor) -> dict[OpOverload, Any]:
    """A call that reaches each handler of torch's dispatcher."""
    grad = aten.convolution.default(image, weight, None, [1], [0], [1], False, [0], 1)
    return {
        aten.is_same_size.default: lambda: aten.is_same_size.default(x, x),
        aten.is_pinned.default: lambda: aten.is_pinned.default(x),
        aten.as_strided.default: lambda: aten.as_strided.default(x, [16, 16], [16, 1]),
        aten.argmin.default: lambda: aten.argmin.default(x, 1),
        aten.argmax.default: lambda: aten.argmax.default(x, 1),
        aten.convolution.default: lambda: aten.convolution.default(
            image, weight, None, [1], [0], [1], False, [0], 1
        ),
        aten.convolution_backward.default: lambda: aten.convolution_backward.default(
            grad, image, weight, [0], [1], [0], [1], False, [0], 1, [True, True, False]
        ),
        aten._amp_foreach_non_finite_check_and_unscale_.default: lambda: (
            aten._amp_foreach_non_finite_check_and_unscale_.default(
                [x], torch.tensor(0.0), torch.tensor(1.0)
            )
        ),
    }


def propagated(call: Callable[[], Any]) -> list[OpOverload]:
    """Ops that a call asks a decision for."""
    asked: list[OpOverload] = []
    _torch.forget_decisions()
    with watch_propagation(lambda schema, *_: asked.append(schema.op)):
        call()
    return asked


@pytest.fixture(scope="module")
def x(mesh_of: Any) -> DTensor:
    return distribute_tensor(torch.ones(16, 16), mesh_of(8), [Shard(0)], src_data_rank=None)


def test_a_custom_handler_asks_for_no_decision_of_its_op(
    found: Coverage, x: DTensor, mesh_of: Any
) -> None:
    mesh = mesh_of(8)
    image = distribute_tensor(torch.ones(8, 3, 6), mesh, [Shard(0)], src_data_rank=None)
    weight = distribute_tensor(torch.ones(4, 3, 3), mesh, [Replicate()], src_data_rank=None)
    calls = handled_calls(x, weight, image)
    # Whether those are there that are ours alone depends on who has enabled shardprop.
    assert set(calls) == set(DTensor._op_dispatcher._custom_op_handlers) - _torch.HANDLED_BY_US
    handled = {op.op for op in found.decided_by(Decider.CUSTOM_HANDLER).ops}
    for op, call in calls.items():
        assert (op in propagated(call)) == (str(op) not in handled), op


def test_composite_ops_reach_dtensor_in_inference_mode_only(found: Coverage, x: DTensor) -> None:
    calls: dict[OpOverload, Callable[[], Any]] = {
        aten.linear.default: lambda: torch.nn.functional.linear(x, x),
        aten.softmax.int: lambda: torch.softmax(x, 1),
        aten.flatten.using_ints: lambda: torch.flatten(x),
        aten.mm.default: lambda: torch.mm(x, x),
        aten.mse_loss.default: lambda: torch.nn.functional.mse_loss(x, x),
        aten.silu_backward.default: lambda: aten.silu_backward.default(x, x),
    }
    listed = {op.op: op for op in found.ops}
    for op, call in calls.items():
        assert (op in propagated(call)) != listed[str(op)].composite, op
        with torch.inference_mode():
            assert op in propagated(call), op
