"""A call that another program would answer is followed anew: nothing stale runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

import shardprop
from shardprop.erasure import erase

from ..specs import R, S
from .block import Block, block, tokens

MeshOf = Callable[..., DeviceMesh]
CHANGES_OF_A_SEED = 15
CALLS_OF_A_CHANGE = 4
"""Sizes that are new are passed over, the next call looks how gradients come in, the third makes
the graphs, and the fourth runs what is there."""


class World:
    """A block, what it is called with, and under what; each change is made to both blocks."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh = mesh
        self.blocks = [block(mesh), block(mesh)]
        self.batch, self.length = 2, 16
        self.dtype = torch.float32
        self.placements = [S(1)]
        self.requires_grad = False
        self.is_strided = False
        self.under: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.hooks: list[Any] = []

    def operand(self, seed: int) -> torch.Tensor:
        x: Any = tokens(self.mesh, self.batch, self.length, seed).to(self.dtype)
        x = x.redistribute(placements=self.placements)
        if self.is_strided:
            x = x.transpose(0, 1).clone(memory_format=torch.contiguous_format).transpose(0, 1)
        leaf: torch.Tensor = x.detach().requires_grad_(self.requires_grad)
        return leaf


def autocast() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", torch.bfloat16)


def set_both(name: str, *values: Any) -> Callable[[World, random.Random], None]:
    def change(world: World, chance: random.Random) -> None:
        value = chance.choice(values)
        for each in world.blocks:
            setattr(each, name, value)

    return change


def set_world(name: str, *values: Any) -> Callable[[World, random.Random], None]:
    def change(world: World, chance: random.Random) -> None:
        setattr(world, name, chance.choice(values))

    return change


def train(world: World, chance: random.Random) -> None:
    mode = chance.random() < 0.5
    for each in world.blocks:
        each.train(mode)


def freeze(world: World, chance: random.Random) -> None:
    name = chance.choice(("q", "up", "down"))
    for each in world.blocks:
        weight = getattr(each, name).weight
        weight.requires_grad_(not weight.requires_grad)


def hook(world: World, chance: random.Random) -> None:
    if world.hooks:
        while world.hooks:
            world.hooks.pop().remove()
        return
    factor = chance.choice((0.5, 2.0))
    for each in world.blocks:
        world.hooks.append(each.up.register_forward_hook(lambda m, a, out: out * factor))


def surgery(world: World, chance: random.Random) -> None:
    """Layers become nothing, or something again."""
    name = chance.choice(("norm1", "norm2"))
    for each in world.blocks:
        held = getattr(each, f"_{name}", None)
        if held is None:
            setattr(each, f"_{name}", getattr(each, name))
            setattr(each, name, nn.Identity())
        else:
            setattr(each, name, held)
            setattr(each, f"_{name}", None)


def policy(world: World, chance: random.Random) -> None:
    match chance.randrange(4):
        case 0:
            shardprop.disable()
        case 1:
            shardprop.enable()
        case 2:
            shardprop.enable(corrections=False)
        case 3:
            shardprop.enable(policy="optimal", topology="cpu-gloo")


CHANGES: list[Callable[[World, random.Random], None]] = [
    set_both("scale", 1.0, 0.5, 2),
    set_both("activation", F.relu, F.silu, torch.tanh),
    set_both("dropout", 0.0, 0.5),
    set_world("batch", 1, 2, 3),
    set_world("length", 8, 16, 24),
    set_world("requires_grad", False, True),
    set_world("placements", [S(1)], [R]),
    set_world("is_strided", False, True),
    set_world("under", nullcontext, torch.no_grad, torch.inference_mode, autocast),
    train,
    freeze,
    hook,
    surgery,
    policy,
]


def step(program: Any, of: Block, x: Any, under: AbstractContextManager[Any]) -> Any:
    """What a program sees of a call and of its gradients; the error, where there is one."""
    torch.manual_seed(0)
    try:
        with under:
            made: Any = program(x)
        found = [made.placements, made.dtype, made.stride(), made.requires_grad, made.to_local()]
        if made.requires_grad:
            made.to_local().float().sin().sum().backward()
        gradients = [p.grad for p in (x, *of.parameters())]
    except Exception as error:
        return type(error).__name__
    finally:
        of.zero_grad()
    gradient: Any
    for gradient in gradients:
        found += [None] if gradient is None else [gradient.placements, gradient.to_local()]
    return [each.tolist() if isinstance(each, torch.Tensor) else each for each in found]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:DTensor random operators")
@pytest.mark.parametrize("seed", range(1))
def test_each_call_equals_that_on_dtensors(seed: int, mesh_of: MeshOf) -> None:
    chance = random.Random(seed)
    world = World(mesh_of(4))
    erased, alone = world.blocks
    program = erase(erased)
    for number in range(CHANGES_OF_A_SEED):
        change = chance.choice(CHANGES)
        change(world, chance)
        for _ in range(CALLS_OF_A_CHANGE):
            xs = [world.operand(number) for _ in world.blocks]
            ours, theirs = (
                step(run, of, x, world.under())
                for run, of, x in zip((program, alone), world.blocks, xs, strict=True)
            )
            assert ours == theirs, f"after change {number}, {change}"
    assert sum(piece.left_to_dtensor is None for piece in program.pieces) > CHANGES_OF_A_SEED / 3
