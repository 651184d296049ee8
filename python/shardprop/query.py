"""Questions a program can put to the core without running an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core, registry
from ._torch import DTensorSpec, OpOverload, OutputSharding, Placement
from .decision import ReadOut, ask, question_of, rule_of
from .engine import Choice, NoStrategyError, Question, prepare
from .errors import ShardpropError
from .exact import ExactPlanner
from .metadata import output_meta
from .op_facts import op_facts
from .outputs import output_sharding
from .plans import Step
from .policy import OptimalPolicy, Policy
from .policy_settings import TopologyLike, exact_planner
from .propagator import current_policy, redistribution
from .redistribute_plan import Plan

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


def _check_specs(op: OpOverload, specs: list[DTensorSpec]) -> None:
    if not specs:
        raise ShardpropError(f"{op}: Expected a DTensorSpec among the arguments, got none.")
    for index, spec in enumerate(specs):
        if spec.tensor_meta is None:
            raise ShardpropError(
                f"{op}, operand {index}: Expected a spec with tensor metadata, got None. Pass "
                "tensor_meta=TensorMeta(shape, stride, dtype) to DTensorSpec."
            )
        if len(spec.placements) != spec.mesh.ndim:
            raise ShardpropError(
                f"{op}, operand {index}: Expected {spec.mesh.ndim} placements, one for each mesh "
                f"dim, got {len(spec.placements)}."
            )


def propagate(op: OpOverload, *args: Any, **kwargs: Any) -> Decision:
    """The decision for an op under the policy that is enabled, without running anything.

    Under policy ``"torch"`` while shardprop is not enabled.

    Args:
        op: An overload that has a rule, torch's or ours, such as ``torch.ops.aten.mm.default``.
        *args: Its arguments, with DTensorSpec in place of tensors.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        ShardpropError: there is no rule, the rule is malformed, the operands do not fit together,
            or no strategy is valid; the message names operator and operand.
    """
    return _decision(op, args, kwargs, current_policy().choose)


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
        ShardpropError: as `propagate` does; or policy ``"optimal"`` is not enabled, or there are
            not as many consumers as outputs.
    """
    policy = current_policy()
    if not isinstance(policy, OptimalPolicy):
        raise ShardpropError("Expected policy 'optimal' to be enabled, got policy 'torch'.")

    def choose(question: Question, rule: Any) -> Choice:
        return policy.planner.choose(question, prepare(question, rule), consumers, 1.0)

    return _decision(op, args, kwargs, choose)


def _decision(
    op: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    choose: Callable[[Question, Any], Choice],
) -> Decision:
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
    _check_specs(op, question_specs)
    if op_facts(op).is_list_op:
        raise ShardpropError(f"{op}: Expected an op on single tensors, got a list op.")
    try:
        meta = output_meta(schema)
        question = question_of(schema, meta, rule)
        _check_specs(op, question.operands)
        choice = ask(rule, current_policy(), choose)(question)
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
        memory_limit: For ``"optimal"``: bytes that a rank may hold at once during a step.

    Raises:
        ShardpropError: two meshes, a rank outside the mesh, a spec without metadata, no plan, a
            topology with a fault, or (policy ``"torch"``) a plan of torch's that moves wrong data.
    """
    for name, spec in (("src", src), ("dst", dst)):
        if spec.tensor_meta is None:
            raise ShardpropError(f"{name}: Expected a spec with tensor metadata, got None.")
    if src.mesh is not dst.mesh and src.mesh != dst.mesh:
        raise ShardpropError("Expected two specs on one mesh, got two meshes.")
    current = current_policy()
    if policy is None:
        policy = current.name if topology is None else "optimal"
    try:
        if policy == "torch":
            if memory_limit is not None:
                raise ShardpropError("Expected memory_limit with policy 'optimal' alone.")
            steps: Sequence[Step] | None = exact_planner(topology or "torch").priced(
                src, dst, redistribution.merged(src, dst)
            )
        elif policy == "optimal":
            steps = _planner(current, topology, memory_limit).steps(src, dst)
        else:
            raise ShardpropError(f"Expected policy 'torch' or 'optimal', got {policy!r}.")
    except _core.Unsupported as reason:
        raise ShardpropError(f"Expected specs that the core models, got a {reason}.") from None
    if steps is None:
        raise ShardpropError(_why_no_plan(src, dst, memory_limit))
    return Plan(src, dst, tuple(steps), policy)


def _planner(
    current: Policy, topology: TopologyLike | None, memory_limit: float | None
) -> ExactPlanner:
    """The planner that is enabled, if it is the one asked for, or one of its own."""
    if not isinstance(current, OptimalPolicy):
        return exact_planner(topology, memory_limit)
    if topology is None and memory_limit is None:
        return current.planner
    return exact_planner(topology or current.planner.topology, memory_limit)


def _why_no_plan(src: DTensorSpec, dst: DTensorSpec, memory_limit: float | None) -> str:
    limit = "" if memory_limit is None else f" that holds at most {memory_limit:.0f} bytes"
    return (
        f"No plan{limit} from {src.placements} to {dst.placements} on a mesh of "
        f"{tuple(src.mesh.shape)}. Only a sum, an average, a minimum or a maximum can be made of "
        "replicated data, beside partials that it mixes with; raise memory_limit if it is set."
    )


def redistribute_cost(src: DTensorSpec, dst: DTensorSpec) -> float:
    """The price of a redistribution in microseconds, under the policy that is enabled.

    Under policy ``"torch"``, and while shardprop is not enabled, torch's own (``inf`` where torch
    refuses it); under policy ``"optimal"`` that of the cheapest plan (``inf`` where there is none).

    Raises:
        AssertionError: torch's graph planner finds no path.
    """
    return current_policy().cost(src, dst)
