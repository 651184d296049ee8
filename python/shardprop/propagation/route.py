"""Who decides an op, by which rule, and why: found here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from .. import _core, _torch
from .._torch import OpOverload, OpSchema
from ..corrections.by_op import corrections_of
from ..corrections.correction import CallCorrection, Correction
from ..corrections.empty_shards import EMPTY_SHARDS
from ..corrections.local_sizes import LOCAL_SIZES
from ..corrections.shard_order import SHARD_ORDER
from ..corrections.shared_in_list import SHARED_IN_LIST
from ..corrections.written_and_moved import WRITTEN_AND_MOVED
from ..model.mesh import core_mesh
from ..model.op_traits import traits_of
from ..rules import torch_registry
from ..rules.book.completed import completed
from ..rules.kept_rows import KeptRows
from ..rules.own import own_rule
from ..rules.places import function_place
from ..rules.rule import (
    Chooser,
    DecompositionRule,
    Origin,
    RowsRule,
    Rule,
    RuleFacts,
    RuleKind,
    rule_of_entry,
)
from ..rules.torch_registry import TorchsWay
from .decomposition import Declined, Decomposer
from .empty_shards import rule_for_all_ranks
from .shard_orders import from_left_to_right, has_own_order
from .shared_operands import may_disagree, rule_that_agrees

__all__ = [
    "Route",
    "Who",
    "decomposer",
    "is_needless",
    "route",
    "route_by_arguments",
    "route_of",
]


class Who(str, Enum):
    """Who decides an op; equal to its name in JSON."""

    CORE = "core"  # by a rule: torch's single-dim rule, ours, or one that the program registered
    DECOMPOSITION = "decomposition"  # the core, by the rows of what the op decomposes into
    TORCH = "torch"  # torch's own code, with prices from the core
    HANDLER = "handler"  # nobody: torch's dispatcher hands the op to a function that asks nothing
    READ_OUT = "read-out"  # nobody: the number that this rank holds is read, nothing is placed


@dataclass(frozen=True)
class Route:
    """Who decides an op, by which rule, and why.

    Attributes:
        op: The op.
        who: Who decides.
        rule: The core's rule. None where the core has none, and where the op decomposes and the
            route was found without its arguments (`route_of`).
        way: How torch decides what has no single-dim rule; None where it does not.
        handler: The function that torch's dispatcher hands the op to.
        declined: Why torch decides though there is a rule, or a decomposition.
        corrections: Those of the op, each for some of its calls.
        correction: The fault that torch's own decision of this call has, or may have. The core
            decides it rightly. Where such a call is left to torch, what torch decides is refused.
        minds_empty: May it raise where a rank holds nothing of an operand?
        may_disagree: Is it a list op whose elements may want what they share in several places?
        reordered: The call as it is decided, where operands are in shard orders of their own. The
            decision is then put in one order: see `in_one_order`.
    """

    op: OpOverload
    who: Who
    rule: Rule | None = None
    way: TorchsWay | None = None
    handler: Callable[..., Any] | None = None
    declined: str | None = None
    corrections: tuple[CallCorrection, ...] = ()
    correction: Correction | None = None
    minds_empty: bool = False
    may_disagree: bool = False
    reordered: OpSchema | None = None

    @property
    def reason(self) -> str:
        """Why torch decides, in the words of the statistics: its way to a decision; why the core
        left it an op that it has a rule for."""
        if self.rule is None and self.way is not None:
            return self.way.value
        return self.declined or self.facts.kind.value

    @property
    def nothing_is_decided(self) -> str:
        """An error's words about an op that nobody decides."""
        return (
            f"{self.op}: Expected an op that is decided, got one about which nothing is: {self.why}"
        )

    @property
    def refused_by_torch(self) -> bool:
        """Does the core decide what torch refuses?"""
        return self.rule is not None and self.rule.refused_by_torch

    @property
    def why(self) -> str:
        """The reason in a sentence."""
        if self.who is Who.HANDLER:
            handler = self.facts.where
            return f"torch's dispatcher hands the op to {handler}, which asks for no decision."
        if self.who is Who.READ_OUT:
            return "torch reads the number that this rank holds: nothing is placed, nothing moves."
        if self.declined is not None and self.rule is not None:
            return f"The core left this to torch: {self.declined}."
        if self.declined is not None and self.way is TorchsWay.DECOMPOSITION:
            return f"Its decomposition has no rows of ours: {self.declined}."
        if self.declined is not None:
            return f"torch decides: {self.declined}."
        if self.who is Who.DECOMPOSITION:
            return f"The core decides by the rows of its decomposition.{self._corrected}"
        if self.rule is not None:
            return f"The core decides by a rule: {self.facts.where}.{self._corrected}"
        if self.way is TorchsWay.DECOMPOSITION:
            return f"Nobody has a rule for it: {self.facts.where}."
        return f"torch decides by a rule: {self.facts.where}."

    @property
    def _corrected(self) -> str:
        """The sentences about a fault of torch's; none where there is none."""
        fault = self.correction
        return "" if fault is None else f" torch alone {fault.fault} shardprop {fault.right}"

    def left_to_torch(self, declined: str, fault: Correction | None = None) -> Route:
        """The route of an op that the core leaves to torch; `fault`: if torch decides it, the
        decision is known to be wrong."""
        return replace(self, who=Who.TORCH, declined=declined, correction=fault)

    @property
    def facts(self) -> RuleFacts:
        """What decides, and where its code is."""
        op = self.op
        if self.rule is not None:
            return self.rule.facts(op)
        if self.who is Who.READ_OUT:
            return RuleFacts(RuleKind.READ_OUT, Origin.TORCH, "torch's dispatcher")
        if self.handler is not None:
            return RuleFacts(RuleKind.HANDLER, Origin.TORCH, function_place(self.handler))
        if self.way is TorchsWay.DECOMPOSITION:
            traced = _torch.known_decomposition(op)
            if traced is None:
                return RuleFacts(RuleKind.NONE, Origin.TORCH, torch_registry.way_to_a_rule(op))
            return RuleFacts(RuleKind.DECOMPOSITION, Origin.TORCH, function_place(traced))
        enumerates = self.way is TorchsWay.FULL_MESH_STRATEGY
        kind = RuleKind.FULL_MESH_STRATEGY if enumerates else RuleKind.PROPAGATION_RULE
        origin = Origin.TORCH if torch_registry.is_rule_torchs(op) else Origin.REGISTERED
        return RuleFacts(kind, origin, function_place(torch_registry.rule_function(op)))


class _Known(NamedTuple):
    """A route, and what torch had registered for the op when it was found."""

    route: Route
    handlers: int  # of all ops, for they are looked up by each decision; a swap is not seen
    single_dim: object
    strategy: object


# By address, for an overload takes long to hash; the route holds it, so that it keeps its own.
_known: dict[int, _Known] = {}


def route_of(op: OpOverload) -> Route:
    """The route of an op, its arguments not being known."""
    handlers = _torch.handlers()
    single_dim = _torch.single_dim_rule_of(op)
    known = _known.get(id(op))
    if (
        known is not None
        and known.single_dim is single_dim
        and known.handlers == len(handlers)
        and (single_dim is not None or known.strategy is _torch.full_mesh_rule_of(op))
    ):
        return known.route
    found = _found(op, single_dim)
    # Others are found anew: what torch does to decide them takes far longer.
    if found.rule is not None or found.handler is not None or found.who is Who.READ_OUT:
        strategy = _torch.full_mesh_rule_of(op)
        _known[id(op)] = _Known(found, len(handlers), single_dim, strategy)
    return found


def _found(op: OpOverload, single_dim: Any) -> Route:
    handler = _torch.handler_instead(op)
    if handler is not None:
        return Route(op, Who.HANDLER, handler=handler)
    if torch_registry.is_read_out(op):
        return Route(op, Who.READ_OUT)
    minds_empty = traits_of(op).minds_empty
    if single_dim is not None:
        rule = rule_of_entry(op, single_dim)
        is_torchs = rule.origin is Origin.TORCH
        in_rows = tuple(each for each in corrections_of(op) if op in each.in_rows and is_torchs)
        return Route(op, Who.CORE, rule, corrections=in_rows, minds_empty=minds_empty)
    own = own_rule(op) if torch_registry.has_own_full_mesh_strategy(op) else None
    if own is not None:
        known = corrections_of(op)
        return Route(op, Who.CORE, own, corrections=known, minds_empty=minds_empty)
    way = torch_registry.torchs_way(op)
    comes_apart = way is TorchsWay.DECOMPOSITION and _torch.known_decomposition(op) is not None
    who = Who.DECOMPOSITION if comes_apart else Who.TORCH
    return Route(op, who, way=way, minds_empty=minds_empty)


# With each the rule of the op that it was made of: torch, or a program, may give the op another.
_without: dict[tuple[OpOverload, CallCorrection], tuple[RowsRule, KeptRows]] = {}


def _rule_without(fault: CallCorrection, found: Route) -> Rule | None:
    """The rule to ask in the place of one that has a fault."""
    rule = found.rule
    rows = None if rule is None else rule.as_rows
    if rows is None or not fault.narrows:
        return own_rule(found.op) or rule
    of, kept = _without.get((found.op, fault), (None, None))
    if of is not rows:
        kept = KeptRows(rows, fault.keeps, fault.accepts, fault.leaves_written)
        _without[found.op, fault] = rows, kept
    return kept


def is_needless(correction: Correction) -> bool:
    """Does the running torch not have this fault? So it is where the route of none of its ops asks
    about it: torch has single-dim rules for them, in which the fault is not."""
    return isinstance(correction, CallCorrection) and not any(
        correction in route_of(op).corrections for op in correction.ops
    )


# Who decides the calls inside of a decomposition asks for their routes in turn; see `decision`.
decomposer = Decomposer()


def route(schema: OpSchema, chooser: Chooser, completes: bool | None = None) -> Route:
    """The route of an op that is run with these arguments, under a policy.

    Args:
        schema: The op with its arguments.
        chooser: The policy.
        completes: Does a rule have the rows of the rule book? None: as the policy has it.
    """
    if not chooser.corrects or not has_own_order(schema):
        return _route(schema, chooser, completes)
    reordered = from_left_to_right(schema)
    found = _route(reordered, chooser, completes)
    fault = SHARD_ORDER if found.correction is None else found.correction
    return replace(found, correction=fault, reordered=reordered)


def _route(schema: OpSchema, chooser: Chooser, completes: bool | None) -> Route:
    """The route, whatever shard orders operands have."""
    found = route_by_arguments(schema, chooser)
    if completes is None:
        completes = chooser.completes
    if completes and found.rule is not None:
        found = replace(found, rule=completed(found.rule, schema.op))
    if found.rule is None or not chooser.corrects:
        return found
    if may_disagree(schema):
        return _decided_together(found, schema, chooser)
    if not found.minds_empty or not _core.has_empty_shard(schema.args_schema, core_mesh, True):
        return found
    rule = rule_for_all_ranks(schema, found.rule, chooser)
    return found if rule is None else replace(found, rule=rule, correction=EMPTY_SHARDS)


def _decided_together(found: Route, schema: OpSchema, chooser: Chooser) -> Route:
    """The route of a list op whose elements share a tensor.

    What they want one by one under a policy of our own is no fault of torch's.
    """
    assert found.rule is not None
    agreement = rule_that_agrees(schema, found.rule, chooser)
    if agreement is None:
        return replace(found, may_disagree=True)
    fault = SHARED_IN_LIST if agreement.disagreed and not chooser.has_own_plans else None
    return replace(found, rule=agreement.rule, correction=fault, may_disagree=True)


def route_by_arguments(schema: OpSchema, chooser: Chooser) -> Route:
    """The route of an op with its arguments, whether a rank can run it or not."""
    found = route_of(schema.op)
    if found.corrections:
        return _corrected(found, schema, chooser)
    if found.who is not Who.DECOMPOSITION:
        return found
    try:
        rule = decomposer.rows(schema, chooser)
    except Declined as declined:
        fault = WRITTEN_AND_MOVED if chooser.corrects and traits_of(schema.op).mutates else None
        return found.left_to_torch(str(declined), fault)
    return replace(found, rule=rule, correction=_fault_inside(schema, rule, chooser))


def _fault_inside(schema: OpSchema, rule: DecompositionRule, chooser: Chooser) -> Correction | None:
    """The fault that torch's own decision of an op that decomposes has, or may have."""
    if rule.correction is not None or rule.is_as_torchs:  # which is most often so
        return rule.correction
    question = rule.question(schema, None)
    if rule.would_move(question, chooser):
        return WRITTEN_AND_MOVED
    return LOCAL_SIZES if rule.would_misplace(question, chooser) else None


def _corrected(found: Route, schema: OpSchema, chooser: Chooser) -> Route:
    """The route of an op for which a rule of ours puts right what torch's rule does wrong."""
    fault = next((each for each in found.corrections if each.concerns(schema)), None)
    is_ours = found.rule is not None and found.rule.origin is Origin.SHARDPROP
    if fault is None or not (is_ours or chooser.corrects):
        return found
    if chooser.corrects and fault.refuses:
        return replace(found.left_to_torch(fault.name, fault), rule=None)
    if chooser.corrects:
        return replace(found, rule=_rule_without(fault, found), correction=fault)
    why = f"corrections are off ({fault.name})"
    way = TorchsWay.FULL_MESH_STRATEGY
    return replace(found, who=Who.TORCH, rule=None, way=way, declined=why)
