"""What torch reads off an op's schema."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shardprop.model.op_traits import traits_of

from ..custom_ops import ops

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "has_specs"),
    [
        (aten.add.Tensor, True),
        (aten.native_layer_norm.default, True),
        (aten.split.Tensor, True),
        (ops.nothing.default, False),
        (aten._foreach_add_.List, False),
    ],
    ids=str,
)
def test_torch_places_the_outputs_of_an_op_that_returns_tensors(op: Any, has_specs: bool) -> None:
    assert traits_of(op).returns_tensors == has_specs
