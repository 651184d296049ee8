"""Ops of a running model found in its program."""

from __future__ import annotations

from typing import Any

import torch

from shardprop._torch import TensorMeta
from shardprop.planning.models.node_matching import Matcher
from shardprop.planning.models.program import Node, Program, Ref

aten = torch.ops.aten
META = TensorMeta(torch.Size([4, 4]), (4, 1), torch.float32)


def program(*calls: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> Program:
    nodes = [Node(0, "x", "input", "", (META,))]
    for op, args, kwargs in calls:
        index = len(nodes)
        nodes.append(Node(index, f"n{index}", "op", "", (META,), op, args, kwargs))
    return Program(tuple(nodes), {}, {}, (0,), (), (), {})


X = Ref(0)


def test_an_op_is_found_by_operands_and_literals() -> None:
    matcher = Matcher(program((aten.mul.Scalar, (X, 2), {}), (aten.mul.Scalar, (X, 3), {})))
    found = matcher.find(aten.mul.Scalar, (X, 3), {})
    assert found is not None
    assert found.index == 2
    assert matcher.find(aten.mul.Scalar, (X, 4), {}) is None
    assert matcher.find(aten.mul.Scalar, (Ref(1), 3), {}) is None
    assert matcher.find(aten.div.Scalar, (X, 3), {}) is None


def test_alike_ops_are_taken_in_turn_and_start_over() -> None:
    call: Any = (aten.view.default, (X, [16]), {})
    matcher = Matcher(program(call, call))

    def index() -> int:
        found = matcher.find(aten.view.default, (X, [16]), {})
        assert found is not None
        return found.index

    assert [index(), index(), index()] == [1, 2, 1]
    matcher.restart()
    assert index() == 1


def test_the_device_does_not_matter() -> None:
    matcher = Matcher(
        program((aten._to_copy.default, (X,), {"dtype": torch.float64, "device": "cpu"}))
    )
    assert matcher.find(aten._to_copy.default, (X,), {"dtype": torch.float64, "device": "cuda"})
    assert matcher.find(aten._to_copy.default, (X,), {"dtype": torch.float16}) is None


def test_operands_in_lists_are_looked_into() -> None:
    matcher = Matcher(program((aten.cat.default, ([X, X], 1), {})))
    assert matcher.find(aten.cat.default, ([X, X], 1), {}) is not None
    assert matcher.find(aten.cat.default, ([X], 1), {}) is None
