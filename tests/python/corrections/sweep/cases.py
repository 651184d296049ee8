"""A function's cases: calls of it with their operands laid out on meshes, for several sizes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch.distributed.device_mesh import DeviceMesh

import shardprop

from ...quiet import quiet
from .layouts import LAYOUTS, Placements, placements_of
from .outcome import Found, expected, found
from .samples import SIZES, Sample, samples_of

__all__ = ["Case", "cases_of", "drawn_cases", "outcome_of"]

# None: there are not as many ranks.
MeshOf = Callable[..., DeviceMesh | None]


@dataclass(frozen=True)
class Case:
    """A call, and where its operands lie."""

    sample: Sample
    size: str
    layout: str
    mesh: DeviceMesh
    placements: tuple[Placements, ...]

    def __str__(self) -> str:
        return f"{self.layout}, {self.size}: {self.sample}"


def cases_of(function: str, mesh_of: MeshOf, samples: int = 1) -> Iterator[Case]:
    """All cases of a function, with so many calls of each size."""
    for size in SIZES:
        for sample in samples_of({function}, size, samples):
            yield from _laid_out(sample, size, mesh_of)


def drawn_cases(function: str, mesh_of: MeshOf, count: int) -> list[Case]:
    """So many of the cases of a function, if there are, each of another size; always the same."""
    rng = random.Random(function)
    drawn: list[Case] = []
    for size in rng.sample([*SIZES], len(SIZES)):
        for sample in samples_of({function}, size, 1):
            cases = [*_laid_out(sample, size, mesh_of)]
            if cases and len(drawn) < count:
                drawn.append(rng.choice(cases))
    return drawn


def _laid_out(sample: Sample, size: str, mesh_of: MeshOf) -> Iterator[Case]:
    """A call in each layout, save where nothing is laid out, or as in one before."""
    seen = set()
    for name, layout in LAYOUTS.items():
        mesh = mesh_of(*layout[0])
        if mesh is None:
            continue
        placements = placements_of(sample.tensors(), layout)
        is_whole = all(p.is_replicate() for each in placements for p in each)
        if not is_whole and (layout[0], placements) not in seen:
            seen.add((layout[0], placements))
            yield Case(sample, size, name, mesh, placements)


def outcome_of(case: Case, *, with_shardprop: bool = True, simulated: bool = True) -> Found | None:
    """How a case ends; None if one device refuses it. Not `simulated`: on this rank of a mesh of
    processes."""
    with quiet():
        right = expected(case.sample, case.placements)
        if right is None:
            return None
        with shardprop.enabled() if with_shardprop else contextlib.nullcontext():
            return found(case.sample, right, case.mesh, case.placements, simulated=simulated)
