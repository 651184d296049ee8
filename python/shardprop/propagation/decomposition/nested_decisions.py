"""The decisions of the calls inside a decomposition, on torch's mesh of one rank.

torch asks its whole propagator for every call of every try. What we need of the answer is little:
does a tensor argument have to move (then the try is dropped), and what do the outputs get? That
depends on the call and the layouts of its inputs only, so each such question is put once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ... import _core
from ..._torch import (
    DataDependentError,
    DeviceMesh,
    DTensorSpec,
    OpSchema,
    OutputSharding,
    Replicate,
)
from ...corrections.correction import Correction
from ...errors import RefusedPlacementError
from ...model.question import NoStrategyError, OutputMeta
from ...rules import torch_registry
from ...rules.rule import DecompositionRule
from .by_rows import ByRows, DimLayout, DimLayouts, NotPlain, recorded
from .program import Call, Declined, OrderMatters, Program, Refused, fill

__all__ = ["Inside", "NestedDecisions"]


class Inside(NamedTuple):
    """The decision of a call inside a decomposition, and a fault of torch that it puts right.

    Attributes:
        sharding: None: an operand would have to move where torch does not see it.
        correction: The fault.
    """

    sharding: OutputSharding | None
    correction: Correction | None


class NestedDecisions:
    """Decisions of a program's calls.

    Args:
        program: The calls.
        mesh: torch's mesh of one rank.
        decide: Decides what rows alone do not.
        decompose: The rows of a call that has no rule at all; None if torch is to say.
        factories: Calls of factories are wanted.
        in_order: Answer a call as torch's cache of decisions would; the questions come in torch's
            order (see `history`).

    Attributes:
        in_order: As given.
        beyond_torch: A factory was answered for, here or in a decomposition inside.
        correction: A fault of torch's that was put right, here or in a decomposition inside.
    """

    def __init__(
        self,
        program: Program,
        mesh: DeviceMesh,
        decide: Callable[[OpSchema, OutputMeta], Inside],
        decompose: Callable[[OpSchema], DecompositionRule | None],
        factories: bool,
        in_order: bool,
    ) -> None:
        self.in_order = in_order
        self.beyond_torch = False
        self.correction: Correction | None = None
        self._program = program
        self._mesh = mesh
        self._decide = decide
        self._decompose = decompose
        self._factories = factories
        self._by_rows: dict[int, ByRows | None] = {}
        self._specs: dict[tuple[int, DimLayout], DTensorSpec] = {}
        self._history: dict[OpSchema, DimLayouts | None] | None = {} if in_order else None
        self._known: dict[tuple[int, tuple[DimLayout, ...]], DimLayouts | None] = {}

    def outputs(self, index: int, inputs: tuple[DimLayout, ...]) -> DimLayouts | None:
        """Layouts of the outputs of call `index`; None if an input would have to move.

        Raises:
            Declined: torch would give up the whole decomposition here, or we do not know.
        """
        key = (index, inputs)
        if key not in self._known:
            self._known[key] = self._ask(index, inputs)
        return self._known[key]

    def _ask(self, index: int, inputs: tuple[DimLayout, ...]) -> DimLayouts | None:
        call = self._program.calls[index]
        if call.is_factory:
            return self._of_factory(call)
        try:
            return self._decision(index, call, dict(zip(call.inputs, inputs, strict=True)))
        except OrderMatters:
            raise
        except NotImplementedError as error:
            raise Refused(str(error)) from error
        except Exception as error:
            if _drops_try(error):
                return None
            raise Declined(f"{call.op}: {error}") from error

    def _of_factory(self, call: Call) -> DimLayouts:
        if not self._factories:
            raise Refused(f"{call.op} without a tensor among its arguments")
        self.beyond_torch = True
        return (DimLayout(Replicate(), None),)

    def _decision(self, index: int, call: Call, layouts: dict[int, DimLayout]) -> DimLayouts | None:
        if self._history is not None:
            schema = self._schema(call, layouts)
            if schema not in self._history:
                self._history[schema] = self._fresh(
                    call, self._by_rows_of(index, call), schema, layouts
                )
            return self._history[schema]
        by_rows = self._by_rows_of(index, call)
        if by_rows is not None and not by_rows.corrections:
            found = by_rows.from_table(layouts)
            if found is not None:
                return found[0]
        return self._fresh(call, by_rows, self._schema(call, layouts), layouts)

    def _fresh(
        self, call: Call, by_rows: ByRows | None, schema: OpSchema, layouts: dict[int, DimLayout]
    ) -> DimLayouts | None:
        if by_rows is not None and not any(c.concerns(schema) for c in by_rows.corrections):
            try:
                rows = by_rows.rule or self._rows_of_decomposed(schema)
                return by_rows.from_core(schema, layouts, rows)
            except (_core.Unsupported, _core.RuleError, NoStrategyError, NotPlain):
                pass
        if self.beyond_torch and self._is_left_to_torch(schema):
            # torch refuses the outer op anyway, and would try every combination of placements.
            raise Refused(f"{call.op} has no rows of ours")
        inside = self._decide(schema, call.meta)
        self.correction = self.correction or inside.correction
        return None if inside.sharding is None else recorded(call, schema, inside.sharding)

    def _by_rows_of(self, index: int, call: Call) -> ByRows | None:
        if index not in self._by_rows:
            try:
                self._by_rows[index] = ByRows(self._program, call, self._mesh)
            except NotPlain:
                self._by_rows[index] = None
        return self._by_rows[index]

    def _rows_of_decomposed(self, schema: OpSchema) -> DecompositionRule:
        if torch_registry.has_rule(schema.op):
            raise NotPlain
        found = self._decompose(schema)
        if found is None:
            raise NotPlain
        self.beyond_torch |= found.refused_by_torch
        self.correction = self.correction or found.correction
        return found

    def _is_left_to_torch(self, schema: OpSchema) -> bool:
        return not torch_registry.has_rule(schema.op) and self._decompose(schema) is None

    def _schema(self, call: Call, layouts: dict[int, DimLayout]) -> OpSchema:
        specs = {value: self._spec(value, layout) for value, layout in layouts.items()}
        args = tuple(fill(arg, lambda ref: specs[ref.value]) for arg in call.args)
        kwargs = {k: fill(arg, lambda ref: specs[ref.value]) for k, arg in call.kwargs.items()}
        return torch_registry.op_schema(call.op, args, kwargs)

    def _spec(self, value: int, layout: DimLayout) -> DTensorSpec:
        key = (value, layout)
        if key not in self._specs:
            self._specs[key] = DTensorSpec(
                self._mesh,
                (layout.placement,),
                tensor_meta=self._program.metas[value],
                use_strided_shard_as_shard_order=layout.strided_is_order,
            )
        return self._specs[key]


def _drops_try(error: Exception) -> bool:
    """Does torch drop a combination of placements for this error, rather than the whole op?"""
    if isinstance(error, NotImplementedError | DataDependentError):
        return False  # these are RuntimeErrors, too
    return isinstance(error, RuntimeError | KeyError | IndexError | RefusedPlacementError)
