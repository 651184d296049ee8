"""A whole-graph problem as it is built: nodes with costs, edges with prices, named constraints."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import inputs
from .constraints import Allow, AllowPairs, Constraint, Equal, Forbid, Row
from .errors import fault
from .evaluation import Evaluation, evaluate
from .inputs import Flags, Floats, Ints
from .names import Names, NodeRef
from .parts import NO_CLASSES, Edge, Node
from .shared import SharedArrays
from .terms import Pairs, Terms, label_pairs, row_terms

__all__ = ["Problem"]


class Problem:
    """One label per node, such that costs and prices are least and all constraints are met.

    Minimises ``sum_i costs_i[x_i] + sum_(u,v) prices_uv[x_u, x_v]``. Costs may be of any unit, as
    long as it is one (captured models: microseconds); +inf forbids a label or a pair. Nodes are
    given by index or by name. Every method checks all of its arguments before it changes anything,
    and raises `ShardpropError` with the node, edge or constraint named.

    Attributes (to be read, not changed):
        nodes: `Node`, by index.
        edges: `Edge`, in the order they were added.
        tables: Prices by `Edge.table`.
        classes: Classes by `Edge.u_classes` and `Edge.v_classes`.
        constraints: By name, in the order they were added.
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._names = Names()
        self._edges: list[Edge] = []
        self._tables = SharedArrays[np.float64]()
        self._classes = SharedArrays[np.int32]()
        self._constraints: dict[str, Constraint] = {}
        self._left: list[Flags] = []  # arrays are replaced, not written to: copies share them

    @property
    def nodes(self) -> Sequence[Node]:
        return self._nodes

    @property
    def edges(self) -> Sequence[Edge]:
        return self._edges

    @property
    def tables(self) -> Sequence[Floats]:
        return self._tables.arrays

    @property
    def classes(self) -> Sequence[Ints]:
        return self._classes.arrays

    @property
    def constraints(self) -> Mapping[str, Constraint]:
        return self._constraints

    @property
    def left(self) -> Sequence[Flags]:
        """By node, [K] whether its costs and its own constraints leave the label."""
        return self._left

    def node(self, node: NodeRef) -> int:
        """The index of a node.

        Raises:
            ShardpropError: there is no such node.
        """
        return self._names.node(node, "node")

    # --- what has a cost ----------------------------------------------------------------------

    def add_node(self, name: str, costs: npt.ArrayLike, labels: Sequence[str] | None = None) -> int:
        """Add a choice; its index.

        Args:
            name: Another than that of every node so far.
            costs: [K] cost of each label, inf where it is forbidden.
            labels: Names of the K labels for messages and reports.

        Raises:
            ShardpropError: a name given twice; costs that are no numbers, NaN, -inf or all inf.
        """
        self._names.check_new_node(name)
        where = f"node {name!r}"
        taken = inputs.prices(where, "costs", costs, 1)
        names = None
        if labels is not None:
            names = tuple(str(label) for label in labels)
            if len(names) != len(taken):
                raise fault(where, f"{len(taken)} label names, one per cost", len(names))
        self._nodes.append(Node(name, taken, names))
        self._left.append(np.isfinite(taken))
        return self._names.enter_node(name)

    def add_edge(
        self,
        u: NodeRef,
        v: NodeRef,
        prices: npt.ArrayLike,
        *,
        u_classes: npt.ArrayLike | None = None,
        v_classes: npt.ArrayLike | None = None,
        name: str | None = None,
    ) -> str:
        """Add prices between the labels of two nodes; the edge's name.

        Several edges may join one pair of nodes, in either direction, and `u` may be `v`.

        Args:
            prices: [labels of u x labels of v], or [classes of u x classes of v]; inf forbids a
                pair. The same array object given again is stored once, as it was the first time.
            u_classes: [labels of u] the row of `prices` for each label; each label its own row if
                not given. The same array object is stored once.
            v_classes: Likewise for the columns.
            name: For messages; made of the nodes' names if not given.

        Raises:
            ShardpropError: prices of another shape, NaN, -inf or all inf; a class that is no row
                or column; a name given twice.
        """
        first, second = self._names.node(u, "add_edge, u"), self._names.node(v, "add_edge, v")
        ends = (self._nodes[first], self._nodes[second])
        name = self._names.of_edge(ends[0].name, ends[1].name, name)
        where = f"edge {name!r} (node {first} {ends[0].name!r} x node {second} {ends[1].name!r})"
        known = self._tables.find(prices)
        table = (
            inputs.prices(where, "prices", prices, 2)
            if known is None
            else self._tables.arrays[known]
        )
        # Both sides are checked before anything is stored.
        rows = self._checked_classes(where, "u_classes", u_classes, ends[0], table.shape[0])
        columns = self._checked_classes(where, "v_classes", v_classes, ends[1], table.shape[1])
        wanted = (
            ends[0].count if rows is None else table.shape[0],
            ends[1].count if columns is None else table.shape[1],
        )
        if table.shape != wanted:
            raise fault(where, f"prices of shape {wanted}", table.shape)
        edge = Edge(
            name,
            first,
            second,
            self._tables.add(prices, table) if known is None else known,
            self._stored_classes(u_classes, rows),
            self._stored_classes(v_classes, columns),
        )
        self._edges.append(edge)
        self._names.enter_edge(name)
        return name

    # --- constraints --------------------------------------------------------------------------

    def allow(self, node: NodeRef, labels: Iterable[int], name: str | None = None) -> str:
        """Only these labels of a node; the constraint's name.

        Raises:
            ShardpropError: a label out of range, no labels at all, a name given twice.
            InfeasibleError: the node would have no label left; with the constraints that take them.
        """
        index = self._names.node(node, "allow")
        name, where = self._names.of_constraint("allow", f" on {self._nodes[index].name!r}", name)
        taken = inputs.label_indices(where, labels, self._nodes[index].count)
        if not len(taken):
            raise fault(where, "at least one label", "none")
        return self._mask(Allow(name, index, taken))

    def forbid(self, node: NodeRef, labels: Iterable[int], name: str | None = None) -> str:
        """None of these labels of a node; the constraint's name.

        Raises:
            ShardpropError: a label out of range, a name given twice.
            InfeasibleError: the node would have no label left; with the constraints that take them.
        """
        index = self._names.node(node, "forbid")
        name, where = self._names.of_constraint("forbid", f" on {self._nodes[index].name!r}", name)
        taken = inputs.label_indices(where, labels, self._nodes[index].count)
        return self._mask(Forbid(name, index, taken))

    def allow_pairs(self, u: NodeRef, v: NodeRef, pairs: Pairs, name: str | None = None) -> str:
        """Only these (label of u, label of v); the constraint's name.

        Raises:
            ShardpropError: a label out of range, no pairs at all, a name given twice.
        """
        first, second = self._names.node(u, "allow_pairs, u"), self._names.node(v, "allow_pairs, v")
        on = f" on {self._nodes[first].name!r} and {self._nodes[second].name!r}"
        name, where = self._names.of_constraint("allow_pairs", on, name)
        taken = label_pairs(where, pairs, self._nodes[first].count, self._nodes[second].count)
        return self._add(AllowPairs(name, first, second, taken))

    def equal(self, nodes: Iterable[NodeRef], name: str | None = None) -> str:
        """The same label index for all of these nodes; the constraint's name.

        Raises:
            ShardpropError: fewer than two nodes, one twice, different numbers of labels, a name
                given twice.
        """
        if isinstance(nodes, str) or not isinstance(nodes, Iterable):
            raise fault("equal", "nodes", repr(nodes))
        members = [self._names.node(node, "equal") for node in nodes]
        if len(members) < 2:
            raise fault("equal", "at least two nodes", len(members))
        first = self._nodes[members[0]]
        name, where = self._names.of_constraint("equal", f" on {first.name!r} and others", name)
        for at, member in enumerate(members):
            node = self._nodes[member]
            if member in members[:at]:
                raise fault(where, "each node once", f"node {member} {node.name!r} again")
            if node.count != first.count:
                got = f"{node.count} of node {member} {node.name!r}"
                raise fault(
                    where, f"{first.count} labels as node {members[0]} {first.name!r} has", got
                )
        return self._add(Equal(name, np.array(members, dtype=np.int32)))

    def add_row(
        self, terms: Terms, lo: float = -math.inf, hi: float = math.inf, name: str | None = None
    ) -> str:
        """Bounds for a sum over the chosen labels, such as memory; the constraint's name.

        Args:
            terms: (node, label, coefficient) each, or three arrays of these. Coefficients are
                finite and may be negative; those of a (node, label) given twice are added.
            lo, hi: Least and greatest sum, in the unit of the coefficients. A sum may be off by
                1e-9 of a bound (of 1, for bounds less than 1), for rounding.

        Raises:
            ShardpropError: a node or label out of range, a coefficient that is not finite, lo
                above hi, a name given twice.
        """
        name, where = self._names.of_constraint("row", "", name)
        of_nodes, labels, factors = row_terms(where, terms, self._nodes, self._names.node)
        lo, hi = inputs.bound(where, "lo", lo), inputs.bound(where, "hi", hi)
        if lo > hi or lo == math.inf or hi == -math.inf:
            raise fault(where, "lo <= hi, neither out of reach", f"lo {lo:g} and hi {hi:g}")
        return self._add(Row(name, of_nodes, labels, factors, lo, hi))

    # --- other problems -----------------------------------------------------------------------

    def copy(self) -> Problem:
        """A problem to change by itself; arrays, which nobody can write to, are shared."""
        other = Problem()
        other._nodes, other._edges = list(self._nodes), list(self._edges)
        other._names = self._names.copy()
        other._tables, other._classes = self._tables.copy(), self._classes.copy()
        other._constraints, other._left = dict(self._constraints), list(self._left)
        return other

    def without(self, names: str | Iterable[str]) -> Problem:
        """A copy that lacks the constraints of these names.

        Raises:
            ShardpropError: there is no such constraint.
        """
        other = self.copy()
        for name in dict.fromkeys([names] if isinstance(names, str) else names):
            other._names.drop_constraint(name)
            del other._constraints[name]
        other._left = [np.isfinite(node.costs) for node in other._nodes]
        for constraint in other._constraints.values():
            if isinstance(constraint, (Allow, Forbid)):
                other._left[constraint.node] = other._left_by(constraint)
        return other

    def scaled(self, of_edges: npt.ArrayLike) -> Problem:
        """A copy with the prices of each edge times a factor; what is forbidden stays forbidden.

        Args:
            of_edges: [E] factors, at least 0.

        Raises:
            ShardpropError: another number of factors, or one that is no number, negative or inf.
        """
        factors = inputs.factors("scaled", "of_edges", of_edges, len(self._edges))
        other = self.copy()
        other._tables = SharedArrays[np.float64]()
        index: dict[tuple[int, float], int] = {}
        for at, (edge, by) in enumerate(zip(self._edges, factors, strict=True)):
            if (edge.table, by) not in index:
                table = _times(self.tables[edge.table], by)
                index[edge.table, by] = other._tables.add(table, table)
            other._edges[at] = replace(edge, table=index[edge.table, by])
        return other

    # --- answers and files --------------------------------------------------------------------

    def check(self, labels: npt.ArrayLike) -> Evaluation:
        """What labels [N] cost and which constraints they break, from what was given alone.

        Raises:
            ShardpropError: not one label per node, or one out of range.
        """
        return evaluate(self, labels)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What `from_arrays` takes: values for JSON, and arrays."""
        from .arrays import to_arrays

        return to_arrays(self)

    @staticmethod
    def from_arrays(values: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Problem:
        """The problem that `to_arrays` told of.

        Raises:
            ShardpropError: a part is missing or wrong.
        """
        from .arrays import from_arrays

        return from_arrays(values, arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``path.json`` and ``path.npz``.

        Raises:
            ShardpropError: they cannot be written.
        """
        from .files import save

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Problem:
        """What `save` wrote, from the path with or without ``.json``.

        Raises:
            ShardpropError: a file is missing, cannot be read, or has a fault.
        """
        from .files import load

        return load(path)

    # --- storing ------------------------------------------------------------------------------

    def _add(self, constraint: Constraint) -> str:
        self._names.enter_constraint(constraint.name)
        self._constraints[constraint.name] = constraint
        return constraint.name

    def _mask(self, constraint: Allow | Forbid) -> str:
        left = self._left_by(constraint)
        if not left.any():
            from .reasons import emptied

            raise emptied(self, constraint)
        self._left[constraint.node] = left
        return self._add(constraint)

    def _left_by(self, constraint: Allow | Forbid) -> Flags:
        left = self._left[constraint.node]
        return np.asarray(left & constraint.mask(len(left)))

    def _checked_classes(
        self, where: str, side: str, given: npt.ArrayLike | None, node: Node, count: int
    ) -> Ints | None:
        if given is None:
            return None
        known = self._classes.find(given)
        taken = None if known is None else self._classes.arrays[known]
        if taken is None or int(taken.max(initial=0)) >= count:
            taken = inputs.whole(where, side, given, count)
        if len(taken) != node.count:
            raise fault(where, f"{node.count} {side}, one per label", len(taken))
        return taken

    def _stored_classes(self, given: npt.ArrayLike | None, taken: Ints | None) -> int:
        if taken is None:
            return NO_CLASSES
        known = self._classes.find(given)
        return self._classes.add(given, taken) if known is None else known


def _times(values: Floats, by: float) -> Floats:
    return values if by == 1 else np.where(np.isinf(values), np.inf, values * by)
