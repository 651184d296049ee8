"""Where our decision may differ from torch's: where a correction says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from shardprop.corrections.argmax_handler import ARGMAX_HANDLER
from shardprop.corrections.average_of_integers import AVERAGE_OF_INTEGERS
from shardprop.corrections.correction import CallCorrection, Correction
from shardprop.corrections.first_of_equals import FIRST_OF_EQUALS
from shardprop.corrections.infinity_of_others import INFINITY_OF_OTHERS
from shardprop.corrections.integers_made_pending import INTEGERS_MADE_PENDING
from shardprop.corrections.joined_bools import JOINED_BOOLS
from shardprop.corrections.left_out_of_keys import LEFT_OUT_OF_KEYS
from shardprop.corrections.list_moved_inside import LIST_MOVED_INSIDE
from shardprop.corrections.local_sizes import LOCAL_SIZES
from shardprop.corrections.named_as_in_place import NAMED_AS_IN_PLACE
from shardprop.corrections.reshaped_in_place import RESHAPED_IN_PLACE
from shardprop.corrections.shared_in_list import SHARED_IN_LIST
from shardprop.corrections.strided_out_of_order import STRIDED_OUT_OF_ORDER
from shardprop.corrections.uneven_flattened_gather import UNEVEN_FLATTENED_GATHER
from shardprop.corrections.written_view import WRITTEN_VIEW
from shardprop.errors import RefusedPlacementError
from shardprop.propagation.propagator import current_policy
from shardprop.propagation.reading import refuse_read_of_one_rank
from shardprop.propagation.route import Who, route

from .case import Case
from .registry import Rule, rule_of

BEYOND_TORCH = "decided though torch refuses"

# So many cases of its ops (of all, where it names none) show a correction at least once.
_WITHIN = 1_500
# Of decompositions that read sizes a run of 2,500 cases had none on torch 2.15.
_WITHIN_OF_SIZES = 8_000
# Such operands, and ops with such a decomposition, are next to never drawn.
_RARE = (AVERAGE_OF_INTEGERS, JOINED_BOOLS, LIST_MOVED_INSIDE, SHARED_IN_LIST)


def why_another(case: Case) -> str | None:
    """Why the current policy may decide the case otherwise than torch; None: it may not."""
    found = route(case.schema(), current_policy())
    if found.correction is not None:
        return found.correction.name
    if found.who is Who.READ_OUT and current_policy().corrects:
        return _refused_to_read(case)
    return BEYOND_TORCH if found.refused_by_torch else None


def _refused_to_read(case: Case) -> str | None:
    try:
        refuse_read_of_one_rank(case.schema())
    except RefusedPlacementError as error:
        return str(error)
    return None


# Cases are decisions: no redistribution is carried out, and no handler is called.
_AROUND_DECISIONS = (
    STRIDED_OUT_OF_ORDER,
    UNEVEN_FLATTENED_GATHER,
    NAMED_AS_IN_PLACE,
    RESHAPED_IN_PLACE,
    ARGMAX_HANDLER,
    FIRST_OF_EQUALS,
    INFINITY_OF_OTHERS,
    INTEGERS_MADE_PENDING,
    LEFT_OUT_OF_KEYS,
    WRITTEN_VIEW,
)


def is_due(correction: Correction, drawn: Mapping[str, int]) -> bool:
    """Were enough cases drawn, counted by op, that it must have changed a decision?"""
    if correction in _RARE:
        return False
    if correction in _AROUND_DECISIONS:
        return False
    if not isinstance(correction, CallCorrection):
        within = _WITHIN_OF_SIZES if correction is LOCAL_SIZES else _WITHIN
        return sum(drawn.values()) >= within
    # Where a later torch lists rows for an op, we follow those, and nothing differs.
    ours = (op for op in correction.ops if rule_of(op) is Rule.FULL_MESH)
    return sum(drawn.get(str(op), 0) for op in ours) >= _WITHIN
