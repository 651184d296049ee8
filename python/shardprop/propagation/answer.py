"""From chosen placements to the OutputSharding that torch's dispatcher executes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .. import _core, _torch
from .._torch import (
    DTensorSpec,
    OpSchema,
    OutputSharding,
    Placement,
    TensorMeta,
    has_strided,
    make_spec,
)
from ..model.op_traits import OpTraits, traits_of
from ..model.question import Choice, OutputMeta, Question, strided_flag
from .rewrites import rewrite

__all__ = [
    "SpecMaker",
    "moves",
    "output_placements",
    "output_sharding",
    "strategy_placements",
    "suggestion",
    "wanted_specs",
]


class SpecMaker:
    """Makes specs with torch's answer to what their strided shards stand for.

    `arguments` are the specs of the whole op's positional arguments (torch lets them overrule what
    the operands said), `operands` those of the question that was asked; `strided_is_order` holds
    where none of them has a strided shard.
    """

    def __init__(
        self,
        arguments: Sequence[DTensorSpec],
        operands: Sequence[DTensorSpec],
        strided_is_order: bool = True,
    ) -> None:
        self._arguments = arguments
        self._operands = operands
        self._default = strided_is_order

    @functools.cached_property
    def _strided_is_order(self) -> bool:
        flags = {
            spec.use_strided_shard_as_shard_order
            for spec in self._arguments
            if has_strided(spec.placements)
        }
        if flags:  # two that contradict each other count as an order
            return flags.pop() if len(flags) == 1 else True  # type: ignore[return-value]
        flag = strided_flag(self._operands)
        return self._default if flag is None else flag

    def make(
        self, mesh: Any, placements: tuple[Placement, ...], meta: TensorMeta | None
    ) -> DTensorSpec:
        """A spec with the default shard order, as torch makes all specs of a decision."""
        return make_spec(mesh, placements, meta, has_strided(placements) and self._strided_is_order)

    def wanted(self, spec: DTensorSpec, choice: Choice, index: int) -> DTensorSpec:
        """The spec that operand `index` is to have. One pinned to another mesh stays as it is."""
        if index in choice.pinned and spec.mesh != choice.mesh:
            return self.make(spec.mesh, spec.placements, spec.tensor_meta)
        return self.make(choice.mesh, choice.operands[index], spec.tensor_meta)


def moves(spec: DTensorSpec, choice: Choice, index: int) -> bool:
    """Is operand `index` to have other placements? One that is pinned to its mesh is not. (For
    shard orders see `in_one_order`.)"""
    wanted = choice.operands[index]
    if spec.placements is wanted or spec.placements == wanted:
        return False
    return index not in choice.pinned or spec.mesh == choice.mesh


def _output_specs(
    facts: OpTraits, choice: Choice, meta: OutputMeta, maker: SpecMaker
) -> DTensorSpec | tuple[DTensorSpec | None, ...] | None:
    """The output specs with their metadata, in the container that torch gives them."""
    outputs = choice.outputs
    if not facts.returns_tensors:
        return None
    is_container = isinstance(meta, (tuple, list)) and not isinstance(meta, TensorMeta)
    if not outputs and not is_container:
        return None
    if len(outputs) == 1 and facts.returns_tuple:
        outputs = outputs * facts.returns
    elif len(outputs) == 1 and not choice.is_sequence:
        if not isinstance(meta, TensorMeta) or outputs[0] is None:
            raise _core.Unsupported("output without tensor metadata")
        return maker.make(choice.mesh, outputs[0], meta)
    if not is_container or len(meta) != len(outputs):  # type: ignore[arg-type]
        raise _core.Unsupported("outputs and their metadata differ in number")
    return tuple(
        None if placements is None or m is None else maker.make(choice.mesh, placements, m)  # type: ignore[arg-type]
        for placements, m in zip(outputs, meta, strict=True)  # type: ignore[arg-type]
    )


def _as_held(
    outputs: Sequence[tuple[Placement, ...] | None], operands: Sequence[DTensorSpec]
) -> tuple[tuple[Placement, ...] | None, ...]:
    """The placements of outputs, as the objects that operands have: torch compares them with those
    of what was written into at each call, which of objects that are the same takes no time."""
    held = {spec.placements: spec.placements for spec in operands}
    return tuple(None if each is None else held.get(each, each) for each in outputs)


def suggestion(schema: OpSchema, wanted: Sequence[DTensorSpec]) -> OpSchema:
    """The schema with its tensor arguments as wanted; lists come flattened, as in torch."""
    pytree = schema.schema_info is not None and schema.schema_info.needs_pytree
    args = _torch.tree_leaves(schema.args_schema) if pytree else schema.args_schema
    rest = iter(wanted)
    replaced = (next(rest) if isinstance(arg, DTensorSpec) else arg for arg in args)
    return OpSchema(schema.op, tuple(replaced), schema.kwargs_schema)


def output_sharding(schema: OpSchema, question: Question, choice: Choice) -> OutputSharding:
    """torch's decision object for the op that put the question, with torch's rewrites of shape,
    scalar and squeeze arguments.

    Raises:
        _core.Unsupported: outputs and metadata do not fit; torch words that error.
    """
    arguments = question.operands[: question.positional]
    maker = SpecMaker(arguments, question.operands, choice.strided_is_order)
    facts = traits_of(schema.op)
    meta = question.meta
    if facts.mutates:
        choice = choice._replace(outputs=_as_held(choice.outputs, question.operands))
    output = _output_specs(facts, choice, meta, maker)
    moved = any(moves(spec, choice, index) for index, spec in enumerate(arguments))
    rewrites = facts.rewrites_arguments
    if not moved and not rewrites:
        return OutputSharding(output)
    wanted = [maker.wanted(spec, choice, index) for index, spec in enumerate(arguments)]
    suggested = suggestion(schema, wanted) if moved else None
    rewritten = rewrite(schema, suggested, wanted, output, meta) if rewrites else None
    return OutputSharding(
        output,
        rewritten if rewritten is not None else suggested,
        needs_redistribute=moved or rewritten is not None,
        use_val_from_redistribute_schema=rewritten is not None,
    )


def wanted_specs(schema: OpSchema, sharding: OutputSharding) -> Sequence[DTensorSpec]:
    """The specs that a decision wants of the operands which torch's dispatcher may move: those
    among the positional arguments, lists flattened."""
    changed = sharding.redistribute_schema if sharding.needs_redistribute else None
    args = (changed or schema).args_schema
    return [x for x in _torch.tree_leaves(args) if isinstance(x, DTensorSpec)]


def output_placements(sharding: OutputSharding) -> tuple[tuple[Placement, ...] | None, ...]:
    """Per output of a decision its placements; None for one without a spec."""
    return _placements_of(sharding.output_spec)


def _placements_of(outputs: Any) -> tuple[tuple[Placement, ...] | None, ...]:
    specs = [outputs] if isinstance(outputs, DTensorSpec) else outputs or ()
    return tuple(None if spec is None else tuple(spec.placements) for spec in specs)


def strategy_placements(
    strategy: Any,
) -> tuple[tuple[tuple[Placement, ...] | None, ...], list[tuple[Placement, ...]], list[float]]:
    """Of a strategy that torch's own code enumerates: placements of outputs and operands, and the
    microseconds that it priced each operand at."""
    return (
        _placements_of(strategy.output_specs),
        [tuple(spec.placements) for spec in strategy.input_specs or ()],
        [float(sum(each)) for each in strategy.redistribute_cost or ()],
    )
