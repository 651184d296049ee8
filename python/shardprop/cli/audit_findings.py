"""What `shardprop audit` found: calls and redistributions that torch alone gets wrong, by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .. import _torch
from .._torch import DTensorSpec, OpSchema, OutputSharding
from ..corrections.by_op import CORRECTIONS
from ..corrections.convolution_handler import CONVOLUTION_HANDLER
from ..corrections.correction import Correction
from ..inspection.tracing import Place, Trace, TracedDecision, TracedRedistribution
from ..inspection.tracing.model import policy_of
from ..inspection.tracing.rows import EXPLICIT
from ..inspection.tracing.text import op_text, place_text
from ..inspection.words import dim_names, dtype_text, mesh_text, without_masks
from ..model.operands import operands_of
from ..propagation.answer import wanted_specs
from ..propagation.op_call import specs_of
from ..propagation.propagator import uncounted
from ..redistribution.hook import layout_of, layout_text
from ..support.console import counted, wrapped
from ..version import __version__
from .decisions import describe

__all__ = ["Audit", "Finding", "Outcome", "Tensor"]

SCHEMA = "shardprop/audit/1"

_FAULTS = {correction.name: correction for correction in CORRECTIONS}


@dataclass(frozen=True)
class Tensor:
    """An operand of a call, in words.

    Attributes:
        name: What the op calls it.
        shape: Of the whole tensor.
        dtype: ``float32``.
        layout: In torch's short form.
    """

    name: str
    shape: str
    dtype: str
    layout: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.shape, self.layout)))


@dataclass(frozen=True)
class Outcome:
    """A decision: the layouts that the op works on, and those of what it gives (``-`` for no
    tensor)."""

    operands: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.operands)} -> {', '.join(self.outputs)}"

    def to_json(self) -> dict[str, list[str]]:
        """Plain values."""
        return {name: list(layouts) for name, layouts in vars(self).items()}


@dataclass(frozen=True)
class Finding:
    """Calls of one op at one line, with operands in the same layouts, that torch alone decides
    wrongly for the same reason; or redistributions for which it has a wrong plan.

    Attributes:
        op: The overload; ``"redistribute"`` for a redistribution that the program asked for.
        place: The line; its module is empty (`modules`).
        modules: The modules that the calls were part of.
        mesh: ``mesh dp=2, tp=4``.
        operands: Of the first of the calls; of a redistribution what is moved.
        correction: The fault, and what was done instead.
        torch: What torch alone decides; None for a redistribution, whose layouts are right.
        shardprop: What was decided; of a redistribution the layouts it is from and to.
        count: How many.
    """

    op: str
    place: Place
    modules: tuple[str, ...]
    mesh: str
    operands: tuple[Tensor, ...]
    correction: Correction
    torch: Outcome | None
    shardprop: Outcome
    count: int = 1

    @property
    def is_redistribution(self) -> bool:
        """Is it a plan that is wrong?"""
        return self.torch is None

    @property
    def key(self) -> object:
        """What the calls have in common: all but sizes and modules."""
        layouts = tuple(operand.layout for operand in self.operands)
        fault = self.correction.name
        return (self.op, self.place, self.mesh, layouts, fault, self.torch, self.shardprop)

    def and_again(self, other: Finding) -> Finding:
        """With one more."""
        modules = dict.fromkeys((*self.modules, *other.modules))
        return replace(self, modules=tuple(modules), count=self.count + 1)

    def lines(self) -> Iterator[str]:
        """For a terminal, below the line of the program."""
        times = f"{self.count:,} x " if self.count > 1 else ""
        operands = ", ".join(map(str, self.operands)).strip()
        if self.is_redistribution:
            what = f"{op_text(self.op)}: {operands} -> {', '.join(self.shardprop.outputs)}"
        else:
            what = f"{op_text(self.op)}({operands})"
        yield f"  {times}{what} on {self.mesh}: {self.correction.name}"
        if not self.is_redistribution:
            yield f"      torch alone  {self.torch}"
            yield f"      shardprop    {self.shardprop}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "kind": "redistribution" if self.is_redistribution else "decision",
            "op": self.op,
            "file": self.place.file,
            "line": self.place.line,
            "function": self.place.function,
            "modules": list(self.modules),
            "backward": self.place.backward,
            "mesh": self.mesh,
            "operands": [dict(vars(operand)) for operand in self.operands],
            "fault": self.correction.name,
            "torch": None if self.torch is None else self.torch.to_json(),
            "shardprop": self.shardprop.to_json(),
            "count": self.count,
        }


class Audit:
    """The findings of a run.

    Made while the program's process group is there: torch is asked for its own decisions.

    Attributes:
        findings: By file and line, those of one line in the order of the first calls.
        calls: How many ops on DTensors were decided.
        alike: Calls with a known fault of torch that it does not show here: it decides as shardprop
            does, or refuses.
        uncorrected: Calls that the program made with ``corrections=False``: not looked at.
        dropped: Events past the limit of a trace: not looked at.

    Args:
        trace: Of the program, by `corrected_calls`.
    """

    def __init__(self, trace: Trace) -> None:
        corrected = [each for each in trace.decisions if policy_of(each).corrects]
        self.uncorrected = len(trace.decisions) - len(corrected)
        torchs = _TorchsDecisions()
        found = [_of_decision(each, torchs.of(each.schema)) for each in corrected]
        self.alike = found.count(None)
        found += map(_of_redistribution, trace.redistributions)
        by_key: dict[object, Finding] = {}
        for each in found:
            if each is not None:
                known = by_key.get(each.key)
                by_key[each.key] = each if known is None else known.and_again(each)
        self.findings = sorted(by_key.values(), key=lambda f: (f.place.file, f.place.line))
        stats = trace.stats
        others = (stats.delegated, stats.fallbacks, stats.refused)
        self.calls = stats.decisions + sum(sum(counts.values()) for counts in others)
        self.dropped = trace.dropped

    @property
    def faults(self) -> list[Correction]:
        """The faults of the findings, each once."""
        return list({f.correction.name: f.correction for f in self.findings}.values())

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``schemas/audit.schema.json`` in the package describes."""
        return {
            "schema": SCHEMA,
            "versions": {"shardprop": __version__, "torch": str(torch.__version__)},
            "calls": self.calls,
            "alike": self.alike,
            "uncorrected": self.uncorrected,
            "dropped": self.dropped,
            "findings": [finding.to_json() for finding in self.findings],
            "faults": [
                {"name": fault.name, "torch": fault.fault, "shardprop": fault.right}
                for fault in self.faults
            ],
        }

    def __str__(self) -> str:
        return "\n\n".join("\n".join(part) for part in self._parts())

    def _parts(self) -> Iterator[list[str]]:
        yield [*self._summary()]
        by_place: dict[str, list[Finding]] = {}
        for finding in self.findings:
            by_place.setdefault(place_text(finding.place, finding.modules), []).append(finding)
        for place, findings in by_place.items():
            yield [place, *(line for finding in findings for line in finding.lines())]
        if self.findings:
            yield ["What torch alone does", *_explained(self.faults)]

    def _summary(self) -> Iterator[str]:
        total = f"{counted(self.calls, 'call')} of ops on DTensors"
        if self.findings:
            moved = sum(f.count for f in self.findings if f.is_redistribution)
            decided = sum(f.count for f in self.findings) - moved
            parts = [f"{decided:,} of {total}"] * bool(decided)
            parts += [counted(moved, "redistribution")] * bool(moved)
            lines = counted(len({(f.place.file, f.place.line) for f in self.findings}), "line")
            yield f"shardprop audit: torch alone is wrong in {' and '.join(parts)}, at {lines}"
        else:
            yield f"shardprop audit: nothing found in {total}"
        for count, what in (
            (
                self.alike,
                "with a known fault of torch that does not show: it decides alike, or refuses",
            ),
            (self.uncorrected, "with corrections=False: not looked at"),
            (self.dropped, "past the limit of a trace: not looked at"),
        ):
            if count:
                yield f"  {counted(count, 'call')} {what}"


def _explained(faults: Sequence[Correction], width: int = 100) -> Iterator[str]:
    for fault in faults:
        text = f"{fault.name}: torch {fault.fault} shardprop {fault.right}"
        yield from wrapped(text, width, indent="    ", first="  ")


class _TorchsDecisions:
    """torch's own decisions, each asked for once."""

    def __init__(self) -> None:
        self._known: dict[object, OutputSharding | None] = {}

    def of(self, schema: OpSchema) -> OutputSharding | None:
        """The decision; None where torch refuses."""
        # By all arguments: schemas are equal that differ in those which torch's cache leaves out.
        key = (describe(schema), *(id(spec.mesh) for spec in specs_of(schema)))
        if key not in self._known:
            self._known[key] = _torchs(schema)
        return self._known[key]


def _torchs(schema: OpSchema) -> OutputSharding | None:
    with _torch.as_dispatched(), uncounted():
        try:
            return _as_carried_out(schema, _torch.torch_propagate(schema))
        except Exception:
            return None


def _as_carried_out(schema: OpSchema, sharding: OutputSharding) -> OutputSharding:
    """A decision of torch's, without the moves that torch does not make."""
    if schema.op not in CONVOLUTION_HANDLER.ops:
        return sharding
    pairs = zip(specs_of(schema), wanted_specs(schema, sharding), strict=False)
    moved = [spec.placements != wanted.placements for spec, wanted in pairs]
    # The gradient of the output is the one operand that the handler moves.
    if not any(moved[schema.op is torch.ops.aten.convolution_backward.default :]):
        return sharding
    return replace(sharding, redistribute_schema=None, needs_redistribute=False)


def _of_decision(decision: TracedDecision, theirs: OutputSharding | None) -> Finding | None:
    """What torch alone gets wrong here by its decision; None where it does not."""
    ours = decision.output
    if ours is None or theirs is None or describe(ours) == describe(theirs):
        return None
    schema = decision.schema
    operands = operands_of(schema.op, schema.args_schema, schema.kwargs_schema)
    specs = [(x.name, x.meta) for x in operands if isinstance(x.meta, DTensorSpec)]
    return _found(decision, decision.op, specs, _outcome(schema, theirs), _outcome(schema, ours))


def _of_redistribution(moved: TracedRedistribution) -> Finding:
    """What torch alone moves wrongly."""
    ends = Outcome((_layout(moved.src),), (_layout(moved.dst),))
    return _found(moved, moved.op or EXPLICIT, [(moved.operand or "", moved.src)], None, ends)


def _found(
    event: TracedDecision | TracedRedistribution,
    op: str,
    specs: Sequence[tuple[str, DTensorSpec]],
    theirs: Outcome | None,
    ours: Outcome,
) -> Finding:
    mesh = specs[0][1].mesh
    assert event.correction is not None
    return Finding(
        op=op,
        place=replace(event.place, module=""),
        modules=(event.place.module,),
        mesh=mesh_text(dim_names(mesh), mesh.shape),
        operands=tuple(_tensor(*named) for named in specs),
        correction=_FAULTS[event.correction],
        torch=theirs,
        shardprop=ours,
    )


def _outcome(schema: OpSchema, sharding: OutputSharding) -> Outcome:
    wanted = wanted_specs(schema, sharding)
    spec = sharding.output_spec
    outputs = spec if isinstance(spec, (list, tuple)) else (spec,)
    return Outcome(tuple(map(_layout, wanted)), tuple(map(_layout, outputs)))


def _tensor(name: str, spec: DTensorSpec) -> Tensor:
    meta = spec.tensor_meta
    shape = "" if meta is None else f"[{', '.join(map(str, meta.shape))}]"
    return Tensor(name, shape, "" if meta is None else dtype_text(meta.dtype), _layout(spec))


def _layout(spec: DTensorSpec | None) -> str:
    return "-" if spec is None else without_masks(layout_text(layout_of(spec)))
