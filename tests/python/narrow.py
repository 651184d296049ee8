"""Narrows what a test knows more about than its type tells."""

from __future__ import annotations

from typing import TypeVar

from torch._ops import OpOverload
from torch.distributed._local_tensor import LocalTensor
from torch.distributed.tensor import DTensor

from shardprop.propagation.route import route_of
from shardprop.rules.rule import RowsRule

T = TypeVar("T")


def known(value: T | None) -> T:
    """What is there."""
    assert value is not None
    return value


def sharded(value: object) -> DTensor:
    """The result of an op on DTensors, which torch's annotations call a plain tensor."""
    assert isinstance(value, DTensor)
    return value


def per_rank(value: object) -> LocalTensor:
    """What all ranks hold, in LocalTensorMode."""
    assert isinstance(value, LocalTensor)
    return value


def rows_rule(op: OpOverload) -> RowsRule:
    """The rule of an op that is decided by rows."""
    rule = route_of(op).rule
    assert isinstance(rule, RowsRule)
    return rule
