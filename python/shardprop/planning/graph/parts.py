"""Nodes and edges of a problem: what has a cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .inputs import Floats

__all__ = ["NO_CLASSES", "Edge", "Node"]

# In the place of an index of classes: every label is a class of its own.
NO_CLASSES = -1


@dataclass(frozen=True, eq=False)
class Node:
    """One choice.

    Attributes:
        costs: [K], inf where the label is forbidden.
        labels: Names of the K labels, for reports; they need not differ.
    """

    name: str
    costs: Floats
    labels: tuple[str, ...] | None = None

    @property
    def count(self) -> int:
        return len(self.costs)

    def label(self, index: int) -> str:
        """How reports call a label."""
        return f"{index}" if self.labels is None else f"{index} {self.labels[index]!r}"

    def has_forbidden(self) -> bool:
        return bool(np.isinf(self.costs).any())


@dataclass(frozen=True)
class Edge:
    """Prices of the labels of two nodes: ``tables[table][classes of u, classes of v]``.

    Attributes:
        u, v: Nodes, which may be one node twice.
        table: Index of the table.
        u_classes, v_classes: Index of the classes by label, or `NO_CLASSES`.
    """

    name: str
    u: int
    v: int
    table: int
    u_classes: int = NO_CLASSES
    v_classes: int = NO_CLASSES
