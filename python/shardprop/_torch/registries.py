"""torch's registries of sharding rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch.distributed.tensor._ops import single_dim_strategy as _single_dim
from torch.distributed.tensor._ops import utils as _ops_utils

from .propagation import propagator
from .types import DTensor, OpOverload, OpSchema, RuntimeSchemaInfo, SingleDimStrategyInfo

# Where the rules are that come with torch, and where functions are that it offers for programs to
# register, by none of which it decides itself.
_OPS_PACKAGE: str = _ops_utils.__package__
_OFFERED: str = _ops_utils.__name__


def single_dim_rule_of(op: OpOverload) -> Any | None:
    """torch's single-dim rule for an op."""
    # Every decision asks: `propagator` would be one more call.
    return DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs.get(op)


def full_mesh_rule_of(op: OpOverload) -> Callable[..., Any] | None:
    """The function that enumerates strategies of an op over the whole mesh."""
    return propagator().op_strategy_funcs.get(op)  # type: ignore[no-any-return]


def propagation_rule_of(op: OpOverload) -> Callable[..., Any] | None:
    """The function that makes the one decision there is for an op."""
    return propagator().op_to_rules.get(op)  # type: ignore[no-any-return]


def came_with_torch(op: OpOverload, function: Callable[..., Any]) -> bool:
    """Is it the function by which torch decides an op, rather than one that a program registered
    with torch? (A wrapper around one may call itself after it; where its code is, it cannot.)

    A program may register for one op what is torch's own for another.
    """
    home: str = getattr(function, "__globals__", {}).get("__name__", "")
    if not home.startswith(f"{_OPS_PACKAGE}.") or home == _OFFERED:
        return False
    if op.namespace == "prims" and op not in _AT_IMPORT:
        return True  # torch registers rules for inductor's prims once inductor is imported
    return any(function is each for each in _AT_IMPORT.get(op, ()))


def _functions_by_op() -> dict[OpOverload, list[Callable[..., Any]]]:
    prop = propagator()
    found: dict[OpOverload, list[Callable[..., Any]]] = {}
    for table in (prop.op_single_dim_strategy_funcs, prop.op_strategy_funcs, prop.op_to_rules):
        for op, rule in table.items():
            found.setdefault(op, []).append(getattr(rule, "func", rule))
    return found


# What a program registers before shardprop's first `enable()` is taken for torch's, unless it is
# one of the functions that torch offers.
_AT_IMPORT = _functions_by_op()


def ops_with_a_rule() -> set[OpOverload]:
    """Ops in one of torch's three registries of rules."""
    prop = propagator()
    return {*prop.op_single_dim_strategy_funcs, *prop.op_strategy_funcs, *prop.op_to_rules}


def op_schema_info(op: OpOverload) -> Any | None:
    """What torch notes about an op's arguments."""
    prop = propagator()
    info = prop.op_to_schema_info.get(op)
    return prop.op_to_schema_info_for_single_dim_strategy.get(op) if info is None else info


class RegistryEntries(NamedTuple):
    """What torch's registries hold for an op that has a single-dim rule; None for what is not
    there."""

    single_dim: SingleDimStrategyInfo | None
    schema_info: RuntimeSchemaInfo | None
    schema_info_for_single_dim: RuntimeSchemaInfo | None


def registry_entries(op: OpOverload) -> RegistryEntries:
    """What is there now."""
    return RegistryEntries(*(table.get(op) for table in _single_dim_tables()))


def set_registry_entries(op: OpOverload, entries: RegistryEntries) -> None:
    """Put the entries there, and take away what is None.

    A rule is not there without the notes on its arguments: it comes last, and goes first.
    """
    changes = [*zip(_single_dim_tables(), entries, strict=True)]
    for table, entry in changes if entries.single_dim is None else reversed(changes):
        _set_entry(table, op, entry)


def put_back(table: dict[OpOverload, Any], op: OpOverload, ours: object, before: object) -> None:
    """Have a table of torch's hold what it held before (None: nothing), if what it holds is still
    `ours`."""
    if table.get(op) is ours:
        _set_entry(table, op, before)


def _set_entry(table: dict[OpOverload, Any], op: OpOverload, entry: object) -> None:
    if entry is None:
        table.pop(op, None)
    else:
        table[op] = entry


def _single_dim_tables() -> tuple[dict[OpOverload, Any], ...]:
    """In the order of the fields of `RegistryEntries`."""
    prop = propagator()
    return (
        prop.op_single_dim_strategy_funcs,
        prop.op_to_schema_info,
        prop.op_to_schema_info_for_single_dim_strategy,
    )


def strategy_schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpSchema:
    """The schema that torch hands to a filter over whole strategies."""
    return propagator()._wrap_with_op_strategy(OpSchema(op, args, kwargs))  # type: ignore[no-any-return]


@functools.cache
def elementwise_overload(op: OpOverload) -> OpOverload:
    """The scalar op whose rule torch uses for one element of a list op."""
    return _single_dim._resolve_foreach_elementwise_overload(op) or op


def before_registrations(notify: Callable[[OpOverload], None]) -> None:
    """Call `notify` with an op before torch registers a rule for it, on any caller's behalf."""
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
    function = full_mesh_rule_of(schema.op)
    if function is None:
        return None
    found = function(propagator()._wrap_with_op_strategy(schema))
    return getattr(found, "strategies", None)
