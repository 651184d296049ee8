"""Who replaced parts of DTensor that decide and redistribute."""

from __future__ import annotations

import functools
from typing import Any

from torch.distributed.tensor import _collective_utils, _redistribute

from .dispatch import handlers
from .propagation import propagator
from .types import DTensor


def foreign_patches() -> list[str]:
    """What neither torch nor this package put where DTensor decides and redistributes."""
    prop = propagator()
    places = (
        type(prop),
        prop.propagate_op_sharding_non_cached,
        DTensor._op_dispatcher.redistribute_local_args,
        _collective_utils.redistribute_cost,
        _redistribute._gen_transform_infos,
        _redistribute.redistribute_local_tensor,
    )
    return [
        f"{place.__module__}.{place.__qualname__}"
        for place in map(_function, places)
        if _is_foreign(place)
    ]


def has_foreign_handlers() -> bool:
    """Did somebody else have torch's dispatcher hand ops to functions of their own?"""
    return any(_is_foreign(_function(handler)) for handler in handlers().values())


def _is_foreign(function: Any) -> bool:
    home = getattr(function, "__module__", None) or ""
    return home.partition(".")[0] not in ("torch", __name__.partition(".")[0])


def _function(place: Any) -> Any:
    """What is called in the end."""
    while isinstance(place, functools.partial):
        place = place.func
    return place
