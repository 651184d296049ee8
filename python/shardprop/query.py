"""Questions a program can put to the core without running an op."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core, registry
from ._torch import DTensorSpec, OpOverload, OutputSharding, Placement
from .decision import ReadOut, ask, question_of, rule_of
from .engine import Choice, NoStrategyError, Question, prepare
from .errors import ShardpropError
from .exact import ExactPlanner, NotReached
from .metadata import output_meta
from .no_plan import why_no_plan, why_no_strategy
from .op_facts import op_facts
from .optimal_policy import OptimalPolicy
from .outputs import output_sharding
from .policy import Policy
from .policy_settings import TopologyLike, planner_for_plans
from .propagator import current_policy, redistribution
from .redistribute_plan import Plan
from .rules import FollowRule
from .spec_checks import check_ends, check_spec, refuse_mixed_partials

__all__ = ["Decision", "plan", "propagate", "propagate_toward", "redistribute_cost"]


@dataclass(frozen=True)
class Decision:
    """What the core chose for an op.

    Attributes:
        outputs: Per output its placements over the mesh; None for an output that is absent.
        operands: Per operand (tensors among the arguments, then the keyword arguments) the
            placements it is to have.
        operand_costs: Microseconds to bring each operand there.
        cost: Their sum, in microseconds.
        nodes: Partial strategies the search looked at.
        sharding: The decision as torch's dispatcher executes it.
        output_cost: Microseconds that the outputs will cost later, as far as they were weighed.
    """

    outputs: tuple[tuple[Placement, ...] | None, ...]
    operands: tuple[tuple[Placement, ...], ...]
    operand_costs: tuple[float, ...]
    cost: float
    nodes: int
    sharding: OutputSharding
    output_cost: float = 0.0


def _check_specs(op: OpOverload, specs: list[DTensorSpec], policy: Policy) -> None:
    if not specs:
        raise ShardpropError(f"{op}: Expected a DTensorSpec among the arguments, got none.")
    for index, spec in enumerate(specs):
        check_spec(f"{op}, operand {index}", spec)
        if isinstance(policy, OptimalPolicy):
            # torch decides on them, but moves them not.
            refuse_mixed_partials(f"{op}, operand {index}", spec)


def propagate(op: OpOverload, *args: Any, **kwargs: Any) -> Decision:
    """The decision for an op under the policy that is enabled, without running anything.

    Under policy ``"torch"`` while shardprop is not enabled.

    Args:
        op: An overload that has a rule, torch's or ours, such as ``torch.ops.aten.mm.default``.
        *args: Its arguments, with DTensorSpec in place of tensors.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        ShardpropError: there is no rule, the rule is malformed, the operands do not fit together,
            or no strategy is valid; the message names operator and operand. Under policy
            ``"optimal"`` also where it has no answer: torch's is never given in its place.
    """
    policy = current_policy()
    return _decision(op, args, kwargs, _strictly(policy))


def _strictly(policy: Policy) -> Policy:
    return policy.strictly() if isinstance(policy, OptimalPolicy) else policy


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
    if isinstance(rule_of(op), FollowRule):
        raise ShardpropError(
            f"{op}: Expected an op that is decided by strategies, got one whose outputs follow its "
            "operands: what their consumers want changes nothing. Ask propagate."
        )
    strict = policy.strictly()

    def choose(question: Question, rule: Any) -> Choice:
        prepared = prepare(question, rule, always_shards=True)
        try:
            return strict.planner.choose(question, prepared, consumers, 1.0)
        except NotReached:
            limit = strict.planner.memory_limit
            raise ShardpropError(why_no_strategy(op, question.operands, limit)) from None

    return _decision(op, args, kwargs, strict, choose)


def _decision(
    op: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    policy: Policy,
    choose: Callable[[Question, Any], Choice] | None = None,
) -> Decision:
    """The decision of `policy`; `choose`, if given, stands in for its own."""
    rule = rule_of(op)
    if isinstance(rule, ReadOut):
        raise ShardpropError(f"{op}: Expected an op on tensors, got one that reads a number out.")
    if rule is None:
        raise ShardpropError(
            f"{op}: Expected an op with a rule, got one that torch decides by "
            f"{registry.why_no_single_dim_rule(op)}."
        )
    schema = registry.op_schema(op, args, kwargs)
    question_specs = [*schema.args_spec]
    _check_specs(op, question_specs, policy)
    if op_facts(op).is_list_op:
        raise ShardpropError(f"{op}: Expected an op on single tensors, got a list op.")
    try:
        meta = output_meta(schema)
        question = question_of(schema, meta, rule)
        _check_specs(op, question.operands, policy)
        choice = ask(rule, policy, choose)(question)
        if isinstance(policy, OptimalPolicy) and math.isinf(choice.cost):
            limit = policy.planner.memory_limit
            raise ShardpropError(why_no_strategy(op, question.operands, limit))
        sharding = output_sharding(schema, question, choice)
    except (_core.RuleError, _core.Unsupported, NoStrategyError) as error:
        raise ShardpropError(f"{op}: {error}") from None
    return Decision(
        choice.outputs,
        choice.operands,
        tuple(choice.operand_costs),
        choice.cost,
        choice.nodes,
        sharding,
        choice.output_cost,
    )


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
            ``"torch"``) a plan of torch's that moves wrong data.
    """
    check_ends(src, dst)
    current = current_policy()
    if policy is None:
        policy = current.name if topology is None else "optimal"
    if policy not in ("torch", "optimal"):
        raise ShardpropError(f"Expected policy 'torch' or 'optimal', got {policy!r}.")
    if policy == "torch" and memory_limit is not None:
        raise ShardpropError("Expected memory_limit with policy 'optimal' alone.")
    try:
        if policy == "torch":
            planner = planner_for_plans("torch" if topology is None else topology, None)
            steps = planner.priced(src, dst, redistribution.merged(src, dst))
        else:
            planner = _planner(current, topology, memory_limit)
            found = planner.steps(src, dst)
            if found is None:
                raise ShardpropError(why_no_plan(src, dst, planner.memory_limit))
            steps = found
    except _core.Unsupported as reason:
        raise ShardpropError(f"Expected specs that the core models, got a {reason}.") from None
    return Plan(src, dst, tuple(steps), policy)


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
