"""Plans carried out by four real processes."""

from __future__ import annotations

import functools
import itertools
import random

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode

from shardprop import _torch
from shardprop.model.plan_steps import Step
from shardprop.redistribution.execution import run

from ..narrow import known, sharded
from ..specs import SS
from .gloo import Processes
from .local import cut, fault, places, split
from .planned import random_plans
from .ranks import numbers
from .walks import Tensor, random_walk

pytestmark = pytest.mark.slow

R, S, P = Replicate(), Shard, Partial

GROUPS = ((0, 1),)
SHAPES = ((8, 4), (5, 3), (1, 6), (0, 4), (7,), (3, 2, 4))
WALKS = [(shape, seed) for shape in SHAPES for seed in range(25)]


@functools.cache
def _mesh() -> _torch.DeviceMesh:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    mesh._flatten()
    return mesh


def _walk(shape: tuple[int, ...], seed: int) -> tuple[Tensor, list[Step]]:
    tensor = Tensor(shape, (2, 2), GROUPS, simulated=False)
    return tensor, random_walk(tensor, 5, random.Random(f"{shape} {seed}"))


def walked() -> list[torch.Tensor | None]:
    """What the walks leave on this rank."""
    mesh, rank = _mesh(), torch.distributed.get_rank()
    made: list[torch.Tensor | None] = []
    for shape, seed in WALKS:
        tensor, steps = _walk(shape, seed)
        if not steps:
            made.append(None)
            continue
        local = split(numbers(shape), steps[0].before, tensor.sizes, seed)[rank]
        made.append(_torch.waited(run(steps, local, mesh, shape, async_op=seed % 2 == 0)))
    return made


def test_random_plans_leave_the_data_of_their_last_layout(gloo: Processes) -> None:
    made = gloo.call(walked)
    done = 0
    for index, (shape, seed) in enumerate(WALKS):
        tensor, steps = _walk(shape, seed)
        if steps:
            held = [of_rank[index] for of_rank in made]
            reason = fault(held, numbers(shape), steps[-1].after, tensor.sizes)
            assert reason is None, f"{shape} {seed}: {steps}\n{reason}"
            done += 1
    assert done > 100


PLACEMENTS = (R, S(0), S(1), P())


def _is_allowed(source: Placement, target: Placement) -> bool:
    """May a program ask for it? A Partial it may introduce since torch 2.15, for a shard."""
    if target != P() or source == target:
        return True
    return _torch.IS_215_OR_LATER and source.is_shard()


PAIRS = [
    (source, target)
    for source in itertools.product(PLACEMENTS, repeat=2)
    for target in itertools.product(PLACEMENTS, repeat=2)
    if source != target and all(_is_allowed(a, b) for a, b in zip(source, target, strict=True))
]


def forward_and_backward(shape: tuple[int, ...]) -> list[str]:
    """What is wrong with the tensors and gradients that redistributions lead to, by pair."""
    mesh, rank = _mesh(), torch.distributed.get_rank()
    tensor = Tensor(shape, (2, 2), GROUPS)
    whole, weight = numbers(shape), numbers(shape) * 3 - 7
    faults = []

    def differ(made: DTensor) -> bool:
        pending = [R if p.is_partial() else p for p in made.placements]
        local = made.redistribute(placements=pending).to_local()
        place = places((2, 2))[rank]
        expected = cut(whole if made is after else weight, tensor.layout(pending), (2, 2), place)
        return local.shape != expected.shape or not torch.allclose(local, expected)

    for seed, (source, target) in enumerate(PAIRS):
        local = split(whole, tensor.layout(source), (2, 2), seed)[rank].requires_grad_()
        before = DTensor.from_local(
            local, mesh, source, run_check=False, shape=whole.shape, stride=whole.stride()
        )
        before.retain_grad()
        with random_plans(seed) as planner:
            after = before.redistribute(placements=target)
            gradient = DTensor.from_local(
                split(weight, tensor.layout(target), (2, 2), seed)[rank],
                mesh,
                target,
                run_check=False,
                shape=whole.shape,
                stride=whole.stride(),
            )
            after.backward(gradient)
        if None in planner.plans or not planner.plans:
            faults.append(f"{source} -> {target}: torch's plan")
        if after.placements != target or differ(after) or differ(sharded(before.grad)):
            faults.append(f"{source} -> {target}: {planner.plans}")
    return faults


def strided(shape: tuple[int, ...]) -> list[str]:
    """What is wrong with strided shards of what a plain shard left, of one size or not."""
    mesh, rank = _mesh(), torch.distributed.get_rank()
    tensor = Tensor(shape, (2, 2))
    whole = numbers(shape)
    faults = []
    for factor in (2, 3, 5):
        split_again = tensor.layout((S(0), SS(0, factor)))
        plain = tensor.layout((S(0), R))
        for kind, before, after in (
            ("chunk", plain, split_again),
            ("all_gather", split_again, plain),
        ):
            local = cut(whole, before, (2, 2), places((2, 2))[rank])
            made = run([Step(kind, (1,), before, after, 0.0, 0.0, 0, 0)], local, mesh, shape)
            if not torch.equal(made, cut(whole, after, (2, 2), places((2, 2))[rank])):
                faults.append(f"{kind} {factor}: {made}")
    return faults


def test_strided_shards(gloo: Processes) -> None:
    for shape in ((12, 2), (7, 2), (1,)):
        assert gloo.call(strided, shape) == [[]] * 4


def test_redistribute_forward_and_backward(gloo: Processes) -> None:
    for shape in ((8, 4), (5, 3)):
        assert gloo.call(forward_and_backward, shape) == [[]] * 4


def collectives_of(source: tuple[Placement, ...], target: tuple[Placement, ...]) -> int:
    """How many collectives were called beyond those of the plan."""
    mesh, rank = _mesh(), torch.distributed.get_rank()
    tensor = Tensor((8, 4), (2, 2), GROUPS)
    local = split(numbers((8, 4)), tensor.layout(source), (2, 2), 0)[rank]
    before = DTensor.from_local(local, mesh, source, run_check=False)
    mode = CommDebugMode()
    with random_plans() as planner, mode:
        before.redistribute(placements=target)
    (plan,) = planner.plans
    moved = [step for step in known(plan) if step.kind not in ("chunk", "partition", "zero_fill")]
    return int(mode.get_total_counts()) - len(moved)


def test_each_step_is_one_collective(gloo: Processes) -> None:
    for source, target in (
        ((S(0), S(0)), (R, R)),
        ((P(), P()), (S(0), S(1))),
        ((S(0), R), (R, S(0))),
    ):
        assert gloo.call(collectives_of, source, target) == [0] * 4
