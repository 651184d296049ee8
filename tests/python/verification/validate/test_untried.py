"""Ops of which no call says anything, told by what they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shardprop.verification.validate.untried import why_untried

aten = torch.ops.aten


@pytest.mark.parametrize(
    "op, reason",
    [
        (aten.randn_like.default, "draws random numbers"),
        (aten.rand.generator_out, "draws random numbers"),
        (aten.empty_like.default, "uninitialised memory"),
        (aten.size.int, "returns no tensor"),
        (aten.to_sparse.default, "sparse or nested tensors"),
        (aten.coalesce.default, "sparse or nested tensors"),
        (aten.fbgemm_linear_fp16_weight.default, "packed or quantized operands"),
        (aten.quantized_gru_cell.default, "packed or quantized operands"),
        (aten.cudnn_batch_norm.default, "no kernel for the CPU"),
        (aten.cudnn_batch_norm_backward.out, "no kernel for the CPU"),
        (aten._thnn_fused_lstm_cell_backward.default, "no kernel for the CPU"),
        (aten.retain_grad.default, "bookkeeping of autograd, vmap or storage"),
        (aten.mm.default, None),
        (aten.add_.Tensor, None),
        (aten._foreach_add_.Scalar, None),
    ],
    ids=str,
)
def test_what_there_is_nothing_to_try_of_is_told_by_what_it_is(op: Any, reason: str | None) -> None:
    assert why_untried(op) == reason
