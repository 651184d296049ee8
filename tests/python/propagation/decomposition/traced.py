"""Programs traced from functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed.device_mesh import DeviceMesh

from shardprop import _torch
from shardprop._torch import TensorMeta
from shardprop.propagation.decomposition.program import Program, Ref
from shardprop.propagation.decomposition.trace import trace


def one_rank() -> DeviceMesh:
    """The mesh on which torch decides the calls inside a decomposition."""
    return _torch.decomposition_mesh("cpu")


def program_of(function: Callable[..., Any], *operands: TensorMeta) -> Program:
    args = tuple(map(Ref, range(len(operands))))
    return trace(function, args, {}, operands, one_rank())
