"""The edges of the problem of a program: what it costs to bring tensors from op to op."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..._torch import contiguous_meta
from ...redistribution.optimal_planner import ExactPlanner
from ..graph.problem import Problem
from .labelled import Labelled
from .program import Ref

__all__ = ["Edges"]

Ids = NDArray[np.int32]

# Tensors whose redistributions cost the same: their shape and dtype.
_Alike = tuple[tuple[int, ...], torch.dtype]


class Edges:
    """Prices between producers and consumers; alike tables are made once."""

    def __init__(self, labelled: Labelled, planner: ExactPlanner) -> None:
        self._labelled = labelled
        self._program = labelled.program
        self._planner = planner
        self._prices: dict[_Alike, tuple[Ids, Ids, NDArray[np.float64]]] = {}
        self._tables: dict[Any, NDArray[np.float64]] = {}
        self._classes: dict[Any, tuple[Ids, Ids]] = {}

    def add_to(self, problem: Problem) -> None:
        """An edge for each operand of each node."""
        self._price_all()
        for node in self._program.nodes:
            for position, ref in enumerate(node.operands):
                wanted, of_consumer = self._distinct(node.index, "operands", position)
                offered, of_producer = self._distinct(ref.node, "outputs", ref.output)
                problem.add_edge(
                    node.index,
                    ref.node,
                    self._table(ref, offered, wanted),
                    u_classes=of_consumer,
                    v_classes=of_producer,
                    name=f"operand {position} of {node.name}",
                )

    def _price_all(self) -> None:
        """Between all layouts of alike tensors at once: one search from a layout finds the prices
        to all others."""
        layouts = self._labelled.layouts
        ends: dict[_Alike, tuple[set[int], set[int]]] = {}
        for node in self._program.nodes:
            for position, ref in enumerate(node.operands):
                sources, targets = ends.setdefault(self._alike(ref), (set(), set()))
                sources.update(self._distinct(ref.node, "outputs", ref.output)[0].tolist())
                targets.update(self._distinct(node.index, "operands", position)[0].tolist())
        for (shape, dtype), (sources, targets) in ends.items():
            meta = contiguous_meta(shape, dtype)
            # An output may be absent under some labels.
            offered = np.array(sorted(sources - {-1}), np.int32)
            wanted = np.array(sorted(targets), np.int32)
            prices = self._planner.prices(
                meta,
                self._labelled.mesh,
                [layouts[i] for i in offered.tolist()],
                [layouts[i] for i in wanted.tolist()],
            )
            self._prices[shape, dtype] = (wanted, offered, prices)

    def _alike(self, ref: Ref) -> _Alike:
        meta = self._program.meta(ref)
        return tuple(meta.shape), meta.dtype

    def _distinct(self, node: int, side: str, position: int) -> tuple[Ids, Ids]:
        """The distinct layouts at one place of a node's labels, and which each label has."""
        candidate = self._labelled.candidates[node]
        key = (id(candidate), side, position)
        if key not in self._classes:
            column = getattr(candidate, side)[:, position]
            ids, classes = np.unique(column, return_inverse=True)
            self._classes[key] = (ids, classes.astype(np.int32))
        return self._classes[key]

    def _table(self, ref: Ref, offered: Ids, wanted: Ids) -> NDArray[np.float64]:
        """[wanted, offered]; the same array for the same layouts of alike tensors."""
        alike = self._alike(ref)
        key = (alike, offered.tobytes(), wanted.tobytes())
        if key not in self._tables:
            targets, sources, prices = self._prices[alike]
            places = np.searchsorted(targets, wanted), np.searchsorted(sources, offered)
            self._tables[key] = prices[np.ix_(*places)]
            self._tables[key][:, offered < 0] = np.inf
        return self._tables[key]
