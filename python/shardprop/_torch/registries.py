"""torch's registries of sharding rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from torch.distributed.tensor._ops import single_dim_strategy as _single_dim
from torch.distributed.tensor._ops import utils as _ops_utils

from .propagation import propagator
from .types import OpOverload, OpSchema

# Where the rules are that come with torch.
OPS_PACKAGE: str = _ops_utils.__package__


def strategy_schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpSchema:
    """The schema that torch hands to a filter over whole strategies."""
    return propagator()._wrap_with_op_strategy(OpSchema(op, args, kwargs))  # type: ignore[no-any-return]


@functools.cache
def elementwise_overload(op: OpOverload) -> OpOverload:
    """The scalar op whose rule torch uses for one element of a list op."""
    return _single_dim._resolve_foreach_elementwise_overload(op) or op


def before_registrations(notify: Callable[[OpOverload], None]) -> None:
    """Call `notify` with an op before torch registers a rule for it, whoever asks it to."""
    prop = propagator()

    def watched(register: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(register)
        def registering(op_overload: OpOverload, *args: Any, **kwargs: Any) -> None:
            notify(op_overload)
            register(op_overload, *args, **kwargs)

        return registering

    prop.register_op_strategy = watched(prop.register_op_strategy)
    prop.register_single_dim_op_strategy = watched(prop.register_single_dim_op_strategy)
    prop.register_sharding_prop_rule = watched(prop.register_sharding_prop_rule)


def full_mesh_strategies(schema: OpSchema) -> Sequence[Any] | None:
    """Every strategy that torch's own function enumerates for an op, with prices; None where it
    does not enumerate any."""
    prop = propagator()
    function = prop.op_strategy_funcs.get(schema.op)
    if function is None:
        return None
    found = function(prop._wrap_with_op_strategy(schema))
    return getattr(found, "strategies", None)
