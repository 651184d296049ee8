"""The package's own files, for those who tell its code from a program's."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

__all__ = ["FOLDER", "IN_FOLDER", "without_own_frames"]

FOLDER = Path(__file__).parents[1]
# What the path of each of its files begins with, as their code objects have it.
IN_FOLDER = f"{FOLDER}/"


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback of torch's error as torch alone would show it: from the first frame on that is
    not of this package, the whole where all are."""
    found = traceback
    while found is not None and found.tb_frame.f_code.co_filename.startswith(IN_FOLDER):
        found = found.tb_next
    return traceback if found is None else found
