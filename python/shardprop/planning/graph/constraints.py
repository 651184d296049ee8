"""The kinds of constraints: each with a name, its nodes, and what it wants in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .inputs import Flags, Floats, Ints
from .parts import Node

__all__ = ["Allow", "AllowPairs", "Constraint", "Equal", "Forbid", "Row", "within"]

# What rounding may add to the sum of a row, relative to its bound; the solver has the same figure.
_ROW_TOLERANCE = 1e-9

# How many labels or nodes a sentence lists.
_LISTED = 8


@dataclass(frozen=True, eq=False)
class Allow:
    """The node has one of the labels [L]."""

    name: str
    node: int
    labels: Ints

    def nodes(self) -> list[int]:
        return [self.node]

    def mask(self, count: int) -> Flags:
        """[count] whether a label is allowed."""
        return np.isin(np.arange(count), self.labels)

    def text(self, nodes: Sequence[Node]) -> str:
        node = nodes[self.node]
        return f"{self.name!r} allows only {_labels(node, self.labels)} of node {node.name!r}"


@dataclass(frozen=True, eq=False)
class Forbid:
    """The node has none of the labels [L]."""

    name: str
    node: int
    labels: Ints

    def nodes(self) -> list[int]:
        return [self.node]

    def mask(self, count: int) -> Flags:
        """[count] whether a label is allowed."""
        return np.isin(np.arange(count), self.labels, invert=True)

    def text(self, nodes: Sequence[Node]) -> str:
        node = nodes[self.node]
        return f"{self.name!r} forbids {_labels(node, self.labels)} of node {node.name!r}"


@dataclass(frozen=True, eq=False)
class AllowPairs:
    """The labels of u and v are one of the pairs [P x 2]."""

    name: str
    u: int
    v: int
    pairs: Ints

    def nodes(self) -> list[int]:
        return [self.u, self.v]

    def text(self, nodes: Sequence[Node]) -> str:
        first, second = nodes[self.u], nodes[self.v]
        return (
            f"{self.name!r} allows only {len(self.pairs)} of the {first.count * second.count} "
            f"label pairs of nodes {first.name!r} and {second.name!r}"
        )


@dataclass(frozen=True, eq=False)
class Equal:
    """All members have the same label index."""

    name: str
    members: Ints

    def nodes(self) -> list[int]:
        return [int(node) for node in self.members]

    def text(self, nodes: Sequence[Node]) -> str:
        return f"{self.name!r} wants equal labels of nodes {_names(nodes, self.nodes())}"


@dataclass(frozen=True, eq=False)
class Row:
    """lo <= sum of the coefficients of the chosen (node, label) <= hi.

    Attributes:
        of_nodes, labels, coefficients: The terms, each [T].
    """

    name: str
    of_nodes: Ints
    labels: Ints
    coefficients: Floats
    lo: float
    hi: float

    def nodes(self) -> list[int]:
        return sorted({int(node) for node in self.of_nodes})

    def text(self, nodes: Sequence[Node]) -> str:
        return f"{self.name!r} wants {self.wanted()}"

    def wanted(self) -> str:
        """The bounds, such as "a sum of at most 3"."""
        if self.lo == -math.inf:
            return f"a sum of at most {self.hi:g}" if self.hi < math.inf else "any sum"
        if self.hi == math.inf:
            return f"a sum of at least {self.lo:g}"
        return f"a sum from {self.lo:g} to {self.hi:g}"


Constraint = Allow | Forbid | AllowPairs | Equal | Row


def within(row: Row, value: float) -> bool:
    """Does the sum meet the row, save for rounding?"""
    return (
        row.lo - _ROW_TOLERANCE * max(1.0, abs(row.lo))
        <= value
        <= row.hi + _ROW_TOLERANCE * max(1.0, abs(row.hi))
    )


def _labels(node: Node, labels: Ints) -> str:
    shown = ", ".join(node.label(int(label)) for label in labels[:_LISTED])
    more = f", ... ({len(labels)} in all)" if len(labels) > _LISTED else ""
    return f"label{'s' if len(labels) > 1 else ''} {shown}{more}"


def _names(nodes: Sequence[Node], members: Sequence[int]) -> str:
    shown = ", ".join(repr(nodes[member].name) for member in members[:_LISTED])
    return shown + (f", ... ({len(members)} in all)" if len(members) > _LISTED else "")
