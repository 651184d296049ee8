"""What an op returned, as the metadata that torch keeps of it."""

from __future__ import annotations

from .._torch import meta_of
from ..model.question import OutputMeta

__all__ = ["meta_of_result"]


def meta_of_result(result: object) -> OutputMeta:
    """Metadata of a tensor, or of each of several in the container they came in."""
    if isinstance(result, tuple):
        return tuple(map(meta_of, result))
    return list(map(meta_of, result)) if isinstance(result, list) else meta_of(result)
