"""Where the package's own files are, for those who tell its code from a program's."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FOLDER", "IN_FOLDER"]

FOLDER = Path(__file__).parents[1]
# What the path of each of its files begins with, as their code objects have it.
IN_FOLDER = f"{FOLDER}/"
