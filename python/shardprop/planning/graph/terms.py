"""Pairs of labels and terms of rows, as callers give them, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import fault
from .inputs import Floats, Ints, frozen, numbers, whole
from .names import NodeRef
from .parts import Node

__all__ = ["Pairs", "Terms", "label_pairs", "row_terms"]

Pairs = Iterable[tuple[int, int]] | npt.NDArray[Any]
Terms = (
    Iterable[tuple[NodeRef, int, float]]
    | tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
)

_ANY = 2**31 - 1


def label_pairs(where: str, pairs: Pairs, u_count: int, v_count: int) -> Ints:
    """[P, 2] pairs in ascending order, each once; at least one."""
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise fault(where, "pairs of labels", repr(pairs))
    given = pairs if isinstance(pairs, np.ndarray) else list(pairs)
    taken = whole(where, "pairs of labels", given, _ANY, ndim=2)
    if not len(taken):
        raise fault(where, "at least one pair", "none")
    if taken.shape[1] != 2:
        raise fault(where, "pairs of labels", f"shape {taken.shape}")
    for column, count, side in ((0, u_count, "u"), (1, v_count, "v")):
        for at in np.flatnonzero(taken[:, column] >= count)[:1]:
            label = taken[at, column]
            raise fault(f"{where}, pair {at}", f"a label of {side} below {count}", label)
    return np.unique(taken, axis=0)


def row_terms(
    where: str, terms: Terms, nodes: Sequence[Node], index: Callable[[NodeRef, str], int]
) -> tuple[Ints, Ints, Floats]:
    """Node indices, labels and coefficients [T] of the terms of a row."""
    given = _columns(where, terms)
    members = [index(node, f"{where}, term {at}") for at, node in enumerate(given[0])]
    labels = whole(where, "labels of the terms", given[1], _ANY)
    coefficients = numbers(where, "coefficients of the terms", given[2], 1)
    if not len(members) == len(labels) == len(coefficients):
        lengths = f"{len(members)}, {len(labels)} and {len(coefficients)}"
        raise fault(where, "as many nodes as labels and coefficients", lengths)
    counts = np.array([nodes[member].count for member in members], dtype=np.int64)
    for at in np.flatnonzero(labels >= counts)[:1]:
        name = nodes[members[at]].name
        raise fault(f"{where}, term {at}", f"a label of {name!r} below {counts[at]}", labels[at])
    for at in np.flatnonzero(~np.isfinite(coefficients))[:1]:
        raise fault(f"{where}, term {at}", "a finite coefficient", coefficients[at])
    of_nodes = np.array(members, dtype=np.int32)
    frozen(of_nodes)
    return of_nodes, labels, coefficients


def _columns(where: str, terms: Terms) -> tuple[Any, Any, Any]:
    if isinstance(terms, str) or not isinstance(terms, Iterable):
        raise fault(where, "terms (node, label, coefficient)", repr(terms))
    listed: tuple[Any, ...] = tuple(terms)
    if len(listed) == 3 and all(isinstance(part, np.ndarray) for part in listed):
        of_nodes, labels, coefficients = listed
        if of_nodes.ndim != 1:
            raise fault(where, "nodes of the terms of 1 dim", f"shape {of_nodes.shape}")
        return of_nodes.tolist(), labels, coefficients
    for at, term in enumerate(listed):
        if isinstance(term, str) or not isinstance(term, Sequence) or len(term) != 3:
            raise fault(f"{where}, term {at}", "(node, label, coefficient)", repr(term))
    if not listed:
        return [], [], []
    of_nodes, labels, coefficients = (list(part) for part in zip(*listed, strict=True))
    return of_nodes, labels, coefficients
