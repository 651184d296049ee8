"""What is held of calls, and which are refused."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from shardprop.cost.compute import ComputeCost, cost, work_of
from shardprop.cost.compute.work import work_in
from shardprop.errors import ShardpropError
from shardprop.support.cache import stats_of_maps

from .calls import aten, meta

A, B, C = meta(6, 10), meta(10, 4), meta(6, 4)
I64 = torch.int64
# torch.Size would refuse them.
BELOW_0: Any = (-1, 2)


def priced(compute: ComputeCost, *calls: tuple[Any, ...]) -> int:
    """How many of the calls are not known yet."""
    with mock.patch.object(cost, "work_in", wraps=work_in) as pricing:
        for call in calls:
            compute.us(*call)
    return pricing.call_count


def test_a_call_is_priced_once() -> None:
    compute = ComputeCost("h100-nvlink")
    mm: tuple[Any, ...] = (aten.mm.default, (A, B), {}, C)
    assert priced(compute, mm, mm, (aten.mm.default, [A], {"mat2": B}, [C])) == 1
    assert priced(compute, mm, (aten.mm.default, (A, A), {}, C)) == 1


def test_prices_are_held_by_what_they_depend_on() -> None:
    compute = ComputeCost("h100-nvlink")
    add = aten.add.Tensor
    assert priced(compute, (add, (A, 1.0), {}, A), (add, (A, 2), {"alpha": 3}, A)) == 1
    # Which argument a tensor is, its type, whether it is expanded, a flag that counts.
    place = aten.index.Tensor
    nothing = meta(10, dtype=I64)
    assert (
        priced(compute, (place, (A, [nothing]), {}, A), (place, (A, [None, nothing]), {}, A)) == 1
    )
    half = meta(6, 10, dtype=torch.float16)
    assert (
        priced(compute, (add, (half, 1.0), {}, A), (add, (A._replace(stride=(0, 1)), 1), {}, A))
        == 2
    )
    put, rows = aten.index_put_.default, meta(10, 10)
    calls: list[tuple[Any, ...]] = [
        (put, (A, [nothing], rows, adds), {}, A) for adds in (False, True, False)
    ]
    assert priced(compute, *calls) == 2
    query = meta(1, 2, 3, 4)
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    calls = [
        (attention, (query, query, query, 0.0, causal), {}, [query, meta(1, 2, 3)])
        for causal in (False, True, True)
    ]
    assert priced(compute, *calls) == 2


def test_what_is_held_is_bounded_and_listed() -> None:
    compute = ComputeCost("h100-nvlink")
    with mock.patch.object(compute._prices, "_capacity", 3):
        for size in range(10):
            compute.us(aten.neg.default, (meta(size),), {}, meta(size))
    assert len(compute._prices) == 3
    assert stats_of_maps()["op prices"].entries >= 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ((aten.mm, (A, B), {}, C), "Expected an overload of an op such as torch.ops.aten.mm.de"),
        ((torch.mm, (A, B), {}, C), "Expected an overload of an op such as"),
        ((aten.mm.default, (A, B, C), {}, C), "aten.mm.default: Expected at most 2 positional arg"),
        ((aten.mm.default, (A,), {"other": B}, C), "aten.mm.default: other: Expected an argument"),
        (
            (aten.mm.default, (A, B), {"mat2": B}, C),
            "mat2: Expected an argument of .* got it twice",
        ),
        ((aten.mm.default, (A,), {}, C), "aten.mm.default: Expected a TensorMeta for mat2, got no"),
        ((aten.mm.default, (A, torch.ones(10, 4)), {}, C), "mat2: Expected TensorMeta.*a Tensor"),
        ((aten.mm.default, (A, B), {}, torch.ones(6, 4)), "outputs: Expected TensorMeta, a sequ"),
        ((aten.mm.default, (A, B), {}, ["x"]), "outputs: Expected TensorMeta, a sequence"),
        ((aten.neg.default, (A._replace(shape=BELOW_0),), {}, A), "self: Expected sizes that are"),
        ((aten.neg.default, (A._replace(stride=(1,)),), {}, A), "self: Expected a stride for each"),
        ((aten.matmul.default, (A, B), {}, None), "Expected a TensorMeta for output 0, got none"),
        (
            (aten.mm.default, (A, meta()), {}, C),
            "aten.mm.default: Expected arguments and local shapes",
        ),
        (
            (aten.convolution.default, (A, A), {}, A),
            r"got tensors of \[\(6, 10\), \(6, 10\)\]: KeyError: 'transposed'",
        ),
        (
            (aten.einsum.default, ("ij,jk->ik", [A]), {}, C),
            r"aten.einsum.default: Expected shapes for the equation 'ij,jk->ik', got \[\(6, 10\)\]",
        ),
        (
            (aten._efficient_attention_forward.default, (A, A, A, None, None, None), {}, [A, A]),
            "Expected arguments and local shapes that its flop formula takes, got .*Error: ",
        ),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(call: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ShardpropError, match=message):
        work_of(*call)


def test_sizes_that_are_expressions_are_refused() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    tensor = mode.from_tensor(torch.ones(6, 10))
    symbolic = A._replace(shape=tensor.shape, stride=tensor.stride())
    with pytest.raises(
        ShardpropError, match=r"aten.neg.default: self: Expected sizes that are int"
    ):
        ComputeCost("h100-nvlink").us(aten.neg.default, (symbolic,), {}, A)
