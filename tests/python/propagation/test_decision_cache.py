"""What is held is the answer: whatever a program does to rules, sizes and outputs in between."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OutputSharding
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy

import shardprop
from shardprop import _core, _torch
from shardprop.metadata import output_meta
from shardprop.propagation import decision_cache
from shardprop.propagation.core_call import choose
from shardprop.propagation.decision_cache import DecisionCache
from shardprop.propagation.propagator import torch_planner
from shardprop.rules import torch_registry
from shardprop.rules.row_rule import RowRule
from shardprop.support.cache import BoundedMap

from ..custom_ops import ops
from ..narrow import known
from ..specs import P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


@pytest.fixture
def op() -> Iterator[Any]:
    """A program's own op of two tensors; its rule is the test's to register."""
    with torch.library._scoped_library("shardprop_held", "DEF") as library:
        library.define("pair(Tensor a, Tensor b) -> Tensor")
        library.impl("pair", lambda a, b: torch.empty_like(a), "Meta")
        pair = torch.ops.shardprop_held.pair.default
        yield pair
        prop = _torch.propagator()
        prop.op_single_dim_strategy_funcs.pop(pair, None)
        prop.op_to_schema_info_for_single_dim_strategy.pop(pair, None)


def placements(answer: OutputSharding) -> Any:
    wanted = None if answer.redistribute_schema is None else answer.redistribute_schema.args_spec
    return answer.output_spec, wanted


def equal_to_torch(op: Any, *specs: DTensorSpec) -> bool:
    """Does the hook decide as torch does?"""
    schema = torch_registry.op_schema(op, specs, {})
    _torch.forget_plans()
    theirs = _torch.torch_propagate(schema)
    with shardprop.enabled():
        ours = _torch.propagator().propagate_op_sharding_non_cached(schema)
    return bool(placements(ours) == placements(theirs))


def test_one_list_of_rows_for_all_dtypes(op: Any, mesh_of: MeshOf) -> None:
    rows = [[S(0), S(0), S(0)], [S(1), S(1), S(1)]]
    register_single_dim_strategy(op)(lambda *_: rows)
    dtypes = torch.float64, torch.int8
    for first, second in (dtypes, dtypes[::-1]):
        for size in (1024, 2048, 4096):
            a = spec_of(mesh_of(4), (size, 64), [S(0)], dtype=first)
            b = spec_of(mesh_of(4), (size, 64), [S(1)], dtype=second)
            assert equal_to_torch(op, a, b)


def test_a_programs_own_rule_is_asked_every_time(op: Any, mesh_of: MeshOf) -> None:
    dim = 0
    register_single_dim_strategy(op)(lambda *_: [[S(dim), S(dim), S(dim)]])
    spec = spec_of(mesh_of(4), (16, 16), [S(0)])
    assert equal_to_torch(op, spec, spec)
    dim = 1
    assert equal_to_torch(op, spec, spec)


def test_a_wrapper_around_torchs_rule_is_not_torchs(op: Any, mesh_of: MeshOf) -> None:
    torchs = known(torch_registry.single_dim_entry(aten.add.Tensor)).func

    @functools.wraps(torchs)
    def rule(op: Any, args: Any, kwargs: Any) -> Any:
        # numel() reads the sizes in C, which no watched size can note.
        dim = args[0].shape.numel() > 1_000
        return [[S(dim), S(dim), S(dim)]]

    register_single_dim_strategy(op)(rule)
    for size in (4, 8, 16, 64, 128):
        spec = spec_of(mesh_of(4), (size, 16), [S(0)])
        assert equal_to_torch(op, spec, spec)


def test_an_iterator_of_rows_is_refused_in_torchs_words(op: Any, mesh_of: MeshOf) -> None:
    def rule(*_: Any) -> Any:
        return iter([[S(0), S(0), S(0)]])

    register_single_dim_strategy(op)(rule)
    spec = spec_of(mesh_of(4), (16, 16), [S(0)])
    with pytest.raises(TypeError, match="len"):
        equal_to_torch(op, spec, spec)
    with shardprop.enabled(), pytest.raises(TypeError, match="len"):
        schema = torch_registry.op_schema(op, (spec, spec), {})
        _torch.propagator().propagate_op_sharding_non_cached(schema)


def test_answers_are_looked_up_from_the_third_size_on(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shardprop.propagation import core_call

    searched = 0
    search = core_call.answer

    def counting(prepared: Any) -> Any:
        nonlocal searched
        searched += 1
        return search(prepared)

    monkeypatch.setattr(decision_cache, "answer", counting)
    shardprop.clear_caches()
    weight = spec_of(mesh_of(2, 4), (64, 64), [R, S(1)])
    for turn in range(10):
        x = spec_of(mesh_of(2, 4), (16 * (turn + 1), 64), [S(0), R])
        assert equal_to_torch(aten.mm.default, x, weight)
    assert searched == 2
    assert shardprop.stats().caches["decisions"].entries == 1


def test_a_rule_is_asked_no_more_once_it_is_known_what_it_reads(mesh_of: MeshOf) -> None:
    held, op = DecisionCache(), ops.mix.default
    asked: list[Any] = []

    def rows(op: Any, args: Any, kwargs: Any) -> Any:
        asked.append(kwargs["w"].shape[0] > 8)
        return [[S(0)] * 4]

    def decide(size: int) -> int:
        spec = spec_of(mesh_of(4), (size, 16), [S(0)])
        schema = torch_registry.op_schema(op, (spec, spec), {"w": spec})
        held.choose(rule.question(schema, output_meta(schema)), rule)
        return len(asked)

    rule = RowRule(rows)
    # For the second size it is asked what it reads, too.
    assert [decide(size) for size in (16, 32, 64, 128, 32)] == [1, 3, 3, 3, 3]
    assert decide(4) > 3  # which it reads as another


@pytest.mark.parametrize("reads", [False, True])
def test_a_float_counts_where_the_rule_reads_it(mesh_of: MeshOf, reads: bool) -> None:
    held, op = DecisionCache(), ops.mix.default
    asked: list[bool] = []

    def rows(op: Any, args: Any, kwargs: Any) -> Any:
        asked.append(reads and kwargs["s"] > 0)
        return [[S(0)] * 3]

    def decide(size: int, factor: float) -> int:
        spec = spec_of(mesh_of(4), (size, 16), [S(0)])
        schema = torch_registry.op_schema(op, (spec, spec), {"s": factor})
        held.choose(rule.question(schema, output_meta(schema)), rule)
        return len(asked)

    rule = RowRule(rows)
    # For the second size it is asked what it reads, too.
    assert [decide(size, 0.5) for size in (16, 32, 64)] == [1, 3, 3]
    assert (decide(64, 0.25) == 3) is not reads


@pytest.mark.parametrize(
    ("op", "static", "times_asked"),
    [
        # torch may count keyword tensors in another order than they come in.
        (ops.keyed.default, False, [1, 2, 3, 4]),
        # For the second size it is asked what it reads, too.
        (ops.statics.default, True, [1, 3, 3, 3]),
    ],
    ids=["two tensors", "two scalars"],
)
def test_a_rule_with_two_keyword_tensors_is_asked_every_time(
    mesh_of: MeshOf, op: Any, static: bool, times_asked: list[int]
) -> None:
    held = DecisionCache()
    asked = 0

    def rows(op: Any, args: Any, kwargs: Any) -> Any:
        nonlocal asked
        asked += 1
        return [[S(0)] * (2 if static else 4)]

    def decide(size: int) -> int:
        spec = spec_of(mesh_of(4), (size, 16), [S(0)])
        rest = (1, 2.0, "3", True, [4]) if static else ()
        kwargs = {"k": 5, "t": "6"} if static else {"b": spec, "a": spec}
        schema = torch_registry.op_schema(op, (spec, *rest), kwargs)
        held.choose(rule.question(schema, output_meta(schema)), rule)
        return asked

    rule = RowRule(rows)
    assert [decide(size) for size in (16, 32, 64, 128)] == times_asked


def test_of_one_kind_of_question_few_regions_are_looked_for(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A region takes long to find: where none comes to hold, the search is given up."""
    looked_for = 0

    class Nowhere:
        def contains(self, operands: Any) -> bool:
            return False

    def region(problem: Any) -> Nowhere:
        nonlocal looked_for
        looked_for += 1
        return Nowhere()

    monkeypatch.setattr(_core, "region", region)
    held, rule = DecisionCache(), RowRule(lambda *_: [[S(0)] * 3])
    for size in range(4, 4 + 3 * decision_cache._VARIANTS):
        spec = spec_of(mesh_of(4), (size, 4), [S(0)])
        schema = torch_registry.op_schema(aten.add.Tensor, (spec, spec), {})
        held.choose(rule.question(schema, output_meta(schema)), rule)
    assert looked_for == decision_cache._VARIANTS


def test_rows_hold_for_the_floats_that_the_rule_has_read(mesh_of: MeshOf) -> None:
    held, op = DecisionCache(), aten.add.Tensor

    def rows(op: Any, args: Any, kwargs: Any) -> Any:
        by_rank = args[0].shape[0] > 8 and kwargs["alpha"] < 2.0
        return [[P, P, P] if by_rank else [R, R, R]]

    rule, choices = RowRule(rows), set()
    # The first answer holds for its very sizes and floats, the others for what the rule has read.
    for size, alpha in itertools.product((16, 32, 64, 4, 2), (1.0, 3.0, 1.5)):
        spec = spec_of(mesh_of(4), (size, 16), [P])
        schema = torch_registry.op_schema(op, (spec, spec), {"alpha": alpha})
        question = rule.question(schema, output_meta(schema))
        choice = held.choose(question, rule)
        assert choice.outputs == choose(question, rule).outputs, (size, alpha)
        choices.add(choice.outputs)
    assert len(choices) == 2


@pytest.mark.parametrize("call", [lambda x: x.unbind(0), lambda x: x.split_with_sizes([], 0)])
def test_no_outputs_at_all(call: Callable[[DTensor], Any], mesh_of: MeshOf) -> None:
    empty = DTensor.from_local(torch.empty(0, 4), mesh_of(2), [Replicate()], run_check=False)
    assert call(empty) == ()
    with shardprop.enabled():
        assert call(empty) == ()


def test_more_elements_than_there_are_addresses(mesh_of: MeshOf) -> None:
    column = spec_of(mesh_of(2), (2**31, 1), [Shard(0)])
    row = spec_of(mesh_of(2), (1, 2**31), [Shard(1)])
    schema = torch_registry.op_schema(aten.add.Tensor, (column, row), {})
    with pytest.raises(RuntimeError, match="overflow"):
        _torch.torch_propagate(schema)
    with shardprop.enabled(), pytest.raises(RuntimeError, match="overflow"):
        _torch.propagator().propagate_op_sharding_non_cached(schema)


# The map that holds it all ------------------------------------------------------------------------


def test_a_full_map_keeps_what_is_put_and_what_is_read() -> None:
    held: BoundedMap[int] = BoundedMap("test", 3)
    for number in range(3):
        held.put(number, number)
    held.get(0)
    held.put(3, 3)
    assert [held.get(number) for number in range(4)] == [0, None, 2, 3]
    held.put(4, 4)  # all were read: the oldest of them goes
    assert held.get(4) == 4
    assert len(held) == 3


def test_a_signal_handler_may_ask_while_its_thread_writes() -> None:
    held: BoundedMap[int] = BoundedMap("test", 2)
    with held._writing:
        held.put(1, 1)
    assert held.get(1) == 1


def test_one_history_per_decision() -> None:
    with torch_planner().one_decision():
        first = torch_planner()._history()
        with contextlib.suppress(ValueError), torch_planner().one_decision():
            assert torch_planner()._history() is first
            raise ValueError
        assert torch_planner()._history() is first
    assert torch_planner()._history() is not first
