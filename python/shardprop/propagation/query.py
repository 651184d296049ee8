"""Questions a program can put to the core without running an op."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core, _torch
from .._torch import DTensorSpec, OpOverload, OpSchema, OutputSharding
from ..errors import ShardpropError
from ..model.placements import Placements
from ..model.question import DECLINED, Choice, Placed
from ..model.spec_checks import check_ends, check_spec, refuse_mixed_partials
from ..redistribution.errors import why_no_plan, why_no_strategy
from ..redistribution.optimal_planner import ExactPlanner
from ..redistribution.plan import Plan
from ..rules.rule import Chooser, Origin, Rule, RuleFacts
from .answer import output_placements
from .asked import asked_of
from .decision import (
    decide_by_torch,
    left_to_torch,
    placed_as,
    read_out,
)
from .list_ops import is_list_op
from .op_call import call_schema, specs_of
from .optimal_policy import OptimalPolicy
from .policy import Asking, Policy
from .policy_settings import TopologyLike, planner_for_plans
from .propagator import current_policy, current_terms, torch_planner, uncounted
from .route import Route, Who, route
from .shard_orders import in_one_order

__all__ = ["Decision", "plan", "propagate", "propagate_toward", "redistribute_cost"]


@dataclass(frozen=True)
class Decision:
    """What an op is decided to be.

    Attributes:
        outputs: Per output its placements over the mesh; None for an output that is absent. A list
            of outputs comes flattened.
        operands: Per operand (tensors among the arguments, then the keyword arguments; lists
            flattened) the placements it is to have.
        operand_costs: Microseconds to bring each operand there.
        cost: Their sum, in microseconds; of a list op, the sum over its elements.
        nodes: Partial strategies the search looked at; 0 where torch decides.
        sharding: The decision as torch's dispatcher executes it.
        output_cost: Microseconds that the outputs will cost later, as far as they were weighed.
        gap: Microseconds by which another strategy may be cheaper, where the proof would have taken
            too long; 0: none is.
        route: Who decides, by which rule, and why.
    """

    outputs: tuple[Placements | None, ...]
    operands: tuple[Placements, ...]
    operand_costs: tuple[float, ...]
    cost: float
    nodes: int
    sharding: OutputSharding
    output_cost: float
    gap: float
    route: Route

    @property
    def who(self) -> Who:
        """Who decides: the core, the core by the rows of a decomposition, torch, or nobody
        (``Who.READ_OUT``: nothing is placed)."""
        return self.route.who

    @property
    def rule(self) -> RuleFacts:
        """What decides, and where its code is."""
        return self.route.facts

    @property
    def why(self) -> str:
        """The reason in a sentence."""
        return self.route.why

    @property
    def refused_by_torch(self) -> bool:
        """Does torch alone refuse this op on these operands?"""
        return self.route.refused_by_torch


def _check_specs(schema: OpSchema, policy: Policy) -> None:
    op = schema.op
    for index, spec in enumerate(specs_of(schema)):
        check_spec(f"{op}, operand {index}", spec)
        if isinstance(policy, OptimalPolicy):
            # torch decides on such operands, but cannot move them.
            refuse_mixed_partials(f"{op}, operand {index}", spec)


def propagate(op: OpOverload, *args: Any, **kwargs: Any) -> Decision:
    """The decision for an op under the policy that is enabled, without running anything: the one
    that a run takes, whether the core or torch makes it.

    Under policy ``"torch"`` while shardprop is not enabled.

    Args:
        op: An overload such as ``torch.ops.aten.mm.default``; a list op, or one that decomposes.
        *args: Its arguments, with DTensorSpec in place of tensors.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        ShardpropError: nobody has a rule for the op, the rule is malformed, the arguments are none
            for the op, the operands do not fit together, no strategy is valid, or torch's
            dispatcher decides nothing about the op; the message names operator and operand. Under
            policy ``"optimal"`` also where it has no answer: torch's is never given in its place.
        Exception: what a rule raises that the program registered.
    """
    policy = current_policy().strictly()
    chooser = Asking(policy, policy.choose_at_its_price)
    return _decision(call_schema(op, args, kwargs), policy, chooser)


def propagate_toward(
    consumers: Sequence[DTensorSpec | None],
    op: OpOverload,
    *args: Any,
    **kwargs: Any,
) -> Decision:
    """`propagate` under policy ``"optimal"``, where it is known what becomes of the outputs.

    The price of bringing each output to what its consumer wants counts like that of the operands: a
    Partial that has to be reduced later is no bargain.

    Args:
        consumers: Per output the spec that its consumer wants. None: the nearest layout without a
            pending partial.
        op: As in `propagate`, and so are its arguments.
        *args: See there.
        **kwargs: See there.

    Raises:
        ShardpropError: as `propagate` does; or policy ``"optimal"`` is not enabled, the consumers
            do not fit the outputs, or the op's outputs follow its operands without a choice among
            strategies.
    """
    policy = current_policy()
    if not isinstance(policy, OptimalPolicy):
        raise ShardpropError("Expected policy 'optimal' to be enabled, got policy 'torch'.")
    if not isinstance(consumers, (list, tuple)) or isinstance(consumers, DTensorSpec):
        raise ShardpropError(
            f"consumers: Expected a list of a DTensorSpec or None for each output, got {consumers}."
        )
    strict = policy.strictly()
    schema = call_schema(op, args, kwargs)
    toward = Asking(strict, functools.partial(strict.choose_toward, consumers=consumers))
    return _decision(schema, strict, toward, searched=True)


def _decision(
    schema: OpSchema, policy: Policy, chooser: Chooser, *, searched: bool = False
) -> Decision:
    """The decision; `chooser` asks the policy.

    `searched`: only of an op that is decided by a search among strategies.
    """
    _check_specs(schema, policy)
    # As torch's dispatcher asks: a decomposition comes apart otherwise from outside.
    with uncounted(), _torch.as_dispatched():
        # A policy of its own would have the rows of decompositions found anew.
        found = route(schema, current_policy())
        if found.who is Who.HANDLER:
            raise ShardpropError(found.nothing_is_decided)
        if searched:
            _check_searched(schema, found)
        if found.who is Who.READ_OUT:
            return _made(found, _as_given(schema), read_out(schema, policy))
        if found.rule is None:
            return _by_torch(schema, found, policy)
        return _by_rule(schema, found, found.rule, policy, chooser)


def _check_searched(schema: OpSchema, found: Route) -> None:
    """Is the op decided by a search among strategies, whose outputs could be weighed?"""
    if found.rule is None:
        raise ShardpropError(
            f"{schema.op}: Expected an op that is decided by a search, got one that is not. "
            f"{found.why} What consumers want changes nothing. Ask propagate."
        )
    if found.rule.as_rows is None:
        raise ShardpropError(
            f"{schema.op}: Expected an op that is decided by a search, got one whose outputs "
            "follow its operands: what their consumers want changes nothing. Ask propagate."
        )
    if is_list_op(schema):
        raise ShardpropError(
            f"{schema.op}: Expected an op on single tensors, got a list op: what consumers want of "
            "each element is asked for by propagate_toward on the op of one element."
        )


def _by_rule(
    schema: OpSchema, found: Route, rule: Rule, policy: Policy, chooser: Chooser
) -> Decision:
    """The core's decision; torch's where the core declines under policy ``"torch"``."""
    try:
        asked = asked_of(found.reordered or schema, rule)
        choices = [rule.choose(question, chooser) for question in asked.questions]
        placed = asked.placed(choices)
        if isinstance(policy, OptimalPolicy) and math.isinf(placed.cost):
            limit, operands = policy.planner.memory_limit, asked.questions[0].operands
            raise ShardpropError(why_no_strategy(schema.op, operands, limit))
        sharding = asked.sharding(choices)
        if found.reordered is not None:
            sharding = in_one_order(schema, sharding)
            _, placed = placed_as(schema, sharding, policy)
        return _made(found, placed, sharding, choices)
    except DECLINED as error:
        declined = error.with_traceback(None)
    except ShardpropError:
        raise
    except Exception as error:
        if rule.origin is Origin.REGISTERED:
            raise
        raise ShardpropError(
            f"{schema.op}: Expected operands that fit together, got {type(error).__name__}: {error}"
        ) from error
    left = left_to_torch(schema, found, declined, current_terms().strict)
    if isinstance(policy, OptimalPolicy) or not isinstance(declined, _core.Unsupported):
        raise ShardpropError(f"{schema.op}: {declined}")
    return _by_torch(schema, left, policy)


def _made(
    found: Route, placed: Placed, sharding: OutputSharding, choices: Sequence[Choice] = ()
) -> Decision:
    return Decision(
        output_placements(sharding),
        *placed,
        nodes=sum(choice.nodes for choice in choices),
        sharding=sharding,
        output_cost=sum(choice.output_cost or 0.0 for choice in choices),
        gap=sum(choice.gap for choice in choices),
        route=found,
    )


def _as_given(schema: OpSchema) -> Placed:
    operands = tuple(tuple(spec.placements) for spec in specs_of(schema))
    return Placed(operands, (0.0,) * len(operands), 0.0)


def _by_torch(schema: OpSchema, found: Route, policy: Policy) -> Decision:
    """torch's decision, priced by the policy."""
    try:
        sharding = decide_by_torch(schema, found, policy)
    except ShardpropError:
        raise
    except Exception as error:
        if found.rule is not None:
            raise ShardpropError(f"{schema.op}: {found.reason}") from None
        raise ShardpropError(
            f"{schema.op}: Expected an op with a rule, got one that torch decides by "
            f"{found.reason} and refuses: {str(error).strip() or type(error).__name__}"
        ) from None
    _, placed = placed_as(schema, sharding, policy)
    return _made(found, placed, sharding)


def plan(
    src: DTensorSpec,
    dst: DTensorSpec,
    *,
    policy: str | None = None,
    topology: TopologyLike | None = None,
    memory_limit: float | None = None,
) -> Plan:
    """The plan from one layout to another, with its steps and what they cost.

    Args:
        src: What the tensor starts from; with tensor metadata.
        dst: What it is to become, on the same mesh.
        policy: ``"optimal"``: the cheapest plan under a cost model. ``"torch"``: torch's own, as a
            fresh planner of torch would make it, its collectives merged as torch merges them. None:
            the policy that is enabled, or ``"optimal"`` where a topology is given.
        topology: As in `enable`; None: the one that is enabled with policy ``"optimal"``, and
            torch's ring model (``"torch"``) for policy ``"torch"``.
        memory_limit: For ``"optimal"``: bytes that a rank may hold at once during a step. None: the
            limit that is enabled where the enabled topology counts, too; else any.

    Raises:
        ShardpropError: what is no spec or has no metadata, two meshes, shapes or dtypes, mixed
            partials, a rank outside the mesh, no plan, a topology with a fault, or (policy
            ``"torch"`` without corrections) a plan of torch's that moves wrong data.
    """
    check_ends(src, dst)
    current = current_policy()
    made_by: ExactPlanner | None = None
    if policy is None:
        policy = current.name if topology is None else "optimal"
    if policy not in ("torch", "optimal"):
        raise ShardpropError(f"Expected policy 'torch' or 'optimal', got {policy!r}.")
    if policy == "torch" and memory_limit is not None:
        raise ShardpropError("Expected memory_limit with policy 'optimal' alone.")
    try:
        if policy == "torch":
            planner = planner_for_plans("torch" if topology is None else topology, None)
            steps = planner.priced(src, dst, torch_planner().merged(src, dst))
        else:
            planner = made_by = _planner(current, topology, memory_limit)
            found = planner.steps(src, dst)
            if found is None:
                raise ShardpropError(why_no_plan(src, dst, planner.memory_limit))
            steps = found
    except _core.Unsupported as reason:
        raise ShardpropError(f"Expected specs that the core models, got a {reason}.") from None
    return Plan(src, dst, tuple(steps), policy, made_by)


def _planner(
    current: Policy, topology: TopologyLike | None, memory_limit: float | None
) -> ExactPlanner:
    """The planner that is enabled, if it is the one asked for, or one of its own."""
    if not isinstance(current, OptimalPolicy):
        return planner_for_plans(topology, memory_limit)
    if topology is None and memory_limit is None:
        return current.planner
    return planner_for_plans(
        current.planner.topology if topology is None else topology, memory_limit
    )


def redistribute_cost(src: DTensorSpec, dst: DTensorSpec) -> float:
    """The price of a redistribution in microseconds, under the policy that is enabled.

    Under policy ``"torch"``, and while shardprop is not enabled, torch's own (``inf`` where torch
    refuses it); under policy ``"optimal"`` that of the cheapest plan (``inf`` where there is none).

    Raises:
        ShardpropError: policy ``"optimal"`` is enabled with ``strict``, and has no answer.
        AssertionError: torch's graph planner finds no path.
    """
    return current_policy().cost(src, dst)
