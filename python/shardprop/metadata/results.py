"""What an op returned, as the metadata that torch keeps of it."""

from __future__ import annotations

import torch

from .._torch import TensorMeta
from ..model.question import OutputMeta

__all__ = ["meta_of_result"]


def meta_of_result(result: object) -> OutputMeta:
    """Metadata of a tensor, or of each of several in the container they came in."""
    if isinstance(result, tuple):
        return tuple(map(_meta_of, result))
    return list(map(_meta_of, result)) if isinstance(result, list) else _meta_of(result)


def _meta_of(item: object) -> TensorMeta | None:
    if not isinstance(item, torch.Tensor):
        return None
    return TensorMeta(item.shape, item.stride(), item.dtype)
