"""Functions and modules: every decision in order, and nothing of the program is touched."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    _dispatch,
    _random,
    distribute_tensor,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import shardprop
from shardprop import _torch

from ...narrow import sharded
from ...specs import P, R, S, spec_of
from .meshes import named_mesh
from .schema import validate

aten = torch.ops.aten


def _mlp() -> nn.Module:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    plan = {
        "0": ColwiseParallel(use_local_output=False),
        "2": RowwiseParallel(use_local_output=False),
    }
    return parallelize_module(model, named_mesh(tp=4), plan)


def _ops(explanation: shardprop.Explanation) -> list[str]:
    return [decision.op for decision in explanation.decisions]


@pytest.fixture(params=["disabled", "torch", "optimal"])
def policy(request: pytest.FixtureRequest) -> Iterator[str]:
    """What is enabled, and still is after the test."""
    if request.param == "disabled":
        assert not shardprop.is_enabled()
        yield "torch"
        assert not shardprop.is_enabled()
        return
    settings: dict[str, Any] = {"policy": "optimal", "topology": "h100-nvlink"}
    with shardprop.enabled(**(settings if request.param == "optimal" else {})):
        yield request.param
        assert shardprop.is_enabled()


def test_each_op_is_explained_in_order_also_those_in_a_cache(policy: str) -> None:
    mesh = named_mesh(tp=4)
    x, w = spec_of(mesh, (8, 16), (R,)), spec_of(mesh, (16, 16), (S(0),))

    def twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w) @ w

    explanation = shardprop.explain(twice, x, w)
    assert _ops(explanation) == ["aten.mm.default", "aten.relu.default", "aten.mm.default"]
    assert {decision.policy for decision in explanation.decisions} == {policy}
    assert explanation.error is None
    validate(explanation.to_json())
    with pytest.raises(shardprop.ShardpropError, match="one decision, got one of 3"):
        _ = explanation.decision


def test_a_packet_takes_specs_and_dtensors() -> None:
    mesh = named_mesh(tp=4)
    x = distribute_tensor(torch.randn(8, 16), mesh, [Shard(1)])
    explanation = shardprop.explain(aten.mm, x, spec_of(mesh, (16, 8), (R,)))
    assert explanation.decision.op == "aten.mm.default"
    # Row "S(1), S(0) -> P": the second is cut where it is, which costs nothing.
    assert explanation.decision.reason == "costs nothing"
    assert [move.name for move in explanation.decision.moves] == ["mat2"]


def test_a_composite_overload_is_taken_apart() -> None:
    mesh = named_mesh(tp=4)
    args = spec_of(mesh, (8, 16), (S(0),)), spec_of(mesh, (16, 8), (R,))
    assert _ops(shardprop.explain(aten.matmul.default, *args)) == ["aten.mm.default"]


def test_nothing_of_a_module_is_touched(policy: str) -> None:
    model = _mlp()
    before = {name: (p, sharded(p).to_local().clone()) for name, p in model.named_parameters()}
    counted = shardprop.stats().decisions
    x = torch.randn(4, 16)
    random_state = torch.get_rng_state()

    def step(x: torch.Tensor) -> None:
        model(x).sum().backward()

    explanation = shardprop.explain(step, x)
    assert {"aten.addmm.default", "aten.mm.default", "aten.sum.default"} <= {*_ops(explanation)}
    assert torch.equal(torch.get_rng_state(), random_state)
    assert shardprop.stats().decisions == counted
    for name, parameter in model.named_parameters():
        assert parameter is before[name][0] and parameter.grad is None
        assert torch.equal(sharded(parameter).to_local(), before[name][1])
    # What torch caches now was decided as it would have been.
    after = model(x)
    assert after.placements == (Replicate(),)
    assert after.to_local().isfinite().all()


def test_strided_shards_are_moved_without_a_look_at_their_offsets(policy: str) -> None:
    """Attention whose heads are sharded over one mesh dim and whose sequence over another: views
    leave strided shards, which torch moves by offsets that it reads out of tensors."""
    mesh = named_mesh(sp=2, tp=2)
    x = distribute_tensor(torch.randn(4, 8, 64), mesh, [Shard(1), Shard(2)])

    def scores(x: torch.Tensor) -> torch.Tensor:
        heads = x.view(4, 8, 8, 8).transpose(1, 2)
        return torch.matmul(heads, heads.transpose(-1, -2)).softmax(-1)

    explanation = shardprop.explain(scores, x)
    (product,) = [each for each in explanation.decisions if each.op == "aten.bmm.default"]
    assert any("_S(" in operand.layout for operand in product.operands)
    assert product.moves and explanation.decisions[-1].op == "aten._softmax.default"


def test_a_move_that_costs_more_than_its_price_says_so_in_the_table() -> None:
    """torch gathers a strided shard for free."""
    mesh = named_mesh(dp=2, tp=4)
    q = spec_of(mesh, (4, 16, 32), (S(0), S(1)))
    w = spec_of(mesh, (32, 32), (R, S(0)))
    explanation = shardprop.explain(torch.matmul, q, w)
    (product,) = [each for each in explanation.decisions if each.op == "aten.mm.default"]
    (move,) = product.moves
    assert product.total_us == 0.0
    assert product.planned_us == move.planned_us > 10
    head, _, table = str(explanation).partition("\n")
    assert head.endswith(
        f"moved in 0.0 us by price, {move.planned_us:.1f} us by the plans that run"
    )
    assert (
        f"0.0 us  self S(0)[0]_S(0, 2)[1] -> S(0)S(1) (its plan: {move.planned_us:.1f} us)" in table
    )
    assert "rule: rows" in table, "it is laid out, although it was priced at nothing"


def test_of_many_decisions_the_text_has_those_that_move_something() -> None:
    def often(x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = torch.relu(x)
        return x

    explanation = shardprop.explain(often, spec_of(named_mesh(tp=4), (8, 16), (P,)))
    assert len(explanation.decisions) == 20
    assert str(explanation).count("aten.relu.default") == 2
    assert "19 more move nothing" in str(explanation)
    assert explanation.text(every=True).count("aten.relu.default") == 40


def test_what_carries_out_redistributions_is_as_before(policy: str) -> None:
    before = _torch.installed_redistribute()
    shardprop.explain(torch.relu, spec_of(named_mesh(tp=4), (8, 16), (P,)))
    assert _torch.installed_redistribute().__qualname__ == before.__qualname__


def test_modules_are_found_where_a_program_keeps_them() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = _mlp()

        def step(self, x: torch.Tensor) -> torch.Tensor:
            for parameter in self.model.parameters():
                assert isinstance(sharded(parameter)._local_tensor, FakeTensor)
            return self.model(x)

    trainer = Trainer()
    assert shardprop.explain(trainer.step, torch.randn(4, 16)).decisions
    assert shardprop.explain(lambda x: trainer.step(x), torch.randn(4, 16)).decisions
    assert not any(
        isinstance(sharded(p)._local_tensor, FakeTensor) for p in trainer.model.parameters()
    )


def test_gradients_of_tensors_that_a_function_closes_over_are_as_before() -> None:
    mesh = named_mesh(tp=4)
    w = distribute_tensor(torch.randn(16, 8), mesh, [Shard(0)]).requires_grad_()
    (w * 2).sum().backward()
    gradient = sharded(w.grad)
    values = gradient.to_local().clone()
    shardprop.explain(lambda x: (x @ w).sum().backward(), spec_of(mesh, (8, 16), (R,)))
    assert w.grad is gradient
    assert torch.equal(gradient.to_local(), values)


def test_what_is_written_in_place_stays_as_it_was() -> None:
    mesh = named_mesh(tp=4)
    x = distribute_tensor(torch.ones(8, 16), mesh, [Shard(0)])
    shardprop.explain(lambda: x.mul_(2))
    shardprop.explain(torch.Tensor.mul_, x, 3)
    assert torch.equal(x.to_local(), torch.ones(2, 16))


def test_random_ops_leave_the_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def agree(*_: object) -> None:
        raise AssertionError("the ranks would agree on a seed, which is a collective")

    monkeypatch.setattr(_dispatch, "is_rng_supported_mesh", lambda mesh: True)
    monkeypatch.setattr(_random, "OffsetBasedRNGTracker", agree)
    x = spec_of(named_mesh(tp=4), (8, 16), (S(0),))
    state, tracker = torch.get_rng_state(), _random._rng_tracker
    explanation = shardprop.explain(nn.Dropout(0.5), x)
    assert torch.equal(torch.get_rng_state(), state)
    assert _random._rng_tracker is tracker
    assert any("bernoulli" in decision.op for decision in explanation.decisions)


def test_the_op_without_a_decision_is_the_last() -> None:
    x = DTensor.from_local(torch.randn(8, 16), named_mesh(tp=4), [Partial()])
    calls: list[object] = []

    def write(x: torch.Tensor) -> None:
        calls.append((x + x).relu_())
        calls.append("never")

    explanation = shardprop.explain(write, x)
    assert calls == []
    assert _ops(explanation) == ["aten.add.Tensor", "aten.relu_.default"]
    last = explanation.decisions[-1]
    assert explanation.error == last.error and "No strategy is valid" in (last.error or "")
    assert {rejection.filter for rejection in last.rejections} == {"in_place"}
    assert "an in-place op keeps its placement" in str(explanation)


def test_where_nothing_was_decided_the_text_says_so() -> None:
    explanation = shardprop.explain(torch.mm, torch.ones(2, 2), torch.ones(2, 2))
    assert explanation.decisions == ()
    assert "No op on DTensors ran" in str(explanation)


def test_torch_logs_no_traceback_of_an_error_that_is_the_answer() -> None:
    log = logging.getLogger("torch._subclasses.fake_tensor")
    filters = [*log.filters]
    records: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Handler()
    log.addHandler(handler)
    a, b = (spec_of(named_mesh(tp=4), size, (R,)) for size in ((8, 16), (15, 8)))
    try:
        for op in (aten.mm.default, torch.mm):
            assert "same reduction dim" in (shardprop.explain(op, a, b).error or "")
        assert records == []
        log.error("of the program")
    finally:
        log.removeHandler(handler)
    assert [record.msg for record in records] == ["of the program"]
    assert log.filters == filters


def test_errors_of_the_function_itself_are_raised() -> None:
    def wrong(x: torch.Tensor) -> None:
        raise KeyError("of the program")

    with pytest.raises(KeyError, match="of the program"):
        shardprop.explain(wrong, spec_of(named_mesh(tp=4), (8, 16), (R,)))
    assert not shardprop.is_enabled()


@pytest.mark.parametrize("function", [lambda x: x.sum().item(), lambda x: bool(x.max() > 0)])
def test_values_are_not_to_be_had(function: Callable[..., Any]) -> None:
    x = distribute_tensor(torch.randn(8, 16), named_mesh(tp=4), [Replicate()])
    with pytest.raises(shardprop.ShardpropError, match=r"shardprop\.trace\(\)"):
        shardprop.explain(function, x)


def test_a_module_that_swaps_its_parameters_is_refused_and_stays_whole() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    fully_shard(model, mesh=named_mesh(dp=4))
    with pytest.raises(shardprop.ShardpropError, match="which fully_shard was applied to"):
        shardprop.explain(lambda x: model(x), torch.randn(4, 16))
    assert model(torch.randn(4, 16)).shape == (4, 16)


def test_threads_explain_one_after_another() -> None:
    mesh = named_mesh(tp=4)
    x, w = spec_of(mesh, (8, 16), (R,)), spec_of(mesh, (16, 16), (S(0),))
    found: list[list[str]] = []

    def repeatedly() -> None:
        for _ in range(4):
            found.append(_ops(shardprop.explain(lambda x, w: (x @ w) @ w, x, w)))

    threads = [threading.Thread(target=repeatedly) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["aten.mm.default"] * 2] * 12
    assert not shardprop.is_enabled()


def test_an_explanation_inside_another_is_refused() -> None:
    x = spec_of(named_mesh(tp=4), (8, 16), (P,))
    with pytest.raises(shardprop.ShardpropError, match="inside another"):
        shardprop.explain(lambda x: shardprop.explain(torch.relu, x), x)
    assert _ops(shardprop.explain(torch.relu, x)) == ["aten.relu.default"]


def test_a_function_that_enables_shardprop_itself_is_refused() -> None:
    def optimal(x: torch.Tensor) -> None:
        with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
            torch.relu(x)

    x = spec_of(named_mesh(tp=4), (8, 16), (P,))
    with pytest.raises(shardprop.ShardpropError, match="Explain the function inside of that"):
        shardprop.explain(optimal, x)
    assert not shardprop.is_enabled()


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(shardprop.ShardpropError, match="something that can be called, got 3"):
        shardprop.explain(3)  # type: ignore[arg-type]


@pytest.mark.slow
def test_importing_shardprop_imports_no_explanation() -> None:
    program = (
        "import sys, shardprop; assert 'shardprop.inspection.explanation' not in sys.modules; "
        "shardprop.explain; assert 'shardprop.inspection.explanation' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
