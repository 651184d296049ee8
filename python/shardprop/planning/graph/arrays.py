"""A problem as JSON values and a few flat arrays, and back through the builder's checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .constraints import Allow, AllowPairs, Constraint, Equal, Forbid, Row
from .errors import fault
from .inputs import Ints, whole
from .parts import NO_CLASSES

if TYPE_CHECKING:
    from .problem import Problem

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


def from_arrays(values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Problem:
    """See `Problem.from_arrays`."""
    from .problem import Problem

    form = (_member(values, "format", str), _member(values, "version", int))
    if form != (_FORMAT, _VERSION):
        raise fault("format", f"{_FORMAT!r}, version {_VERSION}", f"{form[0]!r}, {form[1]}")
    problem = Problem()
    nodes = _member(values, "nodes", list)
    costs = list(_split(arrays, "costs", "cost_counts"))
    _same_length("nodes", len(costs), len(nodes))
    for at, (node, cost) in enumerate(zip(nodes, costs, strict=True)):
        _is(f"nodes[{at}]", node, dict)
        labels = node.get("labels")
        if labels is not None:
            _is(f"nodes[{at}].labels", labels, list)
        problem.add_node(_member(node, "name", str, f"nodes[{at}]."), cost, labels)
    _add_edges(problem, _member(values, "edges", list), arrays)
    for at, constraint in enumerate(_member(values, "constraints", list)):
        _is(f"constraints[{at}]", constraint, dict)
        _add_constraint(problem, constraint, f"constraints[{at}].")
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


def _add_constraint(problem: Problem, values: dict[str, Any], where: str) -> None:
    def part(key: str, kind: type) -> Any:
        return _member(values, key, kind, where)

    name = part("name", str)
    match part("kind", str):
        case "allow":
            problem.allow(part("node", int), part("labels", list), name)
        case "forbid":
            problem.forbid(part("node", int), part("labels", list), name)
        case "allow_pairs":
            problem.allow_pairs(part("u", int), part("v", int), part("pairs", list), name)
        case "equal":
            problem.equal(part("nodes", list), name)
        case "row":
            lo, hi = values.get("lo"), values.get("hi")
            parts = [part(key, list) for key in ("nodes", "labels", "coefficients")]
            _same_length(f"{where}labels", len(parts[0]), len(parts[1]))
            _same_length(f"{where}coefficients", len(parts[0]), len(parts[2]))
            problem.add_row(
                zip(*parts, strict=True),
                -math.inf if lo is None else lo,
                math.inf if hi is None else hi,
                name,
            )
        case kind:
            raise fault(f"{where}kind", "allow, forbid, allow_pairs, equal or row", repr(kind))


def _add_edges(problem: Problem, names: list[Any], arrays: Mapping[str, Array]) -> None:
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


def _member(values: Mapping[str, Any], key: str, kind: type, where: str = "") -> Any:
    if not isinstance(values, Mapping):
        raise fault(where or "document", "an object", type(values).__name__)
    if key not in values:
        raise fault(f"{where}{key}", "a value", "none")
    _is(f"{where}{key}", values[key], kind)
    return values[key]


def _is(where: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        names = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}
        raise fault(where, names[kind], repr(value)[:60])


def _same_length(where: str, expected: int, got: int) -> None:
    if expected != got:
        raise fault(where, f"{expected} entries", got)
