"""Which dim of a tensor gets which word."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shardprop.verification.discover.patterns import Item, Pattern, counted_dims, named_dims, place

from .seen import seen

aten = torch.ops.aten
REST = Item("rest")


def _words(pattern: Pattern, sizes: tuple[int, ...], **arguments: Any) -> list[str] | None:
    observation = seen(aten.relu.default, [sizes, sizes], [], **arguments)
    roles = place(pattern, observation, 0)
    return None if roles is None else [f"{item.key or item.kind}{number}" for item, number in roles]


def test_rest_is_counted_from_the_right() -> None:
    pattern = Pattern((REST, Item("name", "a")))
    assert _words(pattern, (2, 3, 4)) == ["rest1", "rest0", "a0"]
    assert _words(pattern, (4,)) == ["a0"]
    assert _words(pattern, ()) is None


def test_a_named_dim_lies_where_the_argument_says() -> None:
    pattern = Pattern((REST, Item("name", "n", "@dim")))
    assert _words(pattern, (2, 3, 4), dim=0) == ["n0", "rest1", "rest0"]
    assert _words(pattern, (2, 3, 4), dim=-1) == ["rest1", "rest0", "n0"]
    assert _words(pattern, (2, 3), dim=2) is None


def test_an_argument_counts_dims() -> None:
    pattern = Pattern((REST, Item("name", "n", "#shape")))
    assert _words(pattern, (2, 3, 4), shape=[3, 4]) == ["rest0", "n0", "n1"]
    assert _words(pattern, (4,), shape=[3, 4]) is None


def test_an_operand_may_lack_first_dims_of_plain_names() -> None:
    pattern = Pattern((Item("name", "a"), Item("name", "b")))
    assert _words(pattern, (3,)) == ["b0"]
    assert _words(pattern, (2, 3, 4)) is None


@pytest.mark.parametrize(
    ("value", "ndim", "dims"),
    [
        (-1, 3, [2]),
        ([0, -1], 3, [0, 2]),
        (None, 2, [0, 1]),
        ([], 2, [0, 1]),
        (0, 0, []),
        (3, 3, None),
        ([0, 0], 2, None),
        (True, 2, None),
        (0.5, 2, None),
    ],
)
def test_named_dims(value: Any, ndim: int, dims: list[int] | None) -> None:
    assert named_dims(value, ndim) == dims


@pytest.mark.parametrize(("value", "count"), [(2, 2), ([5, 6], 2), (-1, None), (None, None)])
def test_counted_dims(value: Any, count: int | None) -> None:
    assert counted_dims(value) == count
