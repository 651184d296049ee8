"""Random plans in the place of torch's, for every redistribution that a program makes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from shardprop import _torch
from shardprop._torch import DTensorSpec
from shardprop.model.plan_steps import Step
from shardprop.redistribution.hook import redistribute_with

from .walks import Tensor, random_way


class Planner:
    """Plans that depend on the layouts and a seed only, and which of them were asked for.

    Attributes:
        plans: The plans made; None where torch's is to be taken.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.plans: list[list[Step] | None] = []

    def __call__(self, source: DTensorSpec, target: DTensorSpec) -> list[Step] | None:
        mesh = source.mesh
        tensor = Tensor(tuple(source.shape), tuple(mesh.shape), _torch.flattened_groups(mesh))
        before, after = tensor.layout(source.placements), tensor.layout(target.placements)
        salt = f"{self._seed} {tensor} {source.placements} {target.placements}"
        way = random_way(tensor, before, after, random.Random(salt).randrange(1 << 30))
        self.plans.append(way)
        return way


@contextmanager
def random_plans(seed: int = 0) -> Iterator[Planner]:
    planner = Planner(seed)
    _torch.install_redistribute(redistribute_with(planner))
    try:
        yield planner
    finally:
        _torch.uninstall_redistribute()
