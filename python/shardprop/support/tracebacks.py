"""Tracebacks of torch's errors as torch alone would show them."""

from __future__ import annotations

from types import TracebackType

from .folder import IN_FOLDER

__all__ = ["without_own_frames"]


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame on that is not of this package; the whole where all are."""
    found = traceback
    while found is not None and found.tb_frame.f_code.co_filename.startswith(IN_FOLDER):
        found = found.tb_next
    return traceback if found is None else found
