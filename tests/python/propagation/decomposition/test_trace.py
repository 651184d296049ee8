"""Operands that are strided: a trace of contiguous tensors goes on as torch's propagation would."""

from __future__ import annotations

import pytest
import torch

from shardprop.propagation.decomposition.program import Declined

from ...specs import meta_of
from .traced import program_of

ROWS = meta_of((8, 4))
COLUMNS = ROWS._replace(stride=(1, 8))


def test_what_comes_of_a_strided_operand_is_strided() -> None:
    program = program_of(lambda x: torch.neg(torch.neg(x)).t(), COLUMNS)
    assert [meta.stride for meta in program.metas] == [(1, 8), (1, 8), (1, 8), (8, 1)]


def test_a_view_that_a_strided_result_does_not_have_is_declined() -> None:
    def flat(x: torch.Tensor) -> torch.Tensor:
        return torch.neg(x).view(-1)

    assert len(program_of(flat, ROWS).calls) == 2
    with pytest.raises(Declined, match=r"aten\.view\.default on strided operands"):
        program_of(flat, COLUMNS)
