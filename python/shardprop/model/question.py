"""A question about an op, and what comes of it: the types that every rule and policy share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

from .. import _core, _torch
from .._torch import DeviceMesh, DTensorSpec, OpOverload, OpSchema, TensorMeta, has_strided
from .op_traits import traits_of
from .placements import Placements

__all__ = [
    "DECLINED",
    "Choice",
    "NoStrategyError",
    "OutputMeta",
    "Placed",
    "Question",
    "is_listed",
    "metas_of",
    "question_of",
    "staying_operands",
    "strided_flag",
    "with_operands",
    "written_cells",
]

# Metadata of an op's outputs: of one tensor, a list with None for an output that is absent, or None
# where there is nothing to tell.
OutputMeta = TensorMeta | Sequence[TensorMeta | None] | None


def is_listed(meta: OutputMeta) -> TypeGuard[Sequence[TensorMeta | None]]:
    """Is it a list? (To Python, a TensorMeta is a tuple, too.)"""
    return isinstance(meta, (tuple, list)) and not isinstance(meta, TensorMeta)


def metas_of(meta: OutputMeta) -> Sequence[TensorMeta | None]:
    """The metadata of each output, None for one that is absent; none where none is told."""
    if isinstance(meta, TensorMeta):
        return (meta,)
    return () if meta is None else meta


class NoStrategyError(Exception):
    """The core looked and found nothing to choose; torch says why in its own words."""


# What the core leaves an op to torch for.
DECLINED = (_core.Unsupported, _core.RuleError, NoStrategyError)


class Question(NamedTuple):
    """An op (or one element of a list op) with specs in place of tensors.

    Attributes:
        op: The op that was called.
        rule_op: The op whose rule is asked: the scalar overload for an element of a list op.
        args: Positional arguments; tensors as DTensorSpec, lists as they are.
        kwargs: Keyword arguments, likewise.
        operands: The specs torch counts as inputs: of `args`, then of `kwargs`.
        positional: How many of them come from `args`.
        meta: Metadata of the outputs.
        mesh: The mesh to compute on where no positional operand has one.
        is_element: One element of a list op.
    """

    op: OpOverload
    rule_op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    operands: list[DTensorSpec]
    positional: int
    meta: OutputMeta
    mesh: DeviceMesh | None
    is_element: bool = False


class Choice(NamedTuple):
    """What the core chose.

    Attributes:
        outputs: Per output its placements over the mesh; None for an output that is absent.
        operands: Per operand the wanted placements.
        mesh: The mesh of the outputs.
        cost: Sum of `operand_costs` as Python sums them, in microseconds.
        operand_costs: Microseconds to redistribute each operand.
        nodes: Partial strategies the search looked at.
        pinned: Operands (by index) that may live on another mesh (``different_mesh_args``).
        is_sequence: The outputs are a sequence even if there is only one.
        strided_is_order: What strided shards of the answer stand for where no operand has any.
        output_cost: Microseconds that the outputs will cost later; None where they did not count.
        gap: Microseconds by which another choice may be cheaper under the policy; 0: none is.
    """

    outputs: tuple[Placements | None, ...]
    operands: tuple[Placements, ...]
    mesh: DeviceMesh
    cost: float
    operand_costs: list[float]
    nodes: int
    pinned: tuple[int, ...]
    is_sequence: bool = False
    strided_is_order: bool = True
    output_cost: float | None = None
    gap: float = 0.0


class Placed(NamedTuple):
    """Where a decision wants the operands of an op.

    Attributes:
        operands: Per operand the placements it is to have.
        operand_costs: Microseconds to bring each operand there.
        cost: Microseconds in all.
    """

    operands: tuple[Placements, ...]
    operand_costs: tuple[float, ...]
    cost: float


def question_of(schema: OpSchema, meta: OutputMeta, mesh: DeviceMesh | None = None) -> Question:
    """The question that an op which is not decided element by element puts to the core.

    Args:
        schema: The op with its arguments.
        meta: Metadata of the outputs.
        mesh: The mesh to compute on where no positional operand has one.
    """
    operands = list(schema.args_spec)
    positional = len(operands)
    kwargs = schema.kwargs_schema
    if kwargs:
        pytree = schema.schema_info is not None and schema.schema_info.needs_pytree
        values = _torch.tree_leaves(kwargs) if pytree else kwargs.values()
        operands += [value for value in values if isinstance(value, DTensorSpec)]
    return Question(
        schema.op, schema.op, schema.args_schema, kwargs, operands, positional, meta, mesh
    )


def with_operands(question: Question, operands: Sequence[Any]) -> Question:
    """The question with something else, mostly other specs, in the place of its operands."""
    rest = iter(operands)

    def filled(item: Any) -> Any:
        if isinstance(item, DTensorSpec):
            return next(rest)
        if type(item) in (list, tuple):
            return type(item)(map(filled, item))
        return item

    args = tuple(map(filled, question.args))
    kwargs = {name: filled(value) for name, value in question.kwargs.items()}
    return question._replace(args=args, kwargs=kwargs, operands=list(operands))


def staying_operands(question: Question) -> list[int]:
    """Operands that torch's dispatcher cannot move: keyword arguments, which it never does, and
    those the op writes into, since it would write into a copy.

    torch does not look at these when it decides, so neither do we where the rule is its own.
    """
    keyword = range(question.positional, len(question.operands))
    return [
        *keyword,
        *itertools.chain(*_in_arguments(question, traits_of(question.op).written).values()),
    ]


def written_cells(question: Question, outputs: int) -> list[tuple[int, int]]:
    """Cells of a row that are of a tensor which the op writes into, each with that operand: the
    operand's own, and that of the output it is returned as."""
    traits = traits_of(question.op)
    written = _in_arguments(question, traits.written)
    pairs = [(outputs + operand, operand) for each in written.values() for operand in each]
    pairs += [
        (output, operand)
        for output, position in traits.returned
        if output < outputs
        for operand in written[position][:1]
    ]
    for output, name in enumerate(traits.out_arguments):
        spec = question.kwargs.get(name)
        for operand in range(question.positional, len(question.operands)):
            if question.operands[operand] is spec:
                pairs += [(outputs + operand, operand), (output, operand)]
    return pairs


def _in_arguments(question: Question, positions: Sequence[int]) -> dict[int, range]:
    """Per position among the arguments the operands that it has."""
    found: dict[int, range] = {}
    if positions:
        operand = 0
        for position, arg in enumerate(question.args):
            count = len([x for x in _torch.tree_leaves(arg) if isinstance(x, DTensorSpec)])
            if position in positions:
                found[position] = range(operand, operand + count)
            operand += count
    return found


def strided_flag(operands: Sequence[DTensorSpec]) -> bool | None:
    """Do strided shards of a candidate stand for a shard order? As the first operand that has
    some says; None if none has."""
    for operand in operands:
        if has_strided(operand.placements):
            return operand.use_strided_shard_as_shard_order
    return None
