"""Strategies from and to torch's own form, an OpStrategy of DTensorSpecs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..._torch import (
    DeviceMesh,
    DTensorSpec,
    OpOverload,
    OpSpec,
    OpStrategy,
    Placement,
    TensorMeta,
    function_schema,
    meta_of,
)
from ..._torch import make_spec as spec_of
from ...errors import ShardpropError
from ...model.spec_checks import check_spec
from .layout_table import LayoutTable
from .pricing import pricer_of
from .sources import check_count, read_layouts
from .table import Strategies

__all__ = ["from_op_strategy", "make_spec", "to_op_strategy"]

Specs = list[DTensorSpec | None]


def make_spec(
    mesh: DeviceMesh, placements: Sequence[Placement], tensor: torch.Tensor | TensorMeta
) -> DTensorSpec:
    """The spec of a whole tensor under placements, such as `plan` takes.

    Raises:
        ShardpropError: no tensor and no metadata, not one placement for each mesh dim, or one that
            the tensor cannot have.
    """
    meta = tensor if isinstance(tensor, TensorMeta) else meta_of(tensor)
    if meta is None:
        raise ShardpropError(f"make_spec: Expected a tensor or its metadata, got {tensor!r}.")
    (layout,) = read_layouts("make_spec", mesh, meta, [placements])
    return spec_of(mesh, layout, meta)


def to_op_strategy(found: Strategies) -> OpStrategy:
    """torch's form of an op's strategies, in their order.

    Each `OpSpec` has specs with metadata of whole tensors, and in `redistribute_cost` the
    microseconds from each source, if prices were asked for (else None). Strategies share specs that
    are equal: a program that writes into one has to copy it first.

    Raises:
        ShardpropError: as `Strategies.prices` does; or a list op, of which each element has its
            own.
    """
    if found.elements:
        raise ShardpropError(
            f"{found.op}: Expected an op that is decided as a whole, got a list op. Take each of "
            "`elements` by itself."
        )
    outputs = _by_tensor(found, found.outputs, found.output_metas)
    operands = _by_tensor(found, found.operands, found.operand_metas)
    costs = None if found.prices is None else [table.tolist() for table in found.prices]
    alone = _returns_one_tensor(found.op)
    strategies = []
    for index in range(len(found)):
        made = tuple(specs[index] for specs in outputs)
        strategies.append(
            OpSpec(
                made[0] if alone else made or None,
                input_specs=tuple(specs[index] for specs in operands),
                redistribute_cost=costs and [table[index] for table in costs],
            )
        )
    return OpStrategy(strategies)


def from_op_strategy(
    op: OpOverload,
    strategy: OpStrategy,
    *,
    sources: Sequence[Any] | None = None,
    prices: Any = None,
    layouts: LayoutTable | None = None,
) -> Strategies:
    """Strategies that another program made, such as a rule of a planner's own, as arrays.

    Args:
        op: Whose strategies they are; of use in messages alone, so that a function will do.
        strategy: At least one `OpSpec`, each with as many operands and outputs as the first; specs
            on one mesh and with metadata, save that of an absent output.
        sources: As for `strategies`; None for an operand: what the strategies want of it.
        prices: As for `strategies`.
        layouts: As for `strategies`.

    Raises:
        ShardpropError: a strategy that is not of this form; the message names op, strategy and
            operand or output.
    """
    table = LayoutTable() if layouts is None else layouts
    read = _Read(op, strategy)
    outputs, output_metas = read.columns("output", read.outputs, table, may_lack=True)
    operands, operand_metas = read.columns("operand", read.operands, table, may_lack=False)
    metas = [meta for meta in operand_metas if meta is not None]
    asked = [None] * len(metas) if sources is None else sources
    check_count(op, asked, len(metas))
    producers = [
        np.unique(operands[:, k])
        if asked[k] is None
        else table.ids(read_layouts(f"{op}, sources[{k}]", read.mesh, metas[k], asked[k]))
        for k in range(len(metas))
    ]
    pricer = pricer_of(prices)
    return Strategies(
        op, read.mesh, table, outputs, operands, producers, metas, output_metas, pricer
    )


class _Read:
    """What the specs of another program's strategies say, row by row."""

    def __init__(self, op: Any, strategy: Any) -> None:
        if not isinstance(strategy, OpStrategy) or not strategy.strategies:
            raise ShardpropError(f"{op}: Expected an OpStrategy with a strategy, got {strategy!r}.")
        self._op = op
        self.outputs = [_listed(each.output_specs) for each in strategy.strategies]
        self.operands: list[Specs] = [[*(each.input_specs or ())] for each in strategy.strategies]
        specs = [spec for spec in (*self.outputs[0], *self.operands[0]) if spec is not None]
        if not specs:
            raise ShardpropError(f"{op}, strategy 0: Expected specs, got none.")
        self.mesh = specs[0].mesh

    def columns(
        self, what: str, rows: list[Specs], table: LayoutTable, *, may_lack: bool
    ) -> tuple[NDArray[np.int32], list[TensorMeta | None]]:
        """Numbers of layouts by strategy and tensor, -1 where there is none; metadata by tensor."""
        count = len(rows[0])
        numbers = np.full((len(rows), count), -1, np.int32)
        metas: list[TensorMeta | None] = [None] * count
        for index, row in enumerate(rows):
            if len(row) != count:
                raise ShardpropError(
                    f"{self._op}, strategy {index}: Expected {count} {what}s, as the first "
                    f"strategy has, got {len(row)}."
                )
            for k, spec in enumerate(row):
                if spec is None and may_lack:
                    continue
                where = f"{self._op}, strategy {index}, {what} {k}"
                meta = self._checked_meta(where, spec)
                if metas[k] not in (None, meta):
                    raise ShardpropError(f"{where}: Expected {metas[k]}, as before, got {meta}.")
                assert spec is not None
                numbers[index, k], metas[k] = table.id(spec.placements), meta
        return numbers, metas

    def _checked_meta(self, where: str, spec: DTensorSpec | None) -> TensorMeta:
        check_spec(where, spec)
        assert spec is not None and spec.tensor_meta is not None
        if spec.mesh is not self.mesh and spec.mesh != self.mesh:
            raise ShardpropError(
                f"{where}: Expected a spec on the mesh of the first one, {self.mesh}, got "
                f"{spec.mesh}."
            )
        read_layouts(where, self.mesh, spec.tensor_meta, [spec])
        return spec.tensor_meta


def _listed(specs: Any) -> Specs:
    if specs is None or isinstance(specs, DTensorSpec):
        return [] if specs is None else [specs]
    return list(specs)


def _by_tensor(
    found: Strategies, numbers: NDArray[np.int32], metas: Sequence[TensorMeta | None]
) -> list[list[Any]]:
    """Per tensor a spec for each strategy (None where it is absent), equal ones made once."""
    by_tensor = []
    for ids, meta in zip(numbers.T, metas, strict=True):
        made: dict[int, DTensorSpec | None] = {-1: None}
        for number in np.unique(ids[ids >= 0]).tolist():
            made[number] = spec_of(found.mesh, found.layouts[number], meta)
        by_tensor.append([made[number] for number in ids.tolist()])
    return by_tensor


def _returns_one_tensor(op: Any) -> bool:
    """Does torch give the one output of such an op without a tuple around it?"""
    returns = function_schema(op).returns
    return len(returns) == 1 and str(returns[0].type) == "Tensor"
