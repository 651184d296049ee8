"""Writes into views of a tensor that torch has moved to make them."""

from __future__ import annotations

from .. import _torch
from .correction import Correction

WRITTEN_VIEW = Correction(
    name=_torch.WRITTEN_VIEW,
    where="in-place ops and `out=` on views, as `x[1:3].zero_()` and `x[0] += 1` where rows are "
    "sharded, or `reset_parameters` of an embedding with a `padding_idx`",
    fault="redistributes a tensor where a view needs another layout: the view is one of a copy, "
    "and what is written into it does not reach the tensor.",
    right="makes the same view of the gathered tensor, writes into that, and cuts the tensor's "
    "shards from it.",
    ends="views in torch that know their tensor, or an error.",
)
