"""Questions a program can put to the core without running an op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _core, registry
from ._torch import DTensorSpec, OpOverload, OutputSharding, Placement
from .decision import ReadOut, ask, question_of, rule_of
from .engine import NoStrategyError
from .errors import ShardpropError
from .metadata import output_meta
from .op_facts import op_facts
from .outputs import output_sharding
from .propagator import redistribution
from .redistribution import Plan

__all__ = ["Decision", "plan", "propagate", "redistribute_cost"]


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
    """

    outputs: tuple[tuple[Placement, ...] | None, ...]
    operands: tuple[tuple[Placement, ...], ...]
    operand_costs: tuple[float, ...]
    cost: float
    nodes: int
    sharding: OutputSharding


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
    """The core's decision for an op, as `enable` would have it, without running anything.

    Args:
        op: An overload that has a rule, torch's or ours, such as ``torch.ops.aten.mm.default``.
        *args: Its arguments, with DTensorSpec in place of tensors.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        ShardpropError: there is no rule, the rule is malformed, the operands do not fit together,
            or no strategy is valid; the message names operator and operand.
    """
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
        choice = ask(rule, redistribution)(question)
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
    )


def plan(src: DTensorSpec, dst: DTensorSpec) -> Plan:
    """torch's plan from one layout to another, as a fresh planner of torch would make it.

    Raises:
        ShardpropError: two meshes, a rank outside the mesh, or no plan.
    """
    return redistribution.plan(src, dst)


def redistribute_cost(src: DTensorSpec, dst: DTensorSpec) -> float:
    """torch's price of a redistribution in microseconds (``inf`` where torch refuses it).

    Raises:
        AssertionError: torch's graph planner finds no path.
    """
    return redistribution.cost(src, dst)
