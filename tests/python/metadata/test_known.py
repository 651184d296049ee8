"""Answers of fake tensors that are held: for which calls, and what makes them be asked anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch.distributed.tensor._op_schema import OpSchema
from torch.nn.attention import SDPBackend, sdpa_kernel

from shardprop import metadata
from shardprop.metadata import class_of, fake_tensors, output_meta
from shardprop.metadata.classes import FAKE_TENSORS

from ..parity.opinfo_recorder import RecordedCall
from ..parity.registry import find_op
from ..parity.sketch import Sketch
from .calls import schema_of

IMAGES, KERNELS = Sketch((2, 3, 8, 8)), Sketch((4, 3, 3, 3))


def convolution(device: str = "cpu", images: Sketch = IMAGES, kernels: Sketch = KERNELS) -> Any:
    rest = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    call = RecordedCall("aten.convolution.default", (images, kernels, *rest), {})
    return schema_of(call, device)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OpSchema]]:
    """The calls that fake tensors are made for."""
    metadata.forget()
    compute, seen = fake_tensors._compute, []

    def seen_and_computed(schema: OpSchema) -> Any:
        seen.append(schema)
        return compute(schema)

    monkeypatch.setattr(fake_tensors, "_compute", seen_and_computed)
    yield seen
    metadata.forget()


def test_a_call_is_computed_once(computed: list[OpSchema]) -> None:
    assert class_of(torch.ops.aten.convolution.default).name == FAKE_TENSORS
    first = output_meta(convolution())
    assert output_meta(convolution()) == first
    assert len(computed) == 1


def test_other_operands_are_computed_anew(computed: list[OpSchema]) -> None:
    turned = Sketch((2, 3, 8, 8), stride=(192, 1, 24, 3))
    shorts = [Sketch(each.shape, torch.bfloat16) for each in (IMAGES, KERNELS)]
    for schema in (convolution(), convolution(images=turned), convolution("cpu", *shorts)):
        output_meta(schema)
    assert len(computed) == 3


@pytest.mark.parametrize(
    "setting",
    [
        lambda: torch.backends.cudnn.flags(enabled=False),
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.device("meta"),
    ],
    ids=["cudnn", "inference mode", "autocast", "default device"],
)
def test_under_another_setting_it_is_computed_anew(setting: Any, computed: list[OpSchema]) -> None:
    around: list[AbstractContextManager[object]] = [nullcontext(), setting()]
    for context in around:
        with context:
            output_meta(convolution())
    assert len(computed) == 2


def test_an_error_is_not_held(computed: list[OpSchema]) -> None:
    wrong = convolution(images=Sketch((2, 5, 8, 8)))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            output_meta(wrong)
    assert len(computed) == 2


def test_an_op_of_the_programs_own_is_asked_each_time(computed: list[OpSchema]) -> None:
    """Its kernel may read what it likes."""
    with torch.library._scoped_library("shardprop_known_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: torch.cat([x, x]), "Meta")
        op = torch.ops.shardprop_known_test.twice.default
        schema = OpSchema(op, convolution().args_schema[:1], {})
        for _ in range(2):
            output_meta(schema)
    assert len(computed) == 2


def attention() -> OpSchema:
    heads = convolution(images=Sketch((2, 4, 8, 16))).args_schema[:1] * 3
    return OpSchema(find_op("aten.scaled_dot_product_attention.default"), heads, {})


def test_a_composite_op_is_asked_anew_under_what_it_chooses_by(computed: list[OpSchema]) -> None:
    around: list[AbstractContextManager[object]]
    around = [nullcontext(), nullcontext(), sdpa_kernel(SDPBackend.MATH), torch.inference_mode()]
    for context in around:
        with context:
            output_meta(attention())
    assert len(computed) == 3
