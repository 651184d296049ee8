"""What the price of a plan depends on, as a value: prices over wire bytes, and the memory.

A topology (see topology/topology.py) becomes one of these for each mesh.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from .. import _core

__all__ = [
    "COLLECTIVES",
    "CostModel",
    "GroupCosts",
    "LinearPrice",
    "PiecewisePrice",
    "Price",
    "PricePiece",
]

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

    def us(self, wire_bytes: float) -> float:
        """The price of so many bytes."""
        return self.fixed_us + wire_bytes * self.us_per_byte

    @property
    def pieces(self) -> tuple[PricePiece, ...]:
        """The one that it is."""
        return (PricePiece(0.0, self.fixed_us, self.us_per_byte),)


class PricePiece(NamedTuple):
    """A line that holds from some size on: ``fixed_us + us_per_byte * wire bytes``.

    Attributes:
        from_bytes: The least wire bytes that it is for.
        fixed_us: What the line has at 0 bytes.
        us_per_byte: Microseconds for each byte that a rank sends.
    """

    from_bytes: float
    fixed_us: float
    us_per_byte: float


@dataclass(frozen=True)
class PiecewisePrice:
    """Microseconds of one collective over one group, a line for each range of sizes.

    From one piece to the next the price may fall as well as rise.

    Attributes:
        pieces: By ascending `from_bytes`, the first from 0.
    """

    pieces: tuple[PricePiece, ...]

    def us(self, wire_bytes: float) -> float:
        """The price of so many bytes."""
        after = bisect_right(self.pieces, wire_bytes, key=lambda piece: piece.from_bytes)
        piece = self.pieces[after - 1]
        return piece.fixed_us + wire_bytes * piece.us_per_byte


@dataclass(frozen=True)
class GroupCosts:
    """The collectives of one mesh dim, or of several that have a process group in common.

    Attributes:
        mesh_dims: Ascending.
        lines: In the order of `COLLECTIVES`.
    """

    mesh_dims: tuple[int, ...]
    lines: tuple[LinearPrice | PiecewisePrice, ...]


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
