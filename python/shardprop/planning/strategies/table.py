"""Strategies of an op as arrays."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._torch import DeviceMesh, OpOverload, TensorMeta
from ...errors import ShardpropError
from ...model.placements import Placements
from .layout_table import LayoutTable
from .local_shapes import largest_shards
from .pricing import Pricer

__all__ = ["Strategies", "Strategy"]

Numbers = NDArray[np.int32]


class Strategy(NamedTuple):
    """One way to run an op on the whole mesh.

    Attributes:
        outputs: Per output its layout, None for an absent one.
        operands: Per operand the layout it is wanted in.
    """

    outputs: tuple[Placements | None, ...]
    operands: tuple[Placements, ...]


class Strategies:
    """Every strategy of an op, and what each asks of operands that come in any of several layouts.

    Attributes:
        op: The op.
        mesh: Where its operands are.
        layouts: What the numbers of layouts stand for.
        outputs: int32 [strategies, outputs]: layouts of the outputs, -1 for an absent one.
        operands: int32 [strategies, operands]: layouts that the operands are wanted in.
        sources: Per operand int32 [sources]: the layouts it may come in, as they were given.
        operand_metas: Per operand shape, stride and dtype of the whole tensor.
        output_metas: Per output, likewise; None for an absent one.
        elements: Of a list op, per element of its lists the strategies of that element, which may
            be chosen for each by itself, save that a tensor which all of them share is in one
            place; all else here is about the first. Empty for other ops.
    """

    def __init__(
        self,
        op: OpOverload,
        mesh: DeviceMesh,
        layouts: LayoutTable,
        outputs: Numbers,
        operands: Numbers,
        sources: Sequence[Numbers],
        operand_metas: Sequence[TensorMeta],
        output_metas: Sequence[TensorMeta | None],
        pricer: Pricer | None,
    ) -> None:
        self.op = op
        self.mesh = mesh
        self.layouts = layouts
        self.outputs = outputs
        self.operands = operands
        self.sources = list(sources)
        self.operand_metas = tuple(operand_metas)
        self.output_metas = tuple(output_metas)
        self.elements: tuple[Strategies, ...] = ()
        self._pricer = pricer
        self._wanted: dict[int, tuple[Numbers, Numbers]] = {}
        self._tables: dict[int, NDArray[np.float64]] = {}

    def __len__(self) -> int:
        return len(self.operands)

    def __repr__(self) -> str:
        return f"Strategies({self.op}: {len(self)} on a mesh of {tuple(self.mesh.shape)})"

    def __getitem__(self, index: int) -> Strategy:
        return Strategy(
            tuple(None if i < 0 else self.layouts[i] for i in self.outputs[index].tolist()),
            tuple(self.layouts[i] for i in self.operands[index].tolist()),
        )

    def __iter__(self) -> Iterator[Strategy]:
        return (self[index] for index in range(len(self)))

    def of_list(self, elements: Sequence[Strategies]) -> Strategies:
        """The same, as what there is to say of the first element of a list op."""
        whole = copy.copy(self)
        whole.elements = tuple(elements)
        return whole

    def subset(self, indices: NDArray[np.integer[Any]]) -> Strategies:
        """Some of the strategies, in the order of `indices`."""
        return Strategies(
            self.op,
            self.mesh,
            self.layouts,
            self.outputs[indices],
            self.operands[indices],
            self.sources,
            self.operand_metas,
            self.output_metas,
            self._pricer,
        )

    def wanted(self, operand: int) -> tuple[Numbers, Numbers]:
        """What strategies want of an operand: int32 [D], the distinct layouts in the order of their
        numbers; and int32 [strategies], which of these each strategy wants."""
        known = self._wanted.get(operand)
        if known is None:
            distinct, classes = np.unique(self.operands[:, operand], return_inverse=True)
            known = distinct, classes.reshape(-1).astype(np.int32)
            self._wanted[operand] = known
        return known

    def price_table(self, operand: int) -> NDArray[np.float64]:
        """Microseconds float64 [D, sources] from each source of an operand to each layout of
        `wanted`; ``inf`` where there is no plan. Not to be written into.

        Raises:
            ShardpropError: no prices were asked for, or one is none.
        """
        if self._pricer is None:
            raise ShardpropError(
                f"{self.op}: Expected strategies that were asked for with prices, got none."
            )
        table = self._tables.get(operand)
        if table is None:
            self._price_alike(operand, self._pricer)
            table = self._tables[operand]
        return table

    def _price_alike(self, operand: int, pricer: Pricer) -> None:
        """The tables of an operand and of those like it: of one shape, from the same sources. What
        they want in common has one price."""
        meta, sources = self.operand_metas[operand], self.sources[operand]
        alike = [
            k
            for k, other in enumerate(self.operand_metas)
            if k == operand or (other == meta and np.array_equal(self.sources[k], sources))
        ]
        wanted = self.wanted(operand)[0]
        if len(alike) > 1:
            wanted = np.unique(np.concatenate([self.wanted(k)[0] for k in alike]))
        distinct = [*dict.fromkeys(sources.tolist())]
        from_layouts = [self.layouts[i] for i in distinct]
        table = pricer.table(meta, self.mesh, from_layouts, self._decoded(wanted))
        if len(distinct) < len(sources):
            table = table[:, [distinct.index(i) for i in sources.tolist()]]
        for k in alike:
            its = table
            if len(alike) > 1:
                its = np.ascontiguousarray(table[np.searchsorted(wanted, self.wanted(k)[0])])
            its.flags.writeable = False
            self._tables[k] = its

    @functools.cached_property
    def prices(self) -> list[NDArray[np.float64]] | None:
        """Per operand microseconds float64 [strategies, sources], ``inf`` where there is no plan;
        None if no prices were asked for.

        Raises:
            ShardpropError: as `price_table` does.
        """
        if self._pricer is None:
            return None
        count = self.operands.shape[1]
        return [self.price_table(k)[self.wanted(k)[1]] for k in range(count)]

    def local_shapes(self) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64] | None]]:
        """Shapes of the largest shards, in elements, cut as ``torch.chunk`` cuts: per operand int64
        [strategies, tensor dims], and per output likewise (None for one that is always absent; rows
        of zeros where it is absent in some strategies only)."""
        operands = [self._shapes(self.operands[:, k], m) for k, m in enumerate(self.operand_metas)]
        outputs = [
            None if meta is None else self._shapes(self.outputs[:, k], meta)
            for k, meta in enumerate(self.output_metas)
        ]
        return operands, outputs

    def by_local_shapes(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Strategies whose operands have equal local shapes, which compute the same: int [D], the
        first of each kind, and int [strategies], of which kind each one is."""
        shapes = [np.zeros((len(self), 1), np.int64), *self.local_shapes()[0]]
        _, first, kind = np.unique(
            np.concatenate(shapes, axis=1), axis=0, return_index=True, return_inverse=True
        )
        return first, kind.reshape(-1)

    def _shapes(self, numbers: Numbers, meta: TensorMeta) -> NDArray[np.int64]:
        distinct, classes = np.unique(numbers, return_inverse=True)
        present = distinct[distinct >= 0]
        shapes = largest_shards(meta.shape, self.mesh.shape, self._decoded(present))
        if len(present) < len(distinct):
            shapes = np.concatenate([np.zeros((1, len(meta.shape)), np.int64), shapes])
        return shapes[classes.reshape(-1)]

    def _decoded(self, numbers: Numbers) -> list[Placements]:
        return [self.layouts[i] for i in numbers.tolist()]
