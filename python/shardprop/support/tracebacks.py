"""Tracebacks of torch's errors as torch alone would show them."""

from __future__ import annotations

import os
from types import TracebackType

__all__ = ["without_own_frames"]

_OURS = os.path.dirname(__file__) + os.sep


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame on that is not of this package; the whole where all are."""
    found = traceback
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_OURS):
        found = found.tb_next
    return traceback if found is None else found
