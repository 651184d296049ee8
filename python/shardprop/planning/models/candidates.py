"""What each node of a program may do: its strategies, and what each of them takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._torch import DeviceMesh, Replicate, TensorMeta
from ...cost.compute import ComputeCost
from ...errors import ShardpropError
from ..strategies import LayoutTable, strategies
from .layout_facts import LayoutFacts
from .layouts import plain_layouts
from .program import Node, Program, Ref, fill
from .trials import Trials

__all__ = ["Candidates", "CandidatesOf"]

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Candidates:
    """The labels of one node.

    Attributes:
        outputs: Layout ids by label and output, -1 for an output that is absent.
        operands: Layout ids by label and operand: what each has to be brought to.
        compute_us: Microseconds of the op on one rank, by label.
    """

    outputs: Ids
    operands: Ids
    compute_us: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.compute_us)


class CandidatesOf:
    """The candidates of the nodes of a program, in its order.

    Nodes that ask the same question share their answer: the layers of a model are alike.

    Args:
        program: The program.
        mesh: The mesh.
        compute: What ops take.
        strided: Keep strategies with `_StridedShard`.
        rules: As `capture` takes it.

    Attributes:
        layouts: The ids in the candidates.
        without_rule: Per op without strategies, which runs on whole tensors, why it has none.
        cannot_run: Per op how many strategies are left out for raising on what a rank would hold,
            or for giving it something else than they say.
    """

    def __init__(
        self, program: Program, mesh: DeviceMesh, compute: ComputeCost, strided: bool, rules: str
    ) -> None:
        self.layouts = LayoutTable()
        self._facts = LayoutFacts(self.layouts)
        self.without_rule: dict[str, str] = {}
        self.cannot_run: dict[str, int] = {}
        self._program = program
        self._mesh = mesh
        self._compute = compute
        self._strided = strided
        self._rules = rules
        self._replicated = self.layouts.id((Replicate(),) * mesh.ndim)
        self._trials = Trials(mesh)
        self._known: dict[Any, Candidates] = {}
        self._found: list[Candidates] = []
        self._plain: dict[tuple[int, ...], Ids] = {}

    def all(self) -> list[Candidates]:
        """One for each node."""
        for node in self._program.nodes[len(self._found) :]:
            self._found.append(self._of(node))
        return self._found

    def _of(self, node: Node) -> Candidates:
        if node.op is not None:
            return self._of_op(node)
        (meta,) = node.outputs
        if meta is None or node.kind == "constant":
            return self._alone(np.array([self._replicated], np.int32))
        ids = self._plain_ids(meta)
        return self._passing(ids) if node.args else self._alone(ids)

    def _alone(self, ids: Ids) -> Candidates:
        return Candidates(ids[:, None], np.empty((len(ids), 0), np.int32), np.zeros(len(ids)))

    def _passing(self, ids: Ids) -> Candidates:
        return Candidates(ids[:, None], ids[:, None], np.zeros(len(ids)))

    def _plain_ids(self, meta: TensorMeta) -> Ids:
        shape = tuple(meta.shape)
        if shape not in self._plain:
            found = plain_layouts(shape, self._mesh)
            self._plain[shape] = np.array([self.layouts.id(layout) for layout in found], np.int32)
        return self._plain[shape]

    def _offered(self, ref: Ref) -> Ids:
        """The layouts in which a tensor may come."""
        return np.unique(self._found[ref.node].outputs[:, ref.output])

    def _of_op(self, node: Node) -> Candidates:
        offered = [self._offered(ref) for ref in node.operands]
        args = fill(node.args, self._program.meta)
        kwargs = fill(node.kwargs, self._program.meta)
        constant = node.index in self._program.constants
        key = (node.op, constant, repr((args, kwargs)), *(ids.tobytes() for ids in offered))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._ask(node, args, kwargs, offered)
        return known

    def _ask(self, node: Node, args: Any, kwargs: Any, offered: list[Ids]) -> Candidates:
        if node.op is None or node.index in self._program.constants or node.draws:
            return self._whole(node, args, kwargs)
        metas = [self._program.meta(ref) for ref in node.operands]
        sources = [
            [self.layouts[i] for i in np.union1d(ids, self._plain_ids(meta))]
            for ids, meta in zip(offered, metas, strict=True)
        ]
        try:
            found = strategies(
                node.op,
                args,
                kwargs,
                mesh=self._mesh,
                sources=sources,
                layouts=self.layouts,
                rules=self._rules,
            )
        except ShardpropError as error:
            self.without_rule.setdefault(str(node.op), str(error))
            return self._whole(node, args, kwargs)
        operands = self._facts.settled[found.operands]
        kept = self._kept(found.outputs, operands, offered)
        if not len(kept):
            self.without_rule.setdefault(str(node.op), "no strategy is left")
            return self._whole(node, args, kwargs)
        runs = self._trials.run(node.op, args, kwargs, found.subset(kept))
        if not runs.all():
            self.cannot_run[str(node.op)] = self.cannot_run.get(str(node.op), 0) + int(
                (~runs).sum()
            )
            kept = kept[runs]
        if not len(kept):
            self.without_rule.setdefault(str(node.op), "no strategy runs on what ranks would hold")
            return self._whole(node, args, kwargs)
        found = found.subset(kept)
        compute = self._compute.over(
            node.op, args, kwargs, *found.local_shapes(), outputs=node.outputs
        )
        return Candidates(found.outputs, operands[kept], compute)

    def _whole(self, node: Node, args: Any, kwargs: Any) -> Candidates:
        """Nothing but whole tensors: of an op that has no strategies, or that draws random numbers,
        which are to be those of one device."""
        absent = [self._replicated if meta is not None else -1 for meta in node.outputs]
        cost = self._compute.us(node.op, args, kwargs, list(node.outputs))
        return Candidates(
            np.array([absent], np.int32),
            np.full((1, len(node.operands)), self._replicated, np.int32),
            np.array([cost]),
        )

    def _kept(self, outputs: Ids, operands: Ids, offered: list[Ids]) -> NDArray[np.intp]:
        """The strategies that can be of use.

        A pending partial of a kind that no operand comes with would have to be made first, and
        reduced later: that saves nothing. Strided shards are kept as they come, and brought about
        in other operands, but not made where no operand has them.
        """
        pending, strided = self._facts.pending, self._facts.strided
        comes_pending = np.bitwise_or.reduce(pending[np.concatenate(offered)])
        usable = (pending[operands] & ~comes_pending == 0).all(axis=1)
        wanted = strided[operands]
        needed = np.bitwise_or.reduce(wanted, axis=1)
        if self._strided:
            comes = [
                np.isin(operands[:, k], ids) & (wanted[:, k] == needed)
                for k, ids in enumerate(offered)
            ]
            fits = (needed == 0) | np.logical_or.reduce(comes)
        else:
            fits = (needed == 0) & (strided[outputs] == 0).all(axis=1)
        return np.flatnonzero(fits & usable)
