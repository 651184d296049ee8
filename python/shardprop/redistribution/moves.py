"""Plans made once into steps on local tensors, held by the spec that they start from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from .. import _core, _torch
from .._torch import DeviceMesh, DTensorSpec, Placement, Replicate, Shard
from ..support.cache import BoundedMap

__all__ = ["Move", "Moves"]

_SPECS_HELD = 8192
_LAYOUTS_HELD = 4096


class Move:
    """A plan from one spec to placements, on this rank.

    Args:
        steps: In the order in which they run.

    Attributes:
        source: What it starts from.
        target: What it leads to.
        correction: The name of the fault of torch's own plan that it puts right.
        is_there: Do both have the same placements?
    """

    __slots__ = (
        "_begun",
        "_flattened",
        "_known_flattened",
        "_run",
        "correction",
        "is_there",
        "source",
        "target",
    )

    def __init__(
        self,
        source: DTensorSpec,
        target: DTensorSpec,
        steps: tuple[_torch.LocalStep, ...],
        correction: str | None = None,
    ) -> None:
        self.source, self.target = source, target
        self._run = tuple(step.run for step in steps)
        self._begun = (*self._run[:-1], *(step.begin for step in steps[-1:]))
        self.correction = correction
        self.is_there = source.placements == target.placements
        self._flattened = _torch.flattened_meshes(source.mesh)
        self._known_flattened = len(self._flattened)

    def run(self, local: torch.Tensor, async_op: bool = False) -> torch.Tensor:
        """What this rank holds afterwards; `local` itself if there is no step.

        Args:
            local: What it holds before.
            async_op: The last collective may be left to who uses its result first.
        """
        for step in self._begun if async_op else self._run:
            local = step(local)
        return local

    @property
    def is_outdated(self) -> bool:
        """Has a mesh been flattened since, so that torch would merge collectives?"""
        return len(self._flattened) != self._known_flattened


_To = dict[tuple[Placement, ...], Move | None]


class _FromOne(NamedTuple):
    """Moves from one layout; None where torch's own code is to carry it out, or to refuse it.

    Attributes:
        to: By the placements that they lead to.
        asked: By placements as a program asks for them.
    """

    to: _To
    asked: _To


class Moves:
    """The moves that were made, by what they start from and where they lead.

    A spec is found by identity; one that was not met before, by what it says.

    Args:
        compiled: Makes a move; None where torch's own code is to carry it out.
    """

    def __init__(self, compiled: Callable[[DTensorSpec, DTensorSpec], Move | None]) -> None:
        self._compiled = compiled
        # With each its spec, which keeps the number from becoming another's.
        self._of_specs: BoundedMap[tuple[DTensorSpec, _FromOne]] = BoundedMap(
            "specs with moves", _SPECS_HELD
        )
        # With each its mesh, likewise.
        self._of_layouts: BoundedMap[tuple[DeviceMesh, _FromOne]] = BoundedMap(
            "moves", _LAYOUTS_HELD
        )

    def clear(self) -> None:
        """Forget all moves."""
        self._of_specs.clear()
        self._of_layouts.clear()

    def to(self, source: DTensorSpec, placements: tuple[Placement, ...]) -> Move | None:
        """The move from a spec to placements in their default order."""
        return _held(self._from(source).to, self._made, source, placements)

    def asked(self, source: DTensorSpec, placements: tuple[Placement, ...]) -> Move | None:
        """The move that a program asks for: not to become pending, and dims may be negative."""
        return _held(self._from(source).asked, self._meant, source, placements)

    def _from(self, source: DTensorSpec) -> _FromOne:
        entry = self._of_specs.get(id(source))
        return self._met(source) if entry is None else entry[1]

    def _met(self, source: DTensorSpec) -> _FromOne:
        """The moves from a spec that was not met before."""
        key = _core.spec_key(source)
        if not key:  # a pending norm, which the core knows nothing of
            made = _FromOne({}, {})
            self._of_specs.put(id(source), (source, made))
            return made
        mesh = source.mesh
        key += id(mesh).to_bytes(8, "little")
        found = self._of_layouts.get(key)
        if found is None:
            # By its spec only when it is met again: most are not.
            found = (mesh, _FromOne({}, {}))
            self._of_layouts.put(key, found)
        else:
            self._of_specs.put(id(source), (source, found[1]))
        return found[1]

    def _made(self, source: DTensorSpec, placements: tuple[Placement, ...]) -> Move | None:
        target = _torch.make_spec(source.mesh, placements, source.tensor_meta)
        return self._compiled(source, target)

    def _meant(self, source: DTensorSpec, placements: tuple[Placement, ...]) -> Move | None:
        meant = _as_meant(source, placements)
        return None if meant is None else self.to(source, meant)


def _held(
    moves: _To,
    made: Callable[[DTensorSpec, tuple[Placement, ...]], Move | None],
    source: DTensorSpec,
    placements: tuple[Placement, ...],
) -> Move | None:
    """The move among those held, or one that is made and held."""
    move = moves.get(placements)
    if move is None:
        if placements in moves:
            return None
    elif not move.is_outdated:
        return move
    move = moves[placements] = made(source, placements)
    return move


def _as_meant(
    source: DTensorSpec, placements: tuple[Placement, ...]
) -> tuple[Placement, ...] | None:
    """The placements with dims counted from the first; None where torch refuses them, or its own
    code is to carry the move out."""
    if len(placements) != len(source.placements):
        return None
    meant: list[Placement] = []
    for before, after in zip(source.placements, placements, strict=True):
        if type(after) is Shard:
            if not -source.ndim <= after.dim < source.ndim:
                return None
            after = Shard(after.dim % source.ndim) if after.dim < 0 else after
        elif type(after) is not Replicate and after != before:
            return None
        meant.append(after)
    return tuple(meant)
