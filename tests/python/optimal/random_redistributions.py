"""Random redistributions that a program makes under policy ``optimal``, forward and backward.

Run all of them with

    python -m tests.python.optimal.random_redistributions --processes 8 --count 200
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
from dataclasses import dataclass

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

import shardprop
from shardprop import _torch

from ..narrow import sharded
from .local import cut, places, split
from .ranks import numbers
from .walks import Tensor

MESHES = {4: ((4,), (2, 2)), 8: ((2, 4), (4, 2), (2, 2, 2))}
SHAPES = ((8, 8), (16, 8, 8), (5, 3), (7, 9, 2), (1, 6), (0, 4), (10,), (3, 4, 5))

# Cheapest is what has few collectives, what sends few bytes, or what moves few in memory.
TOPOLOGIES = tuple(
    {
        "launch_us": launch_us,
        "memory": {"kernel_us": launch_us / 100, "bandwidth_gb_s": memory_gb_s},
        "node": {"within": {"latency_us": 0.1, "bandwidth_gb_s": wire_gb_s}},
    }
    for launch_us, wire_gb_s, memory_gb_s in ((100.0, 1e3, 1e4), (0.0, 1e-3, 1.0), (0.0, 1.0, 1e-3))
)


@dataclass(frozen=True)
class Redistribution:
    """One of them, drawn from a number alone."""

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    source: tuple[Placement, ...]
    target: tuple[Placement, ...]
    seed: int

    @classmethod
    def drawn(cls, processes: int, seed: int) -> Redistribution:
        dice = random.Random(f"{processes} {seed}")
        shape = dice.choice(SHAPES)
        sizes = dice.choice(MESHES[processes])
        # Partials of one kind: others do not mix.
        pending = Partial(dice.choice(["sum", "avg", "max", "min"]))
        kinds = [Replicate(), pending, *map(Shard, range(len(shape)))]
        source = tuple(dice.choice(kinds) for _ in sizes)
        target = tuple(
            dice.choice([kind for kind in kinds if not kind.is_partial() or kind == before])
            for before in source
        )
        return cls(shape, sizes, source, target, seed)

    def differs(self) -> str | None:
        """What is wrong on this rank with the tensor, or with its gradient; all ranks call it."""
        mesh, rank = mesh_of(self.sizes), torch.distributed.get_rank()
        tensor = Tensor(self.shape, self.sizes)
        whole, weight = numbers(self.shape), numbers(self.shape) * 3 - 7
        local = split(whole, tensor.layout(self.source), self.sizes, self.seed)[rank]
        before = DTensor.from_local(
            local.requires_grad_(),
            mesh,
            self.source,
            run_check=False,
            shape=whole.shape,
            stride=whole.stride(),
        )
        before.retain_grad()
        after = before.redistribute(placements=self.target, async_op=self.seed % 3 == 0)
        # A gradient is summed over what was pending, whatever the operation was.
        of_gradient = [Partial() if p.is_partial() else p for p in self.target]
        gradient = DTensor.from_local(
            split(weight, tensor.layout(of_gradient), self.sizes, self.seed)[rank],
            mesh,
            of_gradient,
            run_check=False,
            shape=whole.shape,
            stride=whole.stride(),
        )
        after.backward(gradient)
        found = (("tensor", after, whole), ("gradient", sharded(before.grad), weight))
        for name, made, expected in found:
            pending = [Replicate() if p.is_partial() else p for p in made.placements]
            here = made.redistribute(placements=pending).to_local()
            wanted = cut(expected, tensor.layout(pending), self.sizes, places(self.sizes)[rank])
            if here.shape != wanted.shape or not torch.allclose(here, wanted):
                return f"{name} {here.tolist()}, not {wanted.tolist()}"
        return None


@functools.cache
def mesh_of(sizes: tuple[int, ...]) -> _torch.DeviceMesh:
    """With every set of mesh dims flattened."""
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=tuple("abc"[: len(sizes)]))
    for mesh_dims in _torch.groups_to_flatten(mesh):
        _torch.flatten_dims(mesh, mesh_dims)
    return mesh


def faults(processes: int, first: int, count: int) -> tuple[list[str], dict[str, int]]:
    """What is wrong on this rank, and what was left to policy torch."""
    found = []
    shardprop.reset_stats()
    for topology, seeds in itertools.groupby(range(first, first + count), _topology_of):
        with shardprop.enabled(policy="optimal", topology=TOPOLOGIES[topology]):
            for seed in seeds:
                case = Redistribution.drawn(processes, seed)
                fault = case.differs()
                if fault is not None:
                    found.append(f"{case}: {fault}")
    return found, shardprop.stats().policy_fallbacks


def _topology_of(seed: int) -> int:
    return seed // 10 % len(TOPOLOGIES)


def main() -> None:
    from .gloo import Processes

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, choices=MESHES, default=4)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    processes = Processes(options.processes)
    try:
        answers = processes.call(faults, options.processes, options.first, options.count)
    finally:
        processes.close()
    wrong = sorted({fault for found, _ in answers for fault in found})
    print(*wrong, sep="\n")
    print(f"{options.count} redistributions, {len(wrong)} faults, left to torch: {answers[0][1]}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
