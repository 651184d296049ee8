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
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ShardpropError
from .errors import fault
from .files import pair_of, read_json, read_npz
from .inputs import Floats
from .problem import Problem

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
    document, data = pair_of(path)
    values, arrays = read_json(document), read_npz(data)
    try:
        return _Instance(values, arrays).problem()
    except ShardpropError as error:
        raise ShardpropError(f"{document}: {error}") from None
    except (KeyError, IndexError, TypeError, ValueError) as error:
        kind = type(error).__name__
        raise fault(str(document), "an instance", f"a part that is not ({kind}: {error})") from None


class _Instance:
    def __init__(self, values: dict[str, Any], arrays: Mapping[str, Array]) -> None:
        self._values = values
        self._arrays = arrays
        self._rows = {int(node["idx"]): node for node in values["nodes"]}
        if len(self._rows) != len(values["nodes"]):
            raise fault("nodes", "each idx once", "one again")
        self._linked = {int(copy): first for copy, first in values["linked"].items()}
        self._problem = Problem()
        self._at: dict[int, int] = {}  # our index by theirs

    def problem(self) -> Problem:
        flow = {(consumer, arg): producers for consumer, arg, producers in self._values["flow"]}
        for idx, row in self._rows.items():
            free = [arg for arg in range(row["nargs"]) if (idx, arg) not in flow]
            self._at[idx] = self._problem.add_node(row["name"], self._costs(idx, free), row["out"])
        for (consumer, arg), producers in flow.items():
            self._add_flow(consumer, arg, [self._node(producer) for producer in producers])
        self._add_constraints()
        return self._problem

    def _node(self, idx: int) -> int:
        """Ours, of a node or of a copy that another stands for."""
        return self._at[self._linked.get(idx, idx)]

    def _costs(self, idx: int, free: list[int]) -> Floats:
        """What a label costs, with arguments that have no producer to agree with at their best."""
        costs = self._array(f"comp_{idx}")
        for arg in free:
            costs = costs + self._moves(idx, arg).min(axis=1)
        return np.asarray(self._rows[idx]["mult"] * costs)

    def _moves(self, idx: int, arg: int) -> Floats:
        comm, trans = self._array(f"comm_{idx}_{arg}"), self._array(f"trans_{idx}_{arg}")
        if comm.shape != trans.shape:
            raise fault(f"trans_{idx}_{arg}", f"shape {comm.shape}", trans.shape)
        return comm + trans

    def _array(self, name: str) -> Floats:
        if name not in self._arrays:
            raise fault(name, "an array", "none")
        return self._arrays[name].astype(np.float64)

    def _add_flow(self, consumer: int, arg: int, producers: list[int]) -> None:
        """One price, though a node that stands for copies has the producers of all of them."""
        row = self._rows[consumer]
        name = f"{row['name']}, arg {arg}"
        first, *others = dict.fromkeys(producers)
        moves = row["mult"] * self._moves(consumer, arg)
        self._problem.add_edge(self._at[consumer], first, moves, name=name)
        if others:
            self._problem.equal([first, *others], name=f"producers of {name}")

    def _add_constraints(self) -> None:
        problem, values = self._problem, self._values
        for a, b, pairs in values["paired"]:
            problem.allow_pairs(self._node(a), self._node(b), pairs)
        disabled: dict[int, list[int]] = {}
        for idx, label in values["disabled"]:
            disabled.setdefault(self._node(idx), []).append(label)
        for node, labels in disabled.items():
            problem.forbid(node, labels, name=f"disabled on {problem.nodes[node].name!r}")
        for idx, _, labels, name in values["user"]:
            problem.allow(self._node(idx), labels, name=name)
        for name, row in values["memory"].items():
            terms = [(self._node(idx), label, factor) for idx, label, factor in row["terms"]]
            if not name.endswith((_UPPER, _LOWER)):
                raise fault(f"memory.{name}", f"a name that ends in {_UPPER} or {_LOWER}", name)
            upper = name.endswith(_UPPER)
            lo, hi = (-math.inf, row["rhs"]) if upper else (row["rhs"], math.inf)
            problem.add_row(terms, lo, hi, name=name)
