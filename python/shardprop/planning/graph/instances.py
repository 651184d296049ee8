"""Problems of a published benchmark format: one JSON file, one NPZ file.

The JSON holds ``nodes`` (idx, name, mult, out: names of the labels), ``flow`` ([consumer, arg,
[producers]]), ``paired`` ([a, b, pairs]), ``disabled`` ([node, label]), ``user`` ([node, arg,
allowed labels, name]), ``linked`` (copies, and the node that stands for each) and ``memory`` (rows
by name: rhs, and terms [node, label, coefficient]). The NPZ holds ``comp_i`` [labels of i] and, per
argument, ``comm_i_a`` and ``trans_i_a`` [labels of i x labels of the producer], in microseconds.
A node counts ``mult`` times, with all its arguments.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import ShardpropError
from .errors import fault
from .files import pair_of, read_npz
from .inputs import Floats, numbers
from .problem import Problem

if TYPE_CHECKING:
    from .schema import InstanceFile, InstanceNode

__all__ = ["load_instance"]

Array = npt.NDArray[Any]

# A memory row is one of these by the end of its name.
_UPPER, _LOWER = "_high", "_low"


def load_instance(path: str | os.PathLike[str]) -> Problem:
    """The problem of ``path.json`` and ``path.npz``, costs in microseconds.

    Args:
        path: With or without ``.json`` or ``.npz``.

    Raises:
        ShardpropError: a file is missing, cannot be read, or is not of this format.
    """
    from ...support.json_document import checked, read_json
    from .schema import InstanceFile

    document, data = pair_of(path)
    file = checked(InstanceFile, read_json(document), str(document))
    arrays = read_npz(data)
    try:
        return _Instance(file, arrays).problem()
    except ShardpropError as error:
        raise ShardpropError(f"{document}: {error}") from None


class _Instance:
    def __init__(self, file: InstanceFile, arrays: Mapping[str, Array]) -> None:
        self._file = file
        self._arrays = arrays
        self._nodes = {node.idx: node for node in file.nodes}
        if len(self._nodes) != len(file.nodes):
            raise fault("nodes", "each idx once", "one again")
        self._problem = Problem()
        self._at: dict[int, int] = {}  # our index by theirs

    def problem(self) -> Problem:
        flow = {(consumer, arg): producers for consumer, arg, producers in self._file.flow}
        for node in self._file.nodes:
            free = [arg for arg in range(node.nargs) if (node.idx, arg) not in flow]
            costs = self._costs(node, free)
            self._at[node.idx] = self._problem.add_node(node.name, costs, node.out)
        for (consumer, arg), producers in flow.items():
            self._add_flow(consumer, arg, [self._node(producer) for producer in producers])
        self._add_constraints()
        return self._problem

    def _node(self, idx: int) -> int:
        """Ours, of a node or of a copy that another stands for."""
        first = self._file.linked.get(idx, idx)
        if first not in self._at:
            raise fault(f"idx {idx}", "that of a node", "none of the nodes has it")
        return self._at[first]

    def _costs(self, node: InstanceNode, free: list[int]) -> Floats:
        """What a label costs, with arguments that have no producer to agree with at their best."""
        costs = self._array(f"comp_{node.idx}", 1)
        for arg in free:
            costs = costs + self._moves(node, arg).min(axis=1)
        return np.asarray(node.mult * costs)

    def _moves(self, node: InstanceNode, arg: int) -> Floats:
        comm = self._array(f"comm_{node.idx}_{arg}", 2)
        trans = self._array(f"trans_{node.idx}_{arg}", 2)
        if comm.shape != trans.shape:
            raise fault(f"trans_{node.idx}_{arg}", f"shape {comm.shape}", trans.shape)
        if len(comm) != len(node.out) or not comm.size:
            raise fault(f"comm_{node.idx}_{arg}", f"{len(node.out)} rows of prices", comm.shape)
        return comm + trans

    def _array(self, name: str, ndim: int) -> Floats:
        if name not in self._arrays:
            raise fault(name, "an array", "none")
        return numbers(name, "costs", self._arrays[name], ndim)

    def _add_flow(self, consumer: int, arg: int, producers: list[int]) -> None:
        """One price, though a node that stands for copies has the producers of all of them."""
        at = self._node(consumer)
        node = self._nodes[consumer]
        name = f"{node.name}, arg {arg}"
        if not producers:
            raise fault(name, "a producer", "none")
        first, *others = dict.fromkeys(producers)
        self._problem.add_edge(at, first, node.mult * self._moves(node, arg), name=name)
        if others:
            self._problem.equal([first, *others], name=f"producers of {name}")

    def _add_constraints(self) -> None:
        problem, file = self._problem, self._file
        for a, b, pairs in file.paired:
            problem.allow_pairs(self._node(a), self._node(b), pairs)
        disabled: dict[int, list[int]] = {}
        for idx, label in file.disabled:
            disabled.setdefault(self._node(idx), []).append(label)
        for at, labels in disabled.items():
            problem.forbid(at, labels, name=f"disabled on {problem.nodes[at].name!r}")
        for idx, _, allowed, name in file.user:
            problem.allow(self._node(idx), allowed, name=name)
        for name, row in file.memory.items():
            terms = [(self._node(idx), label, factor) for idx, label, factor in row.terms]
            if not name.endswith((_UPPER, _LOWER)):
                raise fault(f"memory.{name}", f"a name that ends in {_UPPER} or {_LOWER}", name)
            upper = name.endswith(_UPPER)
            problem.add_row(
                terms, -math.inf if upper else row.rhs, row.rhs if upper else math.inf, name=name
            )
