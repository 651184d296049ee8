"""A problem as JSON values and a few flat arrays, and back through the builder's checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import ShardpropError
from .constraints import Allow, AllowPairs, Constraint, Equal, Forbid, Row
from .errors import fault
from .inputs import Ints, whole
from .parts import NO_CLASSES

if TYPE_CHECKING:
    from .problem import Problem
    from .schema import AllowPart, EqualPart, PairsPart, RowPart

__all__ = ["from_arrays", "to_arrays"]

_FORMAT, _VERSION = "shardprop graph problem", 1

Array = npt.NDArray[Any]


def to_arrays(problem: Problem) -> tuple[dict[str, Any], dict[str, Array]]:
    """See `Problem.to_arrays`: names and constraints as values; costs, prices, edges as arrays."""
    nodes = []
    for node in problem.nodes:
        labels = {} if node.labels is None else {"labels": list(node.labels)}
        nodes.append({"name": node.name, **labels})
    values = {
        "format": _FORMAT,
        "version": _VERSION,
        "nodes": nodes,
        "edges": [edge.name for edge in problem.edges],
        "constraints": [_values(constraint) for constraint in problem.constraints.values()],
    }
    edges = [(e.u, e.v, e.table, e.u_classes, e.v_classes) for e in problem.edges]
    shapes = [table.shape for table in problem.tables]
    arrays = {
        "costs": _flat([node.costs for node in problem.nodes], np.float64),
        "cost_counts": np.array([node.count for node in problem.nodes], dtype=np.int32),
        "tables": _flat([table.ravel() for table in problem.tables], np.float64),
        "table_shapes": np.array(shapes, dtype=np.int32).reshape(len(shapes), 2),
        "classes": _flat(problem.classes, np.int32),
        "class_counts": np.array([len(classes) for classes in problem.classes], dtype=np.int32),
        "edges": np.array(edges, dtype=np.int32).reshape(len(edges), 5),
    }
    return values, arrays


def from_arrays(
    values: Mapping[str, Any], arrays: Mapping[str, Array], document: str = "values"
) -> Problem:
    """See `Problem.from_arrays`; `document` is what messages call the values."""
    from ...support.json_document import checked
    from .problem import Problem
    from .schema import ProblemFile  # pydantic, which solving does not need

    file = checked(ProblemFile, values, document)
    problem = Problem()
    try:
        costs = list(_split(arrays, "costs", "cost_counts"))
        _same_length("nodes", len(costs), len(file.nodes))
        for node, cost in zip(file.nodes, costs, strict=True):
            problem.add_node(node.name, cost, node.labels)
        _add_edges(problem, file.edges, arrays)
        for constraint in file.constraints:
            _add_constraint(problem, constraint)
    except ShardpropError as error:
        raise ShardpropError(f"{document}: {error}") from None
    return problem


def _values(constraint: Constraint) -> dict[str, Any]:
    match constraint:
        case Allow(name=name, node=node, labels=labels):
            return {"kind": "allow", "name": name, "node": node, "labels": labels.tolist()}
        case Forbid(name=name, node=node, labels=labels):
            return {"kind": "forbid", "name": name, "node": node, "labels": labels.tolist()}
        case AllowPairs(name=name, u=u, v=v, pairs=pairs):
            return {"kind": "allow_pairs", "name": name, "u": u, "v": v, "pairs": pairs.tolist()}
        case Equal(name=name):
            return {"kind": "equal", "name": name, "nodes": constraint.nodes()}
        case Row() as row:
            return {
                "kind": "row",
                "name": row.name,
                "lo": None if row.lo == -math.inf else row.lo,  # JSON has no infinity
                "hi": None if row.hi == math.inf else row.hi,
                "nodes": row.of_nodes.tolist(),
                "labels": row.labels.tolist(),
                "coefficients": row.coefficients.tolist(),
            }


def _add_constraint(problem: Problem, part: AllowPart | PairsPart | EqualPart | RowPart) -> None:
    match part.kind:
        case "allow":
            problem.allow(part.node, part.labels, part.name)
        case "forbid":
            problem.forbid(part.node, part.labels, part.name)
        case "allow_pairs":
            problem.allow_pairs(part.u, part.v, part.pairs, part.name)
        case "equal":
            problem.equal(part.nodes, part.name)
        case "row":
            terms = np.array(part.nodes), np.array(part.labels), np.array(part.coefficients)
            lo = -math.inf if part.lo is None else part.lo
            problem.add_row(terms, lo, math.inf if part.hi is None else part.hi, part.name)


def _add_edges(problem: Problem, names: Sequence[str], arrays: Mapping[str, Array]) -> None:
    shapes = _indices(arrays, "table_shapes", 2)
    if len(shapes) and shapes.shape[1] != 2:
        raise fault("table_shapes", "rows and columns of each table", f"shape {shapes.shape}")
    counts = shapes.prod(axis=1, dtype=np.int64)
    flat = list(_split(arrays, "tables", counts))
    tables = [table.reshape(shape) for table, shape in zip(flat, shapes, strict=True)]
    classes = list(_split(arrays, "classes", "class_counts"))
    edges = _array(arrays, "edges", "i")
    if edges.ndim != 2 or edges.shape[1] != 5:
        raise fault("edges", "an array [edges, 5]", f"shape {edges.shape}")
    _same_length("edges", len(edges), len(names))
    ends = (len(tables), len(classes), len(classes))
    for at, (u, v, *stored) in enumerate(edges.tolist()):
        least = (0, NO_CLASSES, NO_CLASSES)
        if any(not a <= s < end for a, s, end in zip(least, stored, ends, strict=True)):
            raise fault(f"edges[{at}]", f"indices of table and classes below {ends}", stored)
        table, of_u, of_v = stored
        problem.add_edge(
            u,
            v,
            tables[table],
            u_classes=None if of_u == NO_CLASSES else classes[of_u],
            v_classes=None if of_v == NO_CLASSES else classes[of_v],
            name=names[at],
        )


# --- reading ----------------------------------------------------------------------------------


def _flat(parts: Any, dtype: type[np.generic]) -> Array:
    return np.concatenate([np.empty(0, dtype=dtype), *parts])


def _array(arrays: Mapping[str, Array], name: str, kinds: str) -> Array:
    if name not in arrays:
        raise fault("arrays", f"one named {name!r}", "none")
    array = np.asarray(arrays[name])
    if array.dtype.kind not in kinds:
        raise fault(f"array {name!r}", "another dtype", array.dtype)
    return array


def _indices(arrays: Mapping[str, Array], name: str, ndim: int) -> Ints:
    return whole(f"array {name!r}", "counts", _array(arrays, name, "i"), 2**31 - 1, ndim)


def _split(arrays: Mapping[str, Array], name: str, counts: str | Array) -> Iterator[Array]:
    """The pieces of a flat array, each an object of its own that nobody can write to."""
    flat = _array(arrays, name, "if")
    if isinstance(counts, str):
        counts = _indices(arrays, counts, 1)
    if flat.ndim != 1 or int(counts.sum(dtype=np.int64)) != len(flat):
        raise fault(f"array {name!r}", f"{counts.sum()} values", f"shape {flat.shape}")
    ends = np.cumsum(counts, dtype=np.int64)
    for start, end in zip(ends - counts, ends, strict=True):
        piece = flat[start:end].copy()
        piece.setflags(write=False)
        yield piece


def _same_length(where: str, expected: int, got: int) -> None:
    if expected != got:
        raise fault(where, f"{expected} entries", got)
