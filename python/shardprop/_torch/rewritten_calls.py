"""Calls that torch's C++ hands on to Python: what a rank runs, noted in the decision.

Among them are those whose arguments hold sizes (views, `expand`, `new_zeros`), which a decision
makes local; torch's dispatcher puts such arguments together anew at each call.
"""

from __future__ import annotations

from typing import Any

from .held_functions import HeldFunction
from .steady import nobody_watches
from .types import DTensor, DTensorSpec, OpOverload, OutputSharding

__all__ = ["REWRITTEN_CALLS"]

# The local op, and its arguments: the number of the operand, or None and a value. Without an op it
# is the call's own, on its own arguments.
_Call = tuple[OpOverload | None, tuple[tuple[int | None, Any], ...]]
_AS_IT_IS: _Call = (None, ())

_held = HeldFunction(type(DTensor._op_dispatcher)._dispatch_get_local_results_slow_path)
_UNSEEN = object()


def _seen(dispatcher: Any, op: OpOverload, asked: Any) -> _Call | None:
    """Note in a decision what a rank runs by it; None where it does more than that."""
    decision: Any = asked.output_sharding
    decision._local_call = call = _call_of(dispatcher, op, asked, decision)
    return call


def _call_of(dispatcher: Any, op: OpOverload, asked: Any, decision: OutputSharding) -> _Call | None:
    if (
        asked.args_tree_spec is not None
        or op in dispatcher._random_ops
        or not asked.compute_mesh._is_current_rank_part_of_mesh()
    ):
        return None
    if not decision.needs_redistribute:
        return _AS_IT_IS
    wanted = decision.redistribute_schema
    if wanted is None or not decision.use_val_from_redistribute_schema:
        return None
    given = asked.flat_args_schema
    operands = [at for at, arg in enumerate(given) if isinstance(arg, DTensorSpec)]
    if any(given[at] != wanted.args_schema[at] for at in operands):
        return None  # it is redistributed, too
    places = ((at if at in operands else None, arg) for at, arg in enumerate(wanted.args_schema))
    return wanted.op, tuple(places)


def _local_results(
    self: Any,
    op_call: Any,
    args: Any,
    op_info: Any,
    unseen: Any = _UNSEEN,
    seen: Any = _seen,
    nobody_watches: Any = nobody_watches,
    otherwise: Any = _held.torchs,
) -> Any:
    call = getattr(op_info.output_sharding, "_local_call", unseen)
    if call is unseen:
        call = seen(self, op_call, op_info)
    if call is None or not nobody_watches():
        return otherwise(self, op_call, args, op_info)
    op, places = call
    held = op_info.local_args
    if op is None:
        return op_call(*held, **op_info.local_kwargs)
    local_args = [value if at is None else held[at] for at, value in places]
    return op(*local_args, **op_info.local_kwargs)


# torch's dispatcher runs them so.
REWRITTEN_CALLS = _held.with_code_of(_local_results)
