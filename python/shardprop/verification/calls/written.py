"""Calls written by hand, of ops that torch's samples do not come to, or only with other arguments
than a rule can be put to the test on."""

from __future__ import annotations

from collections.abc import Iterator

from ..._torch import OpOverload
from .call import Call
from .values import Table, Values
from .written_layers import LAYERS
from .written_random import RANDOM
from .written_tensors import TENSORS

__all__ = ["WRITTEN", "written"]

WRITTEN: Table = {**TENSORS, **LAYERS, **RANDOM}


def written(op: OpOverload, seed: int = 0) -> Iterator[Call]:
    """The calls of an op that are written by hand; none of most ops."""
    make = WRITTEN.get(str(op))
    if make is None:
        return
    for number, (args, kwargs) in enumerate(make(Values(seed))):
        yield Call(op, args, kwargs, f"written by hand, {number}")
