"""A trace as a JSON document (schemas/trace.schema.json)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..._torch import (
    DeviceMesh,
    DTensorSpec,
    Partial,
    Placement,
    Replicate,
    StridedShard,
    is_shard,
    is_strided,
)
from ...model.operands import operands_of
from ...model.plan_steps import Layout, Step
from ...redistribution.hook import layout_of, layout_text, plan_text
from ...support.stats import DecidedBy
from ...version import __version__
from ..words import dim_names, dtype_text
from .model import Place, TracedDecision
from .rows import CorrectionRow, MoveRow, totals

if TYPE_CHECKING:
    from .report import Trace

__all__ = ["SCHEMA", "trace_json"]

SCHEMA = "shardprop/trace/1"

Json = dict[str, Any]


def trace_json(trace: Trace, row_of: Sequence[int]) -> Json:
    """All of a trace in plain values: what a report is made of, without the program.

    `row_of` has for each redistribution the index of its row among ``trace.moves()``.
    """
    tables = _Tables()
    moves = trace.moves()
    decisions = [_decision(decision, tables) for decision in trace.decisions]
    redistributions = [_move(row, tables) for row in moves]
    timeline = [
        [row, each.at, each.seconds, tables.thread(each.thread)]
        for row, each in zip(row_of, trace.redistributions, strict=True)
    ]
    return {
        "schema": SCHEMA,
        "versions": {"shardprop": __version__, "torch": str(torch.__version__)},
        "summary": _summary(trace),
        "meshes": tables.meshes,
        "places": tables.places,
        "threads": len(tables.threads),
        "modules": [vars(row) for row in trace.by_module()],
        "corrections": [_correction(row, tables) for row in trace.corrections],
        "decisions": decisions,
        "redistributions": redistributions,
        "timeline": sorted(timeline, key=lambda entry: entry[1]),
    }


def _summary(trace: Trace) -> Json:
    moves = trace.moves()
    return {
        "wall_seconds": trace.wall_seconds,
        "propagation_seconds": trace.seconds,
        "hits": trace.hits,
        "misses": trace.misses,
        "dropped": trace.dropped,
        "decisions": len(trace.decisions),
        "deciders": trace.deciders(),
        "delegated": trace.reasons(DecidedBy.TORCH),
        "fallbacks": trace.reasons(DecidedBy.FALLBACK),
        "errors": trace.errors,
        "policies": sorted({d.policy for d in trace.decisions} | {m.policy for m in moves}),
        **vars(totals(moves)),
    }


class _Tables:
    """What entries refer to by index: meshes, places, threads."""

    def __init__(self) -> None:
        self.meshes: list[Json] = []
        self.places: list[Json] = []
        self.threads: dict[int, int] = {}
        self._mesh_of: dict[int, int] = {}
        self._place_of: dict[Place, int] = {}

    def thread(self, identifier: int) -> int:
        """Threads by number, in the order in which they are met."""
        return self.threads.setdefault(identifier, len(self.threads))

    def place(self, place: Place) -> int:
        """The index of a place."""
        if place not in self._place_of:
            self._place_of[place] = len(self.places)
            self.places.append(dict(vars(place)))
        return self._place_of[place]

    def mesh(self, mesh: DeviceMesh) -> int:
        """The index of a mesh; by identity, since it is the specs' own."""
        if id(mesh) not in self._mesh_of:
            self._mesh_of[id(mesh)] = len(self.meshes)
            self.meshes.append(
                {
                    "shape": list(mesh.shape),
                    "dim_names": list(dim_names(mesh)),
                    "device_type": mesh.device_type,
                    "ranks": mesh.mesh.tolist(),
                }
            )
        return self._mesh_of[id(mesh)]


def _decision(decision: TracedDecision, tables: _Tables) -> Json:
    schema = decision.schema
    operands = operands_of(schema.op, schema.args_schema, schema.kwargs_schema)
    specs = [x.meta for x in operands if isinstance(x.meta, DTensorSpec)]
    output = decision.output
    return {
        "op": decision.op,
        "at": decision.at,
        "seconds": decision.seconds,
        "decider": decision.decider.value,
        "reason": decision.reason,
        "correction": decision.correction,
        "error": decision.error,
        "policy": decision.policy,
        "place": tables.place(decision.place),
        "thread": tables.thread(decision.thread),
        "mesh": tables.mesh(specs[0].mesh) if specs else None,
        "operands": [
            {"name": operand.name, **_tensor(operand.meta)}
            for operand in operands
            if isinstance(operand.meta, DTensorSpec)
        ],
        "outputs": [] if output is None else _outputs(output.output_spec),
        "redistributes": bool(output is not None and output.needs_redistribute),
    }


def _correction(row: CorrectionRow, tables: _Tables) -> Json:
    return {
        "correction": row.correction,
        "op": row.op,
        "place": tables.place(row.place),
        "count": row.count,
        "operands": [{"name": name, **_tensor(spec)} for name, spec in row.operands.items()],
    }


def _outputs(spec: object) -> list[Json | None]:
    several = isinstance(spec, Sequence)
    specs = list(spec) if several else [spec]  # type: ignore[call-overload]
    return [_tensor(each) if isinstance(each, DTensorSpec) else None for each in specs]


def _tensor(spec: DTensorSpec) -> Json:
    meta = spec.tensor_meta
    return {
        "shape": None if meta is None else [*map(_size, meta.shape)],
        "dtype": None if meta is None else dtype_text(meta.dtype),
        "layout": _layout(layout_of(spec)),
    }


def _size(size: object) -> object:
    """A size; in words if it is an expression."""
    return size if isinstance(size, int) else str(size)


def _move(row: MoveRow, tables: _Tables) -> Json:
    plan = row.plan
    before = layout_of(row.src)
    after = layout_of(row.dst)
    tensor = _tensor(row.src)
    return {
        "op": row.op,
        "operand": row.operand,
        "explicit": row.explicit,
        "policy": row.policy,
        "place": tables.place(row.place),
        "mesh": tables.mesh(row.src.mesh),
        "shape": tensor["shape"],
        "dtype": tensor["dtype"],
        "src": _layout(before),
        "dst": _layout(after),
        "text": _text(plan.steps if plan else (), before, after),
        "count": row.count,
        "us": row.us,
        "wire_bytes": row.wire_bytes,
        "collectives": row.collectives,
        "host_seconds": row.seconds,
        "correction": row.correction,
        "has_plan": plan is not None,
        "note": row.planned.note,
        "steps": [_step(step) for step in plan.steps] if plan else [],
    }


def _text(steps: Sequence[Step], before: Layout, after: Layout) -> str:
    return plan_text(steps) if steps else f"{layout_text(before)}->{layout_text(after)}"


def _step(step: Step) -> Json:
    return {
        **vars(step),
        "mesh_dims": list(step.mesh_dims),
        "us": step.us,
        "before": _layout(step.before),
        "after": _layout(step.after),
    }


def _layout(layout: Layout) -> Json:
    return {
        "text": layout_text(layout),
        "placements": [_placement(placement) for placement in layout.placements],
        "shard_order": [[dim, list(mesh_dims)] for dim, mesh_dims in layout.shard_order],
    }


def _placement(placement: Placement) -> Json:
    text = str(placement)
    if isinstance(placement, StridedShard):
        factor = _size(placement.split_factor)
        return {"kind": "strided_shard", "text": text, "dim": placement.dim, "split_factor": factor}
    if is_shard(placement) and not is_strided(placement):
        return {"kind": "shard", "text": text, "dim": placement.dim}  # type: ignore[attr-defined]
    if isinstance(placement, Replicate):
        return {"kind": "replicate", "text": text}
    if isinstance(placement, Partial):
        return {"kind": "partial", "text": text, "reduce": str(placement.reduce_op)}
    return {"kind": "other", "text": text}
