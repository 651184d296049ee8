"""When a number that all ranks hold, or a conversion, leaves alone what is pending."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributed.tensor import Partial

from shardprop.rules.pending_partials import keeps_order, passes_conversion, stands_for_itself

INF, NAN = math.inf, math.nan


def _of_two(reduce_op: str, value: float) -> float:
    """What two ranks come to that both hold the number."""
    both = torch.tensor([value, value], dtype=torch.float64)
    reductions = {"sum": both.sum(), "product": both.prod(), "avg": both.mean(), "max": both.max()}
    return float(reductions[reduce_op])


@pytest.mark.parametrize("value", [0, 1, 2.5, -1.0, INF, -INF, NAN])
@pytest.mark.parametrize("reduce_op", ["sum", "product", "avg", "max"])
def test_a_number_stands_for_itself_where_two_of_it_reduce_to_it(
    reduce_op: str, value: float
) -> None:
    reduced = _of_two(reduce_op, value)
    is_itself = reduced == value or (math.isnan(reduced) and math.isnan(value))
    assert stands_for_itself(Partial(reduce_op), torch.float64, value) is is_itself


def test_a_bool_stands_for_itself_and_what_is_no_number_does_not() -> None:
    for reduce_op in ("sum", "product"):
        assert stands_for_itself(Partial(reduce_op), torch.bool, True)
        assert not stands_for_itself(Partial(reduce_op), torch.float32, torch.ones(()))
    assert not stands_for_itself(Partial("bxor"), torch.int64, 0)


DTYPES = (torch.bool, torch.int64, torch.float32, torch.complex64)


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("reduce_op", ["sum", "product"])
def test_what_passes_a_conversion_comes_to_the_same(
    reduce_op: str, source: torch.dtype, to: torch.dtype
) -> None:
    """On some numbers that a conversion changes: where it passes, all agree; else one does not."""
    numbers = [
        torch.tensor(pair, dtype=torch.complex64)
        for pair in ([1.5, 1.5], [1.0, -1.0], [2.0, 3.0], [0.5, 2.0], [1j, 1j], [1.0, 1.0])
    ]
    if not source.is_complex:
        numbers = [each.real for each in numbers if not each.imag.any()]
    parts = [_converted(each, source) for each in numbers]
    agree = [
        torch.equal(
            _converted(_reduced_parts(each, reduce_op), to),
            _reduced_parts(_converted(each, to), reduce_op),
        )
        for each in parts
    ]
    assert passes_conversion(reduce_op, source, to) is all(agree)


def _reduced_parts(parts: torch.Tensor, reduce_op: str) -> torch.Tensor:
    if parts.dtype is torch.bool:
        return _of_bools(parts, reduce_op)
    return parts.sum(dtype=parts.dtype) if reduce_op == "sum" else parts.prod(dtype=parts.dtype)


def _of_bools(parts: torch.Tensor, reduce_op: str) -> torch.Tensor:
    return parts.any() if reduce_op == "sum" else parts.all()


def _converted(parts: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    """Of complex numbers the real part, as torch does with a warning; all but zero are true."""
    takes_part = parts.is_complex() and not to.is_complex and to is not torch.bool
    return (parts.real if takes_part else parts).to(to)


@pytest.mark.parametrize(
    ("source", "to", "keeps"),
    [
        (torch.int32, torch.float16, True),
        (torch.float32, torch.int8, True),
        (torch.float32, torch.uint8, False),
        (torch.uint8, torch.int16, True),
        (torch.uint8, torch.int8, False),  # 200 becomes negative
        (torch.int8, torch.uint16, False),  # -1 becomes the largest
        (torch.int32, torch.int16, False),
        (torch.int16, torch.int32, True),
        (torch.int16, torch.bool, True),
    ],
    ids=str,
)
def test_the_order_of_numbers_in_another_dtype(
    source: torch.dtype, to: torch.dtype, keeps: bool
) -> None:
    assert keeps_order(source, to) is keeps
