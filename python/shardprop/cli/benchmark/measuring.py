"""Both sides in turns on one question, their answers compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import torch

from ... import _torch
from ..._torch import DeviceMesh, OpSchema, OutputSharding
from ...errors import ShardpropError
from ...propagation import propagator
from ...rules import torch_registry
from ..decisions import answer_of, clear_every_cache
from .cases import CASES

__all__ = ["KINDS", "Measured", "measure"]

KINDS = ("first", "again")
"""A question that meets empty caches; one that was asked before and that torch has forgotten."""

# One call of ours is too short to time by itself.
_OUR_CALLS = {"first": 1, "again": 20}


@dataclass(frozen=True)
class Measured:
    """One question, and what it took to answer it.

    Attributes:
        op: A name in `CASES`.
        mesh: Sizes of the mesh dims.
        kind: One of `KINDS`.
        torch_us: Median microseconds of a decision by torch alone.
        shardprop_us: The same by shardprop.
        rounds: How often torch was timed; shardprop, at least as often.
        equal: Are the two decisions the same? Where not, the times mean nothing.
    """

    op: str
    mesh: tuple[int, ...]
    kind: str
    torch_us: float
    shardprop_us: float
    rounds: int
    equal: bool

    @property
    def ratio(self) -> float:
        """How many times longer torch takes."""
        return self.torch_us / self.shardprop_us

    @property
    def mesh_text(self) -> str:
        """As "2x4"."""
        return "x".join(map(str, self.mesh))


Decide = Callable[[OpSchema], OutputSharding]


def measure(op: str, mesh: DeviceMesh, kind: str, rounds: int) -> Measured:
    """Time both sides in turns, so that a busy machine is busy for both.

    Timed is the propagation alone, output metadata included: from an op's schema to the sharding
    that torch's dispatcher executes. Policy ``"torch"`` decides on our side.

    Raises:
        ShardpropError: shardprop is enabled: then torch has our prices.
    """
    if propagator.is_enabled():
        raise ShardpropError("Expected shardprop to be disabled while torch is timed.")
    overload, args = CASES[op](mesh)
    schema = torch_registry.op_schema(overload, args, {})
    torch_times, our_times = [], []
    with _one_thread():
        clear_every_cache()
        sides = (_torch.torch_propagate, propagator.propagate_sharding)
        theirs, ours = (answer_of(decide, schema) for decide in sides)
        for _ in range(rounds):
            torch_times.append(_us(_torch.torch_propagate, schema, kind, 1))
            our_times.append(_us(propagator.propagate_sharding, schema, kind, _OUR_CALLS[kind]))
    return Measured(
        op,
        tuple(mesh.shape),
        kind,
        statistics.median(torch_times),
        statistics.median(our_times),
        rounds,
        theirs == ours,
    )


def _us(decide: Decide, schema: OpSchema, kind: str, calls: int) -> float:
    """Microseconds of one decision. torch forgets its prices in neither case but the first."""
    if kind == "first":
        clear_every_cache()
    else:
        decide(schema)  # the other side has been at the processor's caches meanwhile
    start = perf_counter()
    for _ in range(calls):
        decide(schema)
    return (perf_counter() - start) * 1e6 / calls


@contextmanager
def _one_thread() -> Iterator[None]:
    """On a busy machine a second thread makes the first one wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
