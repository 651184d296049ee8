"""When collectives begin and are waited for: beside ops, and what is needed first goes first."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import fx

from shardprop.erasure.passes import NO_TIME, Duration, cleaned

aten = torch.ops.aten
collective = torch.ops._c10d_functional


def test_collectives_go_early_and_waits_late() -> None:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    first = graph.call_function(aten.sin.default, (x,))
    second = graph.call_function(aten.cos.default, (y,))
    gathered = graph.call_function(collective.all_gather_into_tensor.default, (first, 2, "0"))
    waited = graph.call_function(collective.wait_tensor.default, (gathered,))
    third = graph.call_function(aten.add.Tensor, (second, 1))
    joined = graph.call_function(aten.sum.default, (waited,))
    graph.output([third, joined])
    cleaned(graph, ["order"])
    assert [node.name for node in graph.nodes if node.op == "call_function"] == [
        "sin_default",
        "all_gather_into_tensor_default",
        "cos_default",
        "add_tensor",
        "wait_tensor_default",
        "sum_default",
    ]


def test_collectives_stay_in_their_order() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    late = graph.call_function(aten.sin.default, (graph.call_function(aten.cos.default, (x,)),))
    reduce = collective.all_reduce.default
    first = graph.call_function(reduce, (late, "sum", "0"))
    second = graph.call_function(reduce, (x, "sum", "0"))
    graph.output(
        [graph.call_function(collective.wait_tensor.default, (n,)) for n in (first, second)]
    )
    cleaned(graph, ["order"])
    begun = [node for node in graph.nodes if node.target is reduce]
    assert begun == [first, second]


class Traced:
    """A graph that is made call by call, and what its calls take."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.x = self.graph.placeholder("x")
        self.took: dict[fx.Node, Duration] = {}

    def op(self, *operands: fx.Node, us: float = 10.0) -> fx.Node:
        node = self.graph.call_function(aten.cat.default, ([*operands],))
        self.took[node] = Duration(op_us=us)
        return node

    def view(self, operand: fx.Node) -> fx.Node:
        return self.graph.call_function(aten.view.default, (operand, [-1]))

    def collective(self, op: Any, operand: fx.Node, us: float = 10.0) -> fx.Node:
        node = self.graph.call_function(op, (operand, 2, "0"))
        self.took[node] = Duration(comm_us=us)
        return self.graph.call_function(collective.wait_tensor.default, (node,))

    def gather(self, operand: fx.Node, us: float = 10.0) -> fx.Node:
        return self.collective(collective.all_gather_into_tensor.default, operand, us)

    def scatter(self, operand: fx.Node, us: float = 10.0) -> fx.Node:
        return self.collective(collective.reduce_scatter_tensor.default, operand, us)

    def exchange(self, operand: fx.Node, us: float = 10.0) -> fx.Node:
        """From one shard to another, as devices that are no CPU do it: nobody waits."""
        op = torch.ops._dtensor.shard_dim_alltoall.default
        node = self.graph.call_function(op, (operand, 0, 1, "0"))
        self.took[node] = Duration(comm_us=us)
        return node

    def ordered(self, *results: fx.Node, timed: bool = True) -> list[fx.Node]:
        """What is called, in the order of the pass."""
        self.graph.output([*results])
        before = {*self.graph.nodes}
        cleaned(self.graph, ["order"], (lambda _: self.took) if timed else None)
        assert {*self.graph.nodes} == before
        return [node for node in self.graph.nodes if node.op == "call_function"]


def begun(wait: fx.Node) -> fx.Node:
    (node,) = wait.all_input_nodes
    return node


@pytest.mark.parametrize("timed", [True, False])
def test_what_is_read_at_the_end_alone_holds_nothing_up(timed: bool) -> None:
    made = Traced()
    first = made.op(made.x)
    reduced = [made.scatter(made.op(first)) for _ in range(3)]
    gathered = made.gather(made.x)
    last = made.op(made.op(first), gathered)
    order = made.ordered(last, *reduced, timed=timed)
    # Before the op that stood before it, and none of the others is waited for by then.
    assert order.index(begun(gathered)) < order.index(last) - 1
    assert all(order.index(each) > order.index(last) for each in reduced) or timed


def test_the_collective_that_is_needed_first_begins_first() -> None:
    made = Traced()
    first = made.op(made.x, us=1.0)
    later, sooner = made.gather(first), made.gather(first)
    last = made.op(made.op(sooner), later)
    order = made.ordered(last)
    assert order.index(begun(sooner)) < order.index(begun(later))
    made = Traced()
    first = made.op(made.x, us=1.0)
    later, sooner = made.gather(first), made.gather(first)
    last = made.op(made.op(sooner), later)
    order = made.ordered(last, timed=False)
    assert order.index(begun(later)) < order.index(begun(sooner))


def test_a_collective_that_comes_up_during_an_op_does_not_wait_behind_others() -> None:
    """Of two that are there the stream takes one; the other has its turn when that is over, and a
    third that comes up in the meantime goes before it."""
    made = Traced()
    first = made.op(made.x)
    gradients = [made.scatter(first, us=15.0) for _ in range(2)]
    second = made.op(first)
    needed = made.scatter(second)
    last = made.op(made.op(second), needed)
    order = made.ordered(last, *gradients)
    assert [node for node in order if node in map(begun, [*gradients, needed])] == [
        begun(gradients[0]),
        begun(needed),
        begun(gradients[1]),
    ]


@pytest.mark.parametrize("gradients", [0, 9])
@pytest.mark.parametrize(("timed", "most"), [(True, 6), (False, 2)])
@pytest.mark.parametrize("op", ["all_gather_into_tensor", "all_to_all_single"])
def test_only_so_many_tensors_are_ahead(op: str, timed: bool, most: int, gradients: int) -> None:
    made = Traced()
    at_the_end = [made.gather(made.scatter(made.x, us=0.5), us=0.5) for _ in range(gradients)]
    ops = [made.x]
    moved = []
    for _ in range(10):
        moved.append(made.collective(getattr(collective, op).default, made.x, us=1.0))
        ops.append(made.op(ops[-1], moved[-1]))
    order = made.ordered(ops[-1], *at_the_end, timed=timed)
    for at, op_here in enumerate(ops[1:]):
        here = order.index(op_here)
        there = [each for each in moved[at + 1 :] if order.index(begun(each)) < here]
        assert len(there) == min(most, 9 - at)


def test_gathers_in_a_row_are_ahead_as_one_and_block_no_op() -> None:
    made = Traced()
    first = made.op(made.x, us=4.0)
    rows = [made.gather(made.view(made.gather(made.x, us=3.0)), us=3.0) for _ in range(8)]
    ops = [made.op(first)]
    for each in rows:
        ops.append(made.op(ops[-1], each))
    order = made.ordered(ops[-1])
    inner = [begun(begun(row).args[0].args[0]) for row in rows]  # type: ignore[union-attr, arg-type]
    # The second of a row begins when the first is over: behind the op that runs beside it.
    assert order.index(inner[0]) < order.index(first) < order.index(begun(rows[0]))
    for at, op in enumerate(ops[1:]):
        here = order.index(op)
        there = [row for row, first in zip(rows, inner, strict=True) if order.index(first) < here]
        assert len(there) - at <= 7


def test_what_is_to_be_scattered_is_not_left_waiting_without_end() -> None:
    made = Traced()
    op, needed = made.op(made.x), made.x
    gradients = []
    for _ in range(8):  # the stream of the collectives is busy all the time
        gradients.append(made.scatter(op, us=5.0))
        needed = made.collective(collective.all_reduce.default, op)
        op = made.op(op, needed)
    order = made.ordered(op, *gradients)
    places = [order.index(begun(each)) for each in gradients]
    assert places == sorted(places)
    assert sum(place > order.index(op) for place in places) <= 3


def test_an_operand_goes_when_its_collective_is_over() -> None:
    made = Traced()
    first = made.op(made.x)
    reduced = made.scatter(first, us=5.0)
    second = made.op(first)
    third = made.op(second)
    order = made.ordered(made.view(reduced), third)
    assert order.index(second) < order.index(reduced) < order.index(third)


def test_a_collective_that_waits_itself_is_an_op() -> None:
    made = Traced()
    first = made.op(made.x)
    reduced = made.scatter(first, us=5.0)
    exchanged = made.exchange(first, us=20.0)
    drawn = [made.graph.call_function(aten.rand_like.default, (made.x,)) for _ in range(2)]
    second = made.op(exchanged, drawn[1])
    gathered = made.gather(made.x, us=5.0)
    third = made.op(second, drawn[0], gathered)
    order = made.ordered(third, reduced)
    assert [node for node in order if node in (exchanged, *drawn, second, third)] == [
        exchanged,
        *drawn,
        second,
        third,
    ]
    assert order.index(begun(gathered)) < order.index(second)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_any_graph_stays_one_that_can_run(seed: int, timed: bool) -> None:
    draw = random.Random(seed)
    made = Traced()
    nodes = [made.x]
    for _ in range(60):
        operands = draw.sample(nodes[-6:], min(len(nodes), draw.randint(1, 2)))
        us = draw.choice([1.0, 7.0, 30.0])
        match draw.randrange(5):
            case 0:
                nodes.append(made.gather(operands[0], us))
            case 1:
                nodes.append(made.scatter(operands[0], us))
            case 2:
                nodes.append(made.view(operands[0]))
            case 3:
                nodes.append(made.exchange(operands[0], us))
            case _:
                nodes.append(made.op(*operands, us=us))
    ops = [node for node in nodes if made.took.get(node, NO_TIME).op_us]
    coming = [node for node in made.took if made.took[node].comm_us]
    unread = [node for node in nodes if not node.users]
    order = made.ordered(*unread, timed=timed)  # which checks that operands are before readers
    assert [node for node in order if node in ops] == ops
    assert timed or [node for node in order if node in coming] == coming
