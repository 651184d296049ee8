"""What `shardprop audit` found: the calls that torch alone decides wrongly, by source line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .. import _torch
from .._torch import DTensorSpec, OpSchema, OutputSharding
from ..corrections.by_op import CORRECTIONS
from ..corrections.correction import Correction
from ..inspection.tracing import Place, Trace, TracedDecision
from ..inspection.tracing.model import policy_of
from ..inspection.tracing.text import op_text, place_text
from ..inspection.words import dim_names, dtype_text, mesh_text, without_masks
from ..model.operands import operands_of
from ..propagation.answer import wanted_specs
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
        return f"{self.name} {self.shape} {self.layout}"


@dataclass(frozen=True)
class Outcome:
    """A decision: the layouts that the op works on, and those of what it gives (``-`` for no
    tensor)."""

    operands: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.operands)} -> {', '.join(self.outputs)}"


@dataclass(frozen=True)
class Finding:
    """Calls of one op at one line, with operands in the same layouts, that torch alone decides
    wrongly for the same reason.

    Attributes:
        op: The overload.
        place: The line; its module is empty (`modules`).
        modules: The modules that the calls were part of.
        mesh: ``mesh dp=2, tp=4``.
        operands: Of the first of the calls.
        correction: The fault, and what was done instead.
        torch: What torch alone decides.
        shardprop: What was decided.
        count: How many calls.
    """

    op: str
    place: Place
    modules: tuple[str, ...]
    mesh: str
    operands: tuple[Tensor, ...]
    correction: Correction
    torch: Outcome
    shardprop: Outcome
    count: int = 1

    @property
    def key(self) -> object:
        """What the calls have in common: all but sizes and modules."""
        layouts = tuple(operand.layout for operand in self.operands)
        fault = self.correction.name
        return (self.op, self.place, self.mesh, layouts, fault, self.torch, self.shardprop)

    def and_again(self, other: Finding) -> Finding:
        """With one more call."""
        modules = dict.fromkeys((*self.modules, *other.modules))
        return replace(self, modules=tuple(modules), count=self.count + 1)

    def lines(self) -> Iterator[str]:
        """For a terminal, below the line of the program."""
        times = f"{self.count:,} x " if self.count > 1 else ""
        operands = ", ".join(map(str, self.operands))
        yield f"  {times}{op_text(self.op)}({operands}) on {self.mesh}: {self.correction.name}"
        yield f"      torch alone  {self.torch}"
        yield f"      shardprop    {self.shardprop}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "op": self.op,
            "file": self.place.file,
            "line": self.place.line,
            "function": self.place.function,
            "modules": list(self.modules),
            "backward": self.place.backward,
            "mesh": self.mesh,
            "operands": [dict(vars(operand)) for operand in self.operands],
            "fault": self.correction.name,
            "torch": {name: list(layouts) for name, layouts in vars(self.torch).items()},
            "shardprop": {name: list(layouts) for name, layouts in vars(self.shardprop).items()},
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
        dropped: Calls past the limit of a trace: not looked at.

    Args:
        trace: Of the program, by `corrected_calls`.
    """

    def __init__(self, trace: Trace) -> None:
        by_key: dict[object, Finding] = {}
        torchs = _TorchsDecisions()
        self.alike = self.uncorrected = 0
        for decision in trace.decisions:
            if not policy_of(decision).corrects:
                self.uncorrected += 1
                continue
            found = _finding(decision, torchs.of(decision.schema))
            if found is None:
                self.alike += 1
                continue
            known = by_key.get(found.key)
            by_key[found.key] = found if known is None else known.and_again(found)
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
            yield ["What is wrong with torch's decisions", *_explained(self.faults)]

    def _summary(self) -> Iterator[str]:
        total = f"{counted(self.calls, 'call')} of ops on DTensors"
        if self.findings:
            wrong = sum(finding.count for finding in self.findings)
            lines = len({(f.place.file, f.place.line) for f in self.findings})
            at = f"{wrong:,} of {total}, at {counted(lines, 'line')}"
            yield f"shardprop audit: torch alone decides wrongly in {at}"
        else:
            yield f"shardprop audit: nothing found in {total}"
        for count, what in (
            (self.alike, "a known fault of torch that does not show: it decides alike, or refuses"),
            (self.uncorrected, "corrections=False: not looked at"),
            (self.dropped, "no place left in the trace: not looked at"),
        ):
            if count:
                yield f"  {counted(count, 'call')} with {what}"


def _explained(faults: Sequence[Correction], width: int = 100) -> Iterator[str]:
    for fault in faults:
        text = f"{fault.name}: torch {fault.fault} shardprop {fault.right}"
        yield from wrapped(text, width, indent="    ", first="  ")


class _TorchsDecisions:
    """torch's own decisions, each asked for once."""

    def __init__(self) -> None:
        self._known: dict[OpSchema, OutputSharding | None] = {}

    def of(self, schema: OpSchema) -> OutputSharding | None:
        """The decision; None where torch refuses."""
        try:
            if schema not in self._known:
                self._known[schema] = _torchs(schema)
            return self._known[schema]
        except TypeError:  # an argument without a hash
            return _torchs(schema)


def _torchs(schema: OpSchema) -> OutputSharding | None:
    with _torch.as_dispatched(), uncounted():
        try:
            return _torch.torch_propagate(schema)
        except Exception:
            return None


def _finding(decision: TracedDecision, theirs: OutputSharding | None) -> Finding | None:
    """What torch alone gets wrong here by its decision; None where it does not."""
    ours = decision.output
    if ours is None or theirs is None or describe(ours) == describe(theirs):
        return None
    schema = decision.schema
    operands = operands_of(schema.op, schema.args_schema, schema.kwargs_schema)
    specs = [(x.name, x.meta) for x in operands if isinstance(x.meta, DTensorSpec)]
    mesh = specs[0][1].mesh
    assert decision.correction is not None
    return Finding(
        op=decision.op,
        place=replace(decision.place, module=""),
        modules=(decision.place.module,),
        mesh=mesh_text(dim_names(mesh), mesh.shape),
        operands=tuple(_tensor(*named) for named in specs),
        correction=_FAULTS[decision.correction],
        torch=_outcome(schema, theirs),
        shardprop=_outcome(schema, ours),
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
