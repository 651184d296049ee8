"""What the price of a plan depends on, as a value: lines over wire bytes, and the memory.

A topology (see topology/topology.py) becomes one of these for each mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import _core

__all__ = ["COLLECTIVES", "CostModel", "GroupCosts", "LinearPrice", "Price"]

COLLECTIVES = _core.COLLECTIVES

# (collective, mesh dims, ranks, wire bytes per rank) -> microseconds
Price = Callable[[str, tuple[int, ...], int, int], float]


@dataclass(frozen=True)
class LinearPrice:
    """Microseconds of one collective over one group: ``fixed_us + us_per_byte * wire bytes``.

    Attributes:
        fixed_us: Microseconds whatever is sent: the launch, and the hops of an empty message.
        us_per_byte: Microseconds for each byte that a rank sends.
    """

    fixed_us: float
    us_per_byte: float


@dataclass(frozen=True)
class GroupCosts:
    """The collectives of one mesh dim, or of several that have a process group in common.

    Attributes:
        mesh_dims: Ascending.
        lines: In the order of `COLLECTIVES`.
    """

    mesh_dims: tuple[int, ...]
    lines: tuple[LinearPrice, ...]


@dataclass(frozen=True)
class CostModel:
    """All that the price of a plan on one mesh depends on.

    Attributes:
        sizes: Of the mesh dims.
        groups: Each mesh dim of size 2 and more alone, then the groups of several.
        kernel_us: Microseconds of a local kernel beside the memory it touches.
        memory_us_per_byte: Microseconds for each byte that a local kernel reads or writes.
        all_to_all_gathers: An all-to-all is made of an all-gather, as torch does over gloo.
        callback: Prices collectives instead of the lines.
    """

    sizes: tuple[int, ...]
    groups: tuple[GroupCosts, ...]
    kernel_us: float
    memory_us_per_byte: float
    all_to_all_gathers: bool = False
    callback: Price | None = None
