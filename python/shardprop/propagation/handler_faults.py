"""What torch's dispatcher gets wrong of ops that it hands to a function, or takes for others."""

from __future__ import annotations

from typing import Any

from .. import _torch
from .._torch import OpOverload
from ..corrections.empty_shards import EMPTY_SHARDS
from ..corrections.first_of_equals import FIRST_OF_EQUALS, may_be_another
from ..corrections.named_as_in_place import NAMED_AS_IN_PLACE
from .empty_shards import has_empty_shard

__all__ = ["fault_of_handler"]


def fault_of_handler(op: OpOverload, args: tuple[Any, ...]) -> str | None:
    """The fault of a call, by its name; None if there is none. Of tensors on one device, of a
    reduction of no dim that they shard."""
    if op in _torch.MEANT:
        return NAMED_AS_IN_PLACE.name
    spec = _torch.spec_of(args[0])
    if has_empty_shard(spec):
        return EMPTY_SHARDS.name
    return FIRST_OF_EQUALS.name if may_be_another(spec, *args[1:2]) else None
