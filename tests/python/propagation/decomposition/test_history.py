"""What torch's cache of decisions tells apart inside a decomposition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from shardprop.propagation.decomposition.history import depends_on_order

from ...specs import meta_of
from .traced import program_of

Function = Callable[..., Any]

IN_KEY: dict[str, Function] = {
    "one call": lambda x, y: torch.mul(x, y),
    "equal calls": lambda x, y: (torch.mul(x, y), torch.mul(x, y)),
    "a dim that the registration names": lambda x, y: (x.sum(0), x.sum(1)),
    "other shapes": lambda x, y: (x[:2].neg(), x[:4].neg()),
}
NOT_IN_KEY: dict[str, Function] = {
    "a number that the registration does not name": lambda x, y: (x.topk(2)[0], x.topk(3)[0]),
    "a keyword that it does not name": lambda x, y: (x.add(y, alpha=2), x.add(y, alpha=3)),
    "a tensor by keyword": lambda x, y: torch.mul(x, y, out=x),
}


@pytest.mark.parametrize("name", IN_KEY)
def test_calls_that_the_key_tells_apart_come_in_any_order(name: str) -> None:
    assert not depends_on_order(program_of(IN_KEY[name], meta_of((8, 8)), meta_of((8, 8))))


@pytest.mark.parametrize("name", NOT_IN_KEY)
def test_the_first_of_calls_that_share_a_key_decides_the_others(name: str) -> None:
    assert depends_on_order(program_of(NOT_IN_KEY[name], meta_of((8, 8)), meta_of((8, 8))))
