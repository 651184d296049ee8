"""Numbers and ranks as short words in pictures."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["bytes_text", "ranks_text", "us_text"]


def bytes_text(count: float) -> str:
    """``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def us_text(us: float) -> str:
    """``12.3 us``; milliseconds and seconds where it is that long."""
    if us == float("inf"):
        return "impossible"
    for unit in ("us", "ms"):
        if abs(us) < 1000:
            return f"{us:.3g} {unit}"
        us /= 1000
    return f"{us:.3g} s"


def ranks_text(ranks: Sequence[int]) -> str:
    """``0-3, 8``: ascending ranks with those in a row as one range; a few of them, then a count."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [f"{a}" if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in runs]
    if len(parts) > 4:
        return f"{parts[0]}, {parts[1]}, … {parts[-1]} ({len(ranks)})"
    return ", ".join(parts)
