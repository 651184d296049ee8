"""The three things `shardprop demo` can do, chosen and checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from .compare import compare
from .gloo import run_gloo
from .llama import LlamaSize
from .settings import MeshShape, Settings, SettingsError
from .train import run_training

MAX_PROCESSES = 64
"""More real processes than this on one machine is a typing mistake."""

SLOW_MESH_DIMS = 3
"""From this mesh rank on torch alone needs about an hour: its planner meets strided shards."""


@dataclass(frozen=True)
class Request:
    """What the command line asked for, as typed."""

    mesh: str | None
    compare: bool
    gloo: int | None
    force: bool
    model: LlamaSize
    steps: int
    seed: int


class Report(Protocol):
    """What to print, in both forms, and whether the check that was asked for passed."""

    @property
    def good(self) -> bool: ...
    def lines(self) -> Iterable[str]: ...
    def values(self) -> dict[str, object]: ...


def plan_run(request: Request) -> Callable[[], Report]:
    """Check the request and return what does it.

    Raises:
        SettingsError: the request cannot be run.
    """
    run: Callable[[Settings], Report]
    if request.gloo is not None:
        if request.compare:
            raise SettingsError("Expected --compare or --gloo, got both.")
        run, mesh = run_gloo, _gloo_mesh(request.gloo, request.mesh)
    elif request.compare:
        run, mesh = compare, MeshShape.parse("4x2" if request.mesh is None else request.mesh)
        if len(mesh.sizes) >= SLOW_MESH_DIMS and not request.force:
            raise SettingsError(
                f"torch alone needs about an hour on a mesh of {len(mesh.sizes)} dims such as "
                f"{mesh}, because its planner meets strided shards there. Compare on a 2-dim mesh "
                "such as 4x2, or add --force to wait for it."
            )
    else:
        run, mesh = run_training, MeshShape.parse("2x2x2" if request.mesh is None else request.mesh)
    settings = Settings(mesh, request.model, request.steps, request.seed)
    return lambda: run(settings)


def _gloo_mesh(processes: int, mesh: str | None) -> MeshShape:
    """The mesh of that many processes: as given, else 2-dim and as square as it gets."""
    if not 1 <= processes <= MAX_PROCESSES:
        raise SettingsError(f"Expected --gloo from 1 to {MAX_PROCESSES}, got {processes}.")
    if mesh is None:
        dp = max(d for d in range(1, math.isqrt(processes) + 1) if processes % d == 0)
        return MeshShape((dp, processes // dp))
    shape = MeshShape.parse(mesh)
    if shape.ranks != processes:
        raise SettingsError(
            f"Expected --gloo {shape.ranks} for mesh {shape}, got --gloo {processes}."
        )
    return shape
