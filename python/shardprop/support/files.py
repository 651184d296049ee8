"""Files that a caller names."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ShardpropError

__all__ = ["write_text"]


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file anew.

    Raises:
        ShardpropError: it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: a path of characters that no path has
        got = getattr(error, "strerror", None) or error
        raise ShardpropError(f"{path}: Expected a file to write to, got: {got}.") from None
