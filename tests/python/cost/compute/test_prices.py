"""Microseconds, by hand: a launch, and the longer of computing and moving bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from shardprop.cost.compute import ComputeCost
from shardprop.cost.topology import (
    Compute,
    Link,
    Memory,
    Node,
    PerCollective,
    Topology,
    load_topology,
)
from shardprop.errors import ShardpropError

from .calls import aten, meta

BF16, I64 = torch.bfloat16, torch.int64
# Of h100-nvlink: microseconds, bytes a microsecond, and the part of its peak that it reaches.
LAUNCH, MEMORY, REACHED = 1.4, 2700.0e3, 0.75
H100 = ComputeCost("h100-nvlink")

# A byte costs 1 us and a launch nothing: prices are bytes.
BYTES = ComputeCost(
    Topology(
        "bytes",
        0.0,
        Memory(0.0, 1e-3),
        Node(PerCollective.same(Link(1.0, 1.0))),
        compute=Compute({"float32": 1e9}),
    )
)


def test_a_large_product_takes_as_long_as_its_operations() -> None:
    matrix = meta(4096, 4096, dtype=BF16)
    us = H100.us(aten.mm.default, (matrix, matrix), {}, matrix)
    assert us == pytest.approx(LAUNCH + 2 * 4096**3 / (REACHED * 989e12) * 1e6, rel=1e-12)


def test_a_thin_product_takes_as_long_as_its_bytes() -> None:
    row, matrix = meta(1, 4096, dtype=BF16), meta(4096, 4096, dtype=BF16)
    us = H100.us(aten.mm.default, (row, matrix), {}, row)
    assert us == pytest.approx(LAUNCH + 2 * (4096**2 + 2 * 4096) / MEMORY, rel=1e-12)


def test_products_in_fp8_and_fp32_have_the_rates_of_their_types() -> None:
    fp8, one = meta(4096, 4096, dtype=torch.float8_e4m3fn), meta()
    args = (fp8, fp8, one, one, None, None, BF16)
    us = H100.us(aten._scaled_mm.default, args, {}, meta(4096, 4096, dtype=BF16))
    assert us == pytest.approx(LAUNCH + 2 * 4096**3 / (REACHED * 1979e12) * 1e6, rel=1e-12)
    full = meta(4096, 4096)
    us = H100.us(aten.mm.default, (full, full), {}, full)
    assert us == pytest.approx(LAUNCH + 2 * 4096**3 / (REACHED * 67e12) * 1e6, rel=1e-12)


def test_efficiency_slows_operations_and_not_bytes() -> None:
    document = {
        "launch_us": 1,
        "memory": {"kernel_us": 3, "bandwidth_gb_s": 1000},
        "node": {"within": {"latency_us": 1, "bandwidth_gb_s": 1}},
        "compute": {"peak_tflops": {"float32": 1}, "efficiency": 0.5},
    }
    cost, matrix = ComputeCost(document), meta(1024, 1024)
    us = cost.us(aten.mm.default, (matrix, matrix), {}, matrix)
    assert us == pytest.approx(3 + 2 * 1024**3 / 0.5e6)
    us = cost.us(aten.add.Tensor, (matrix, matrix), {}, matrix)
    assert us == pytest.approx(3 + 3 * 4 * 1024**2 / 1e6)


def test_nothing_to_do_costs_a_launch() -> None:
    none, matrix = meta(0, 64), meta(64, 4096)
    assert H100.us(aten.mm.default, (none, matrix), {}, meta(0, 4096)) == LAUNCH
    assert H100.us(aten.add.Tensor, (none, none), {}, none) == LAUNCH
    zeros = H100.us(aten.mm.default, (meta(8, 0), meta(0, 4)), {}, meta(8, 4))
    assert zeros == pytest.approx(LAUNCH + 8 * 4 * 4 / MEMORY, rel=1e-12)


A, ROW, WIDE = meta(6, 10), meta(10), 60 * 4
TABLE, TOKENS, ROWS = meta(1000, 10), meta(2, 3, dtype=I64), meta(2, 3, 10)
TOKEN_BYTES = 6 * 8


def expanded(*shape: int) -> Any:
    """Along dim 0."""
    return meta(*shape)._replace(stride=(0, *meta(*shape).stride[1:]))


@pytest.mark.parametrize(
    ("op", "args", "outputs", "moved"),
    [
        (aten.add.Tensor, (A, ROW), A, 2 * WIDE + 40),
        (aten.add.Tensor, (A, 2.0), A, 2 * WIDE),
        (aten.add_.Tensor, (A, A), A, 3 * WIDE),
        (aten.mul.Tensor, (A, expanded(6, 10)), A, 2 * WIDE + 40),
        (aten.sum.dim_IntList, (A, [0]), ROW, WIDE + 40),
        (aten._softmax.default, (A, -1, False), A, 2 * WIDE),
        (aten.cat.default, ([A, A, ROW],), meta(13, 10), 2 * WIDE + 40 + 520),
        (
            aten.native_layer_norm.default,
            (A, [10], ROW, ROW, 1e-5),
            [A, meta(6, 1), meta(6, 1)],
            2 * WIDE + 80 + 48,
        ),
        (aten._to_copy.default, (A,), meta(6, 10, dtype=BF16), WIDE + WIDE // 2),
        (aten.copy_.default, (A, A), A, 2 * WIDE),
        (aten.zeros_like.default, (A,), A, WIDE),
        (aten.full.default, ([6, 10], 1.0), A, WIDE),
        (aten._foreach_add_.List, ([A, ROW], [A, ROW]), None, 3 * (WIDE + 40)),
        # rows are picked, and the rest of the table is left alone
        (aten.embedding.default, (TABLE, TOKENS), ROWS, TOKEN_BYTES + 2 * WIDE),
        (aten.embedding.default, (meta(4, 10), TOKENS), ROWS, TOKEN_BYTES + 160 + WIDE),
        (aten.index_select.default, (TABLE, 0, meta(6, dtype=I64)), A, TOKEN_BYTES + 2 * WIDE),
        (aten.index.Tensor, (TABLE, [TOKENS]), ROWS, TOKEN_BYTES + 2 * WIDE),
        (aten.index.Tensor, (TABLE, [None, TOKENS]), meta(1000, 2, 3), TOKEN_BYTES + 24000 + 24000),
        (aten.gather.default, (meta(6, 1000), 1, meta(6, 1, dtype=I64)), meta(6, 1), 48 + 24 + 24),
        (
            aten.nll_loss_forward.default,
            (meta(6, 1000), meta(6, dtype=I64), None, 1, -100),
            [meta(), meta()],
            48 + 24 + 8,
        ),
        (
            aten.nll_loss_backward.default,
            (meta(), meta(6, 1000), meta(6, dtype=I64), None, 1, -100, meta()),
            meta(6, 1000),
            4 + 48 + 4 + 24000,
        ),
        # the gradients of rows are read, added to rows, and the table is filled with zeros
        (
            aten.embedding_dense_backward.default,
            (ROWS, TOKENS, 1000, -1, False),
            TABLE,
            WIDE + TOKEN_BYTES + 2 * WIDE + 40000,
        ),
        (aten.index_put_.default, (TABLE, [TOKENS], ROWS), TABLE, TOKEN_BYTES + 2 * WIDE),
        (aten.index_put_.default, (TABLE, [TOKENS], ROWS, True), TABLE, TOKEN_BYTES + 3 * WIDE),
        (
            aten.index_put.default,
            (TABLE, [TOKENS], ROWS),
            TABLE,
            2 * 40000 + TOKEN_BYTES + 2 * WIDE,
        ),
        (aten.scatter_add_.default, (A, 0, meta(2, 3, dtype=I64), meta(2, 3)), A, 48 + 24 + 48),
        # a view if it can be one, else a copy
        (aten.contiguous.default, (A,), A, 0),
        (aten.contiguous.default, (A._replace(stride=(1, 6)),), A, 2 * WIDE),
        (aten.reshape.default, (A, [60]), meta(60), 0),
        (aten.to.dtype, (A, BF16), meta(6, 10, dtype=BF16), WIDE + WIDE // 2),
    ],
    ids=lambda value: str(value) if isinstance(value, torch._ops.OpOverload) else "",
)
def test_bytes_are_those_read_and_written(
    op: Any, args: Sequence[Any], outputs: Any, moved: int
) -> None:
    assert BYTES.us(op, args, {}, outputs) == moved


def test_an_output_that_is_given_is_not_read() -> None:
    assert BYTES.us(aten.add.out, (A, A), {"out": A}, A) == 3 * WIDE


def test_a_preset_without_rates_is_refused_with_the_way_out() -> None:
    with pytest.raises(ShardpropError) as caught:
        ComputeCost("torch")
    assert str(caught.value) == (
        "topology torch: Expected a compute part, without which no op has a price, got none. Add "
        'one such as "compute": {"peak_tflops": {"float32": 19.5}}, or take a preset that has one: '
        "a100-nvlink, h100-nvlink, b200-nvlink, a100-pcie, cpu-gloo."
    )
    with pytest.raises(ShardpropError, match="topology CallbackTopology: Expected a compute part"):
        ComputeCost(lambda collective, mesh_dims, ranks, wire_bytes: 1.0)
    with pytest.raises(ShardpropError, match="Expected a preset"):
        ComputeCost("h200")


def test_a_topology_may_be_given_as_it_is() -> None:
    matrix = meta(64, 64)
    by_name = H100.us(aten.mm.default, (matrix, matrix), {}, matrix)
    by_value = ComputeCost(load_topology("h100-nvlink"))
    assert by_value.us(aten.mm.default, (matrix, matrix), {}, matrix) == by_name
