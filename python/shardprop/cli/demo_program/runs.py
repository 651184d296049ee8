"""The three things `shardprop demo` can do, chosen and checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from .compare import compare
from .gloo import run_gloo
from .llama import LlamaSize
from .report import Report
from .settings import MeshShape, Settings, SettingsError
from .train import run_training

MAX_PROCESSES = 64
"""More real processes than this on one machine is a typing mistake."""

SLOW_MESH_DIMS = 3
"""From this mesh rank on torch alone needs about an hour: its planner meets strided shards."""


def plan_run(
    mesh: str | None,
    model: LlamaSize,
    steps: int,
    seed: int,
    *,
    against_torch: bool,
    processes: int | None,
    force: bool,
) -> Callable[[], Report]:
    """Check what the command line asks for and return what does it.

    Raises:
        SettingsError: it cannot be run.
    """
    run: Callable[[Settings], Report] = compare if against_torch else run_training
    if processes is not None:
        if against_torch:
            raise SettingsError("Expected --compare or --gloo, got both.")
        run, shape = run_gloo, _gloo_mesh(processes, mesh)
    elif mesh is not None:
        shape = MeshShape.parse(mesh)
    else:
        shape = MeshShape((4, 2) if against_torch else (2, 2, 2))
    if against_torch and len(shape.sizes) >= SLOW_MESH_DIMS and not force:
        raise SettingsError(
            f"torch alone needs about an hour on a mesh of {len(shape.sizes)} dims such as "
            f"{shape}, because its planner meets strided shards there. Compare on a 2-dim mesh "
            "such as 4x2, or add --force to wait for it."
        )
    return partial(run, Settings(shape, model, steps, seed))


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
