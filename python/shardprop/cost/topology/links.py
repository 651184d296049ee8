"""What carries a collective: a latency and a bandwidth for each kind of collective.

Units everywhere: microseconds, bytes, and GB/s of 1e9 bytes a second.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..cost_model import COLLECTIVES, LinearPrice

__all__ = ["Link", "Measured", "PerCollective", "hops", "us_per_byte"]

T = TypeVar("T")
U = TypeVar("U")


def hops(collective: str, ranks: int) -> int:
    """How many times one after the other a message goes from a rank to the next.

    A ring passes each piece on to the ``ranks - 1`` others, an all-reduce does so twice; a
    permutation sends once.
    """
    if collective == "permute":
        return 1
    return (2 if collective == "all_reduce" else 1) * (ranks - 1)


def us_per_byte(bandwidth_gb_s: float) -> float:
    """Microseconds for each byte: 1 GB/s is 1,000 bytes a microsecond."""
    return 1e-3 / bandwidth_gb_s


@dataclass(frozen=True)
class Link:
    """A way from rank to rank, whose time grows with the hops.

    Attributes:
        latency_us: Microseconds of each hop.
        bandwidth_gb_s: What a rank sends through it, in one direction.
    """

    latency_us: float
    bandwidth_gb_s: float

    def linear_price(self, collective: str, ranks: int, launch_us: float) -> LinearPrice:
        """The price of a collective that runs over this link alone."""
        fixed = launch_us + hops(collective, ranks) * self.latency_us
        return LinearPrice(fixed, us_per_byte(self.bandwidth_gb_s))

    def line(self, collective: str, ranks: int, launch_us: float) -> LinearPrice:
        """Deprecated: `linear_price`."""
        return _former_line(self, collective, ranks, launch_us)


@dataclass(frozen=True)
class Measured:
    """A collective over one group as it was measured.

    Attributes:
        fixed_us: Microseconds whatever is sent, the launch included.
        bandwidth_gb_s: What a rank sends beyond that, in one direction.
    """

    fixed_us: float
    bandwidth_gb_s: float

    def linear_price(self, collective: str, ranks: int, launch_us: float) -> LinearPrice:
        """The price, which depends on neither the ranks nor the launch of others."""
        return LinearPrice(self.fixed_us, us_per_byte(self.bandwidth_gb_s))

    def line(self, collective: str, ranks: int, launch_us: float) -> LinearPrice:
        """Deprecated: `linear_price`."""
        return _former_line(self, collective, ranks, launch_us)


def _former_line(
    speed: Link | Measured, collective: str, ranks: int, launch_us: float
) -> LinearPrice:
    name = type(speed).__name__
    text = f"{name}.line is now linear_price; the former name goes with the next release."
    warnings.warn(text, DeprecationWarning, stacklevel=3)
    return speed.linear_price(collective, ranks, launch_us)


@dataclass(frozen=True)
class PerCollective(Generic[T]):
    """One value for each collective."""

    all_gather: T
    reduce_scatter: T
    all_reduce: T
    all_to_all: T
    permute: T

    @classmethod
    def same(cls, value: T) -> PerCollective[T]:
        """The same value for all of them."""
        return cls(**dict.fromkeys(COLLECTIVES, value))

    @staticmethod
    def each(make: Callable[[str], U]) -> PerCollective[U]:
        """What `make` gives for each collective's name."""
        return PerCollective(**{name: make(name) for name in COLLECTIVES})

    def of(self, collective: str) -> T:
        """The value of one of `COLLECTIVES`."""
        value: T = getattr(self, collective)
        return value

    def all_equal(self) -> bool:
        """Is it one value for all?"""
        return all(self.of(collective) == self.all_gather for collective in COLLECTIVES)
