"""The three things `shardprop demo` can do, chosen and checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import shardprop

from . import report
from .compare import SLOW_MESH_DIMS, clear_every_cache, compare
from .gloo import run_gloo
from .progress import step_display, waiting
from .settings import MeshShape, ModelSize, Settings, SettingsError
from .train import fake_ranks, train

MAX_PROCESSES = 64
"""More real processes than this on one machine is a typing mistake."""


@dataclass(frozen=True)
class Request:
    """What the command line asked for, as typed."""

    mesh: str | None
    compare: bool
    gloo: int | None
    force: bool
    model: ModelSize
    steps: int
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What to print, in both forms, and whether the check that was asked for passed."""

    lines: tuple[str, ...]
    values: dict[str, object]
    good: bool


def plan_run(request: Request) -> Callable[[], Outcome]:
    """Check the request and return what does it.

    Raises:
        SettingsError: the request cannot be run.
    """
    if request.gloo is not None:
        if request.compare:
            raise SettingsError("Expected --compare or --gloo, got both.")
        settings = _settings(request, _gloo_mesh(request.gloo, request.mesh))
        return lambda: _gloo(settings)
    if not request.compare:
        settings = _settings(request, _mesh(request.mesh, "2x2x2"))
        return lambda: _train(settings)
    mesh = _mesh(request.mesh, "4x2")
    if len(mesh.sizes) >= SLOW_MESH_DIMS and not request.force:
        raise SettingsError(
            f"torch alone needs about an hour on a mesh of {len(mesh.sizes)} dims such as {mesh}, "
            "because its planner meets strided shards there. Compare on a 2-dim mesh such as 4x2, "
            "or add --force to wait for it."
        )
    settings = _settings(request, mesh)
    return lambda: _compare(settings)


def _settings(request: Request, mesh: MeshShape) -> Settings:
    return Settings(mesh, request.model, request.steps, request.seed)


def _mesh(typed: str | None, default: str) -> MeshShape:
    return MeshShape.parse(default if typed is None else typed)


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


def _train(settings: Settings) -> Outcome:
    with step_display(settings.steps) as display, fake_ranks(settings.mesh.ranks):
        clear_every_cache()
        with shardprop.enabled():
            shardprop.reset_stats()
            training = train(settings, *display.run("shardprop", lambda *_: None))
            stats = shardprop.stats()
    return Outcome(
        tuple(report.training_lines(settings, training, stats)),
        report.training_values(settings, training, stats),
        good=True,
    )


def _compare(settings: Settings) -> Outcome:
    with step_display(settings.steps) as display:
        result = compare(settings, display.run)
    return Outcome(
        tuple(report.comparison_lines(settings, result)),
        report.comparison_values(settings, result),
        good=result.agreement.all_equal,
    )


def _gloo(settings: Settings) -> Outcome:
    with waiting(f"training on {settings.mesh.ranks} processes"):
        found = run_gloo(settings)
    return Outcome(
        tuple(report.gloo_lines(settings, found)),
        report.gloo_values(settings, found),
        good=found.equal,
    )
