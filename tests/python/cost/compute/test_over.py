"""Many local shapes at once: row by row what one call costs, each distinct row priced once."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from shardprop.cost.compute import ComputeCost, cost
from shardprop.cost.compute.work import work_in
from shardprop.errors import ShardpropError

from .calls import aten, meta, metas

BF16, I64 = torch.bfloat16, torch.int64
SIZES = (1, 2, 3, 4)


def rows(*shapes: tuple[int, ...]) -> np.ndarray:
    return np.array(shapes, dtype=np.int64).reshape(len(shapes), -1)


def local(like: Any, shape: tuple[int, ...]) -> Any:
    """A local tensor that is expanded in the dims in which the whole one is."""
    tensor = torch.empty(shape, dtype=like.dtype, device="meta")
    stride = [0 if s == 0 else own for s, own in zip(like.stride, tensor.stride(), strict=True)]
    return like._replace(shape=tensor.shape, stride=tuple(stride))


def products() -> list[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Local shapes of an mm under every split of its three dims, some of them twice."""
    found = []
    for m, k, n in itertools.product(SIZES, SIZES, SIZES):
        m, k, n = 4096 // m, 4096 // k, 1024 // n
        found.append(((m, k), (k, n), (m, n)))
    return found + found[::3]


def test_a_row_costs_what_its_call_costs() -> None:
    compute = ComputeCost("h100-nvlink")
    whole = meta(4096, 4096, dtype=BF16), meta(4096, 1024, dtype=BF16)
    out = meta(4096, 1024, dtype=BF16)
    arrays = [rows(*column) for column in zip(*products(), strict=True)]
    args: Any = (aten.mm.default, whole, {}, arrays[:2], arrays[2:])
    found = compute.over(*args, outputs=out)
    one_by_one = [
        ComputeCost("h100-nvlink").us(
            aten.mm.default, (local(whole[0], a), local(whole[1], b)), {}, local(out, c)
        )
        for a, b, c in products()
    ]
    assert found.dtype == np.float64
    assert found.tolist() == one_by_one
    assert len(set(one_by_one)) > 20
    # Outputs have the type of the first operand, if none is said.
    assert compute.over(*args).tolist() == one_by_one


def test_lists_absent_outputs_and_expanded_operands_are_priced_row_by_row() -> None:
    a, b = meta(8, 6), torch.empty(6).expand(8, 6)
    calls = [(8, 6), (4, 6), (8, 3), (4, 6)]
    args = ([a, metas(b), None],)
    shapes = rows(*calls)
    outputs = [meta(8, 6), None, meta(8, dtype=I64)]
    compute = ComputeCost("cpu-gloo")
    op = aten.index.Tensor
    found = compute.over(
        op, (a, args[0]), {}, [shapes] * 3, [shapes, None, shapes[:, :1]], outputs=outputs
    )
    expected = [
        compute.us(
            op,
            (local(a, shape), [local(a, shape), local(metas(b), shape), None]),
            {},
            [local(a, shape), None, meta(shape[0], dtype=I64)],
        )
        for shape in calls
    ]
    assert found.tolist() == expected


def test_each_distinct_row_is_priced_once() -> None:
    compute = ComputeCost("h100-nvlink")
    a, b, c = (rows(*column) for column in zip(*products(), strict=True))
    whole = meta(4096, 4096), meta(4096, 1024)
    with mock.patch.object(cost, "work_in", wraps=work_in) as priced:
        compute.over(aten.mm.default, whole, {}, [a, b], [c])
        assert priced.call_count == len(set(products()))
        compute.over(aten.mm.default, whole, {}, [a, b], [c])
        compute.us(aten.mm.default, whole, {}, meta(4096, 1024))
        assert priced.call_count == len(set(products()))


def test_views_are_free_in_every_row() -> None:
    shapes = rows((4, 2), (2, 2), (1, 2))
    found = ComputeCost("h100-nvlink").over(
        aten.t.default, (meta(4, 2),), {}, [shapes], [shapes[:, ::-1]]
    )
    assert found.tolist() == [0.0, 0.0, 0.0]


def test_scalars_have_no_dims() -> None:
    none = np.zeros((3, 0), dtype=np.int64)
    compute = ComputeCost("h100-nvlink")
    found = compute.over(aten.add.Tensor, (meta(), meta()), {}, [none, none], [none])
    assert found.tolist() == [compute.us(aten.add.Tensor, (meta(), meta()), {}, meta())] * 3


@pytest.mark.parametrize(
    ("operands", "outputs", "message"),
    [
        ([], [], "one number of rows, got no array"),
        ([rows((2, 3)), rows((3, 4), (3, 4))], [], "one number of rows, got 1 and 2"),
        ([[(2, 3)]], [], r"operand_shapes\[0\]: Expected an array of integers \[rows, ndim\]"),
        ([rows((2, 3)).astype(float)], [], r"operand_shapes\[0\]: .*got 'float64 \(1, 2\)'"),
        ([rows((2, -3))], [], r"operand_shapes\[0\]: Expected sizes of at least 0, got -3"),
        ([rows((2, 3))], [], r"operand_shapes: Expected arrays for tensors of \[2, 2\] dims"),
        ([rows((2, 3)), rows((3,))], [], r"tensors of \[2, 2\] dims, got \[2, 1\]"),
        ([rows((2, 3)), rows((3, 4))], [], r"output_shapes: .*outputs of \[2\] dims, got \[\]"),
        ([rows((2, 3)), rows((3, 4))], [None], r"outputs of \[2\] dims, got \[None\]"),
    ],
)
def test_arrays_that_are_not_of_the_call_are_refused(
    operands: Any, outputs: Any, message: str
) -> None:
    with pytest.raises(ShardpropError, match=f"^aten.mm.default: .*{message}"):
        ComputeCost("h100-nvlink").over(
            aten.mm.default,
            (meta(2, 3), meta(3, 4)),
            {},
            operands,
            outputs,
            outputs=meta(2, 4),
        )


def test_a_factory_has_to_say_what_it_makes() -> None:
    compute = ComputeCost("h100-nvlink")
    shapes = rows((4, 4), (2, 4))
    found = compute.over(aten.ones.default, ([4, 4],), {}, [], [shapes], outputs=meta(4, 4))
    assert found[0] > found[1] > 1.4
    with pytest.raises(ShardpropError, match="without tensor operands to be given for their dty"):
        compute.over(aten.ones.default, ([4, 4],), {}, [], [shapes])
