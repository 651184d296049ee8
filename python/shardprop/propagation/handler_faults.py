"""What torch's dispatcher gets wrong about ops that it gives a handler, or mistakes for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _torch
from .._torch import DTensor, OpOverload
from ..corrections.empty_shards import EMPTY_SHARDS
from ..corrections.first_of_equals import FIRST_OF_EQUALS, may_be_another
from ..corrections.infinity_of_others import INFINITY_OF_OTHERS, is_unscaled_otherwise
from ..corrections.named_as_in_place import NAMED_AS_IN_PLACE
from ..corrections.shard_order import SHARD_ORDER
from .empty_shards import has_empty_shard

__all__ = ["fault_of_handler"]


def fault_of_handler(op: OpOverload, args: tuple[Any, ...]) -> str | None:
    """The name of the fault that torch's handling of a call has; None if it has none.

    `_torch/handlers.py` asks this of the ops in `_torch.MEANT` and of `_torch.UNSCALE`, with any
    arguments, and of `argmin` and `argmax` where the operand is sharded on a dim that is reduced,
    or in a shard order of its own.

    Args:
        op: The op that is called.
        args: The positional arguments of the call. Those of `argmin` and `argmax` are the operand,
            and the dim where one is given.

    Raises:
        RefusedPlacementError: the op writes into something that it would write wrongly.
    """
    if op in _torch.MEANT:
        return NAMED_AS_IN_PLACE.name
    if op is _torch.UNSCALE:
        return _fault_of_unscaling(*args)
    spec = _torch.spec_of(args[0])
    if not _torch.has_default_order(spec):
        return SHARD_ORDER.name
    if has_empty_shard(spec):
        return EMPTY_SHARDS.name
    return FIRST_OF_EQUALS.name if may_be_another(spec, *args[1:2]) else None


def _fault_of_unscaling(gradients: Sequence[Any], found_inf: Any, scale: Any) -> str | None:
    if not gradients or not all(isinstance(each, DTensor) for each in gradients):
        return None  # torch refuses it
    specs = [*map(_torch.spec_of, gradients)]
    placed = (_torch.spec_of(x) if isinstance(x, DTensor) else None for x in (found_inf, scale))
    return INFINITY_OF_OTHERS.name if is_unscaled_otherwise(specs, *placed) else None
