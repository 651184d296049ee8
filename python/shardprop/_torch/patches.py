"""Who replaced parts of DTensor that decide and redistribute."""

from __future__ import annotations

import functools
from typing import Any

from torch.distributed.tensor import _collective_utils, _redistribute

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
    homes = ("torch", __name__.partition(".")[0])
    return [
        f"{place.__module__}.{place.__qualname__}"
        for place in map(_function, places)
        if place.__module__.partition(".")[0] not in homes
    ]


def _function(place: Any) -> Any:
    """What is called in the end."""
    while isinstance(place, functools.partial):
        place = place.func
    return place
