"""What a calibration measures, and how often."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import ShardpropError

__all__ = ["Settings", "parse_sizes"]

_UNITS = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        sizes: Bytes that a rank holds before a collective; rounded up to whole pieces for all.
        repetitions: Of which the median counts.
        warmups: Before them, uncounted: the first use of a group makes its connections.
    """

    sizes: tuple[int, ...] = tuple(4**power for power in range(5, 13))  # 1 KiB to 16 MiB
    repetitions: int = 15
    warmups: int = 3

    def __post_init__(self) -> None:
        if len(set(self.sizes)) < 2 or min(self.sizes) < 1:
            raise ShardpropError(
                f"sizes: Expected two different sizes of at least 1 byte, got {list(self.sizes)}."
            )
        if self.repetitions < 1:
            raise ShardpropError(f"repetitions: Expected at least 1, got {self.repetitions}.")
        if self.warmups < 0:
            raise ShardpropError(f"warmups: Expected at least 0, got {self.warmups}.")


def parse_sizes(text: str) -> tuple[int, ...]:
    """Bytes from a text such as ``1024,64KiB,4MiB``.

    Raises:
        ShardpropError: it is not of that form.
    """
    sizes = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,12})\s*(|B|KiB|MiB|GiB)\s*", part)
        if found is None:
            raise ShardpropError(f"sizes: Expected sizes such as 64KiB,4MiB; got {text!r}.")
        sizes.append(int(found[1]) * _UNITS[found[2]])
    return tuple(sizes)
