"""The decision of one op: by its rule, or by torch's own code."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .. import _core, _torch
from .._torch import DTensorSpec, OpSchema, OutputSharding
from ..corrections.correction import Correction
from ..corrections.list_moved_inside import LIST_MOVED_INSIDE
from ..corrections.shared_in_list import SHARED_IN_LIST
from ..errors import RefusedPlacementError, ShardpropError
from ..metadata import output_meta
from ..model.question import DECLINED, NoStrategyError, OutputMeta, Placed
from ..rules import torch_registry
from ..rules.rule import Chooser, Rule
from .answer import wanted_specs
from .asked import asked_of
from .decomposition.nested_decisions import Inside
from .logs import declined_inside
from .move_costs import move_costs
from .op_call import specs_of
from .reading import refuse_read_of_one_rank
from .route import Route, Who, decomposer, route_by_arguments
from .shard_orders import in_one_order
from .shared_operands import rule_that_agrees

__all__ = [
    "decide",
    "decide_by_torch",
    "left_to_torch",
    "placed_as",
    "read_out",
]


def decide(
    schema: OpSchema,
    rule: Rule,
    chooser: Chooser,
    meta_of: Callable[[OpSchema], OutputMeta] = output_meta,
) -> OutputSharding:
    """The core's decision.

    Raises:
        _core.Unsupported, _core.RuleError, NoStrategyError: the core leaves it to torch.
        Exception: as `asked_of` does, and what the rule function raises.
    """
    asked = asked_of(schema, rule, meta_of)
    return asked.sharding([rule.choose(question, chooser) for question in asked.questions])


def left_to_torch(schema: OpSchema, found: Route, declined: Exception, strict: bool) -> Route:
    """The route of an op for which the core has no decision, `declined` being why.

    Raises:
        ShardpropError: torch's own code could not say what is wrong; or ``strict``, which leaves
            torch only what it refuses itself.
    """
    if found.rule is not None:
        found.rule.refuse(schema, declined)
    is_malformed = isinstance(declined, _core.RuleError)
    reason = f"malformed rule: {declined}" if is_malformed else str(declined)
    if strict and not isinstance(declined, NoStrategyError):
        raise ShardpropError(f"{schema.op}: {reason} (strict: no fallback to torch).")
    return found.left_to_torch(reason, _fault_left(found, declined))


def _fault_left(found: Route, declined: Exception) -> Correction | None:
    """The fault that a decision of torch's would have: no strategy is left without it; or may have:
    torch does not look whether the elements of a list agree."""
    if found.may_disagree:
        return SHARED_IN_LIST
    return found.correction if isinstance(declined, NoStrategyError) else None


def _refuse_fault(schema: OpSchema, answer: OutputSharding, fault: Correction | None) -> None:
    """torch has decided a call of which it gets the values wrong, if there is a `fault`.

    Raises:
        RefusedPlacementError: there is one.
    """
    if fault is None or (fault.spares is not None and fault.spares(schema, answer)):
        return
    specs = ", ".join(map(str, specs_of(schema)))
    raise RefusedPlacementError(
        f"{schema.op}: Expected operands on which some strategy gives right values, got {specs}. "
        f"torch alone {fault.fault} Redistribute the operands before the call, to Replicate(): "
        "what the op writes into, keyword arguments and what is viewed are not moved."
    )


def placed_as(
    schema: OpSchema, sharding: OutputSharding, chooser: Chooser
) -> tuple[list[DTensorSpec], Placed]:
    """The specs that a decision wants of the operands, and what `chooser` says that costs. Keyword
    arguments stay."""
    specs = specs_of(schema)
    wanted = [*wanted_specs(schema, sharding)]
    wanted += specs[len(wanted) :]
    costs = tuple(move_costs(chooser, zip(specs, wanted, strict=True)))
    operands = tuple(tuple(spec.placements) for spec in wanted)
    return wanted, Placed(operands, costs, sum(costs))


def read_out(schema: OpSchema, chooser: Chooser) -> OutputSharding:
    """The decision of an op that reads a number out: nothing is placed, nothing moves.

    Raises:
        RefusedPlacementError: one rank alone holds the element, and torch is corrected.
    """
    if chooser.corrects:
        refuse_read_of_one_rank(schema)
    return OutputSharding(None, schema)


def decide_by_torch(schema: OpSchema, found: Route, chooser: Chooser) -> OutputSharding:
    """The decision of torch's own code. Where it knows no way at all, its error is told the way to
    a rule (a note, which Python 3.10 has none of), or the op runs on replicated operands, if the
    program lets it.

    Raises:
        RefusedPlacementError: torch decides it, and wrongly.
        Exception: torch refuses the op.
    """
    with chooser.one_decision():
        try:
            answer = _torch.torch_propagate(found.reordered or schema)
        except NotImplementedError as error:
            unknown = found.rule is None and found.way is torch_registry.TorchsWay.DECOMPOSITION
            given = _stand_in_for(schema) if unknown else None
            if given is not None:
                return decide(schema, given, chooser)
            if unknown and sys.version_info >= (3, 11):
                error.add_note(f"shardprop: {torch_registry.way_to_a_rule(schema.op)}")
            raise
    if found.reordered is not None:
        answer = in_one_order(schema, answer)
    # Only now: what torch refuses, too, has torch's own words.
    _refuse_fault(schema, answer, found.correction)
    return answer


def _stand_in_for(schema: OpSchema) -> Rule | None:
    from ..rules.without_rule import stand_in_for  # most programs register no rules

    return stand_in_for(schema.op)


def _decide_inside(schema: OpSchema, meta: OutputMeta, chooser: Chooser) -> Inside:
    """The decision of a call inside a decomposition, where rows alone do not decide it."""
    inside = _decide_call(schema, meta, chooser)
    if chooser.corrects and inside.sharding is not None and _moves_in_list(schema, inside.sharding):
        return Inside(None, LIST_MOVED_INSIDE)
    return inside


def _moves_in_list(schema: OpSchema, sharding: OutputSharding) -> bool:
    """Would something have to move that stands in a list? (torch looks at the others.)"""
    wanted = sharding.redistribute_schema
    if not sharding.needs_redistribute or wanted is None:
        return False
    return any(
        isinstance(spec, DTensorSpec) and spec.placements != other.placements
        for item, target in zip(schema.args_schema, wanted.args_schema, strict=False)
        if isinstance(item, (list, tuple)) and isinstance(target, (list, tuple))
        for spec, other in zip(item, target, strict=False)
    )


def _decide_call(schema: OpSchema, meta: OutputMeta, chooser: Chooser) -> Inside:
    found = route_by_arguments(schema, chooser)
    fault = found.correction if found.rule is None else None
    if found.who is Who.READ_OUT:
        return Inside(read_out(schema, chooser), None)
    if found.rule is not None:
        try:
            answer = decide(schema, found.rule, chooser, lambda _: meta)
        except DECLINED as declined:
            declined_inside(schema.op, declined)
            fault = _fault_left(found, declined)
        else:
            if chooser.corrects and rule_that_agrees(schema, found.rule, chooser, lambda _: meta):
                return Inside(None, SHARED_IN_LIST)  # as if it would move inside
            return Inside(answer, found.correction)
    with chooser.one_decision():
        by_torch = _torch.torch_propagate_with_meta(schema, meta)
    _refuse_fault(schema, by_torch, fault)
    return Inside(by_torch, None)


# A decomposition asks for decisions, and a decision for the rows of a decomposition.
decomposer.decide = _decide_inside
