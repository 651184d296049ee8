"""The names of nodes; those of edges and constraints, one set since reasons name both."""

from __future__ import annotations

import numpy as np

from .errors import fault

__all__ = ["Names", "NodeRef"]

NodeRef = int | str

_EDGE, _CONSTRAINT = "an edge", "a constraint"


class Names:
    """What is called what; nothing is entered before a caller says so."""

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}
        self._kinds: dict[str, str] = {}  # of edges and constraints
        self._constraints = 0  # ever entered, so that a number of ours is not used twice

    def copy(self) -> Names:
        other = Names()
        other._nodes, other._kinds = dict(self._nodes), dict(self._kinds)
        other._constraints = self._constraints
        return other

    # --- nodes --------------------------------------------------------------------------------

    def node(self, node: NodeRef, where: str) -> int:
        """The index of a node given by index or name."""
        if isinstance(node, str):
            if node not in self._nodes:
                raise fault(where, "the name of a node", repr(node))
            return self._nodes[node]
        if isinstance(node, bool) or not isinstance(node, (int, np.integer)):
            raise fault(where, "the index or the name of a node", repr(node))
        if not 0 <= node < len(self._nodes):
            raise fault(where, f"a node index below {len(self._nodes)}", node)
        return int(node)

    def check_new_node(self, name: object) -> None:
        if not isinstance(name, str) or not name:
            raise fault("add_node", "a name", repr(name))
        if name in self._nodes:
            got = f"that of node {self._nodes[name]}"
            raise fault(f"node {name!r}", "a name that no other node has", got)

    def enter_node(self, name: str) -> int:
        self._nodes[name] = len(self._nodes)
        return len(self._nodes) - 1

    # --- edges and constraints ----------------------------------------------------------------

    def of_edge(self, u: str, v: str, name: str | None) -> str:
        """The name of a new edge between nodes of these names."""
        if name is not None:
            return self._free("add_edge, name", name)
        name, number = f"{u} -> {v}", 1
        while name in self._kinds:
            number += 1
            name = f"{u} -> {v} ({number})"
        return name

    def of_constraint(self, kind: str, on: str, name: str | None) -> tuple[str, str]:
        """The name of a new constraint, and how messages call it."""
        if name is not None:
            return self._free(f"{kind}, name", name), f"{kind} {name!r}"
        number = self._constraints + 1
        while (made := f"{kind} #{number}{on}") in self._kinds:
            number += 1
        return made, made

    def enter_edge(self, name: str) -> None:
        self._kinds[name] = _EDGE

    def enter_constraint(self, name: str) -> None:
        self._kinds[name] = _CONSTRAINT
        self._constraints += 1

    def drop_constraint(self, name: str) -> None:
        """Let go of a name.

        Raises:
            ShardpropError: no constraint is called so.
        """
        kind = self._kinds.get(name)
        if kind != _CONSTRAINT:
            got = repr(name) if kind is None else f"that of {kind}, {name!r}"
            raise fault("without", "the name of a constraint", got)
        del self._kinds[name]

    def _free(self, where: str, name: object) -> str:
        if not isinstance(name, str) or not name:
            raise fault(where, "a name", repr(name))
        if name in self._kinds:
            raise fault(where, "a name of its own", f"that of {self._kinds[name]}, {name!r}")
        return name
