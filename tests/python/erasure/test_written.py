"""Programs that write into their operands: each call is as on DTensors, what they hold included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.utils.checkpoint import checkpoint

from shardprop.erasure import Erased, erase

from ..specs import R, S
from .seen import seen, spread

MeshOf = Callable[..., DeviceMesh]
Program = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("enabled")
CALLS = 4


def is_alike(program: Program, *operands: Any, left: int = 0, **options: Any) -> Erased[Any]:
    """Do calls show the same, and leave the same in their operands? Gradients of the first are
    looked at, if it has one."""
    erased = erase(program, **options)
    both: list[Program] = [program, erased]
    of_each = [[x.detach().clone().requires_grad_(x.requires_grad) for x in operands] for _ in both]
    for number in range(CALLS):
        found = []
        for run, mine in zip(both, of_each, strict=True):
            mine[0].grad = None
            made = run(*mine)
            if mine[0].requires_grad:
                made.sum().backward()
            gradient = None if mine[0].grad is None else seen(mine[0].grad)
            found.append(repr([seen(made), *map(seen, mine), gradient]))
        assert found[0] == found[1], f"call {number}"
    assert sum(piece.left_to_dtensor is not None for piece in erased.pieces) == left
    assert left or erased.pieces
    return erased


def part(x: Tensor, cache: Tensor) -> Tensor:
    cache[:, 2:4] = x
    return cache.sum(1)


def a_part_of_a_part(x: Tensor, cache: Tensor) -> Tensor:
    cache[:, 2:6][:, 1] = x[:, 0]
    return cache * 2


def whole(x: Tensor, cache: Tensor) -> Tensor:
    cache.copy_(x.repeat(1, 4, 1))
    return cache.exp()


def twice(x: Tensor, cache: Tensor) -> Tensor:
    cache[:, 0:2] = x
    before = cache.sum(1)
    cache[:, 4:6] = x * before.mean()
    return before + cache.sum(1)


def rolled(x: Tensor, cache: Tensor) -> Tensor:
    cache[:, :6] = cache[:, 2:].clone()
    cache[:, 6:] = x
    return cache.sum(1)


def read_before(x: Tensor, cache: Tensor) -> Tensor:
    before = cache[:, 2:4]
    old = before + 0
    cache[:, 2:4] = x
    return old - before


def counted(x: Tensor, cache: Tensor) -> Tensor:
    cache.add_(1).mul_(0.5)
    return x + cache[:, :2]


def gathered(x: Tensor, cache: Tensor) -> Tensor:
    old: Any = cache
    old = old.redistribute(placements=[Replicate()])
    cache[:, 2:4] = x
    return old.sum(1) + cache.sum(1)


def moved(x: Tensor, cache: Tensor) -> Tensor:
    cache.add_(x.sum((0, 1)))  # which is a sum over ranks
    return cache.exp()


def given(x: Tensor, cache: Tensor) -> Tensor:
    torch.sin(cache + 1, out=cache)
    return cache * 2


def noted(x: Tensor, cache: Tensor) -> Tensor:
    cache[:, 2:4] = x.detach()
    return x * cache.sum()


CACHES = (
    part,
    a_part_of_a_part,
    whole,
    twice,
    rolled,
    read_before,
    counted,
    gathered,
    moved,
    given,
    noted,
)


@pytest.mark.parametrize("program", CACHES)
def test_a_cache_is_written_as_on_dtensors(mesh_of: MeshOf, program: Program) -> None:
    mesh = mesh_of(4)
    is_alike(program, spread(mesh, (8, 2, 4), S(0)), spread(mesh, (8, 8, 4), S(0), seed=1))


@pytest.mark.parametrize("program", (part, a_part_of_a_part, twice, rolled))
def test_only_the_part_is_written(mesh_of: MeshOf, program: Program) -> None:
    mesh = mesh_of(4)
    erased = is_alike(program, spread(mesh, (8, 2, 4), S(0)), spread(mesh, (8, 8, 4), S(0)))
    assert "return (None, " in str(erased)


@pytest.mark.parametrize("program", (read_before, gathered))
def test_what_is_read_later_is_not_written_over(mesh_of: MeshOf, program: Program) -> None:
    """A gather reads until it is waited for."""
    mesh = mesh_of(4)
    erased = is_alike(program, spread(mesh, (8, 2, 4), S(0)), spread(mesh, (8, 8, 4), S(0)))
    assert program is read_before or "return (None, " not in str(erased)


def test_running_statistics(mesh_of: MeshOf) -> None:
    def normed(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return F.batch_norm(x, mean, var, training=True).sin()

    mesh = mesh_of(4)
    x = spread(mesh, (8, 6, 3), R).requires_grad_()
    erased = is_alike(normed, x, spread(mesh, (6,), R), spread(mesh, (6,), R).abs())
    assert len(erased.pieces[0].code) == 2


def normed_by_batch(x: Tensor, mean: Tensor, var: Tensor, training: bool = True) -> Tensor:
    return F.batch_norm(x, mean, var, training=training)


def test_running_statistics_before_the_backward(mesh_of: MeshOf) -> None:
    """The op writes them, and nobody counts it: autograd does not refuse to go back."""

    def evaluated(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return normed_by_batch(x, mean, var, training=False)

    mesh = mesh_of(4)
    found = []
    for erased in (False, True):
        runs = [erase(each) if erased else each for each in (normed_by_batch, evaluated)]
        x = spread(mesh, (8, 6, 3), R).requires_grad_()
        mean, var = spread(mesh, (6,), R), spread(mesh, (6,), R).abs()
        for _ in range(CALLS):
            x.grad = None
            train, evaluate = runs
            first, second, third = (run(x, mean, var) for run in (evaluate, train, train))
            (first + second * third).sum().backward()
            made = checkpoint(train, x, mean, var, use_reentrant=False)
            made.sin().sum().backward()
        found.append(repr([seen(each) for each in (x.grad, mean, var)]))
    assert found[0] == found[1]


def test_a_plain_counter(mesh_of: MeshOf) -> None:
    def counting(x: Tensor, count: Tensor) -> Tensor:
        count.add_(1)
        return x.sin()

    x, count = spread(mesh_of(4), (8, 4), S(0)), torch.zeros((), dtype=torch.long)
    is_alike(counting, x.requires_grad_(), count)


def test_two_that_are_exchanged(mesh_of: MeshOf) -> None:
    def exchanged(one: Tensor, other: Tensor) -> Tensor:
        before = one.clone()
        one.copy_(other)
        other.copy_(before)
        return one - other

    mesh = mesh_of(4)
    is_alike(exchanged, spread(mesh, (8, 4), S(0)), spread(mesh, (8, 4), S(0), seed=1))


def test_a_backward_that_needs_what_was_written_over(mesh_of: MeshOf) -> None:
    def scaled(x: Tensor, scale: Tensor) -> Tensor:
        made = x * scale
        scale.add_(1)
        return made

    mesh = mesh_of(4)
    erased = erase(scaled)
    x, scale = spread(mesh, (8, 4), S(0)).requires_grad_(), spread(mesh, (8, 4), S(0))
    for _ in range(CALLS):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            erased(x, scale).sum().backward()
    assert scale.to_local().sub(spread(mesh, (8, 4), S(0)).to_local()).round().eq(CALLS).all()


def test_what_is_made_again_is_made_of_what_was_there(mesh_of: MeshOf) -> None:
    def scaled(x: Tensor, scale: Tensor) -> Tensor:
        before = scale.sin()
        scale.add_(1)
        return (x * before).cos() * scale

    mesh = mesh_of(4)
    x, scale = spread(mesh, (8, 4), S(0)), spread(mesh, (8, 4), S(0), seed=1)
    is_alike(scaled, x.requires_grad_(), scale, recompute=True)


def test_what_is_written_after_the_forward_is_told(mesh_of: MeshOf) -> None:
    def updated(x: Tensor, scale: Tensor) -> Tensor:
        scale.mul_(0.5)
        return x * scale

    mesh = mesh_of(4)
    x = spread(mesh, (8, 4), R).requires_grad_()
    scale = spread(mesh, (8, 4), R)
    is_alike(updated, x, scale)
    erased = erase(updated)
    for _ in range(CALLS):
        erased(x, scale).sum().backward()
    made = erased(x, scale)
    scale.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


def test_operands_that_share_memory(mesh_of: MeshOf) -> None:
    """The graphs were followed for operands that do not."""

    def shifted(cache: Tensor, other: Tensor) -> Tensor:
        cache.add_(1)
        return other * 2

    mesh = mesh_of(4)
    erased = is_alike(shifted, spread(mesh, (8, 4), S(0)), spread(mesh, (8, 4), S(0)))
    found = []
    for run in (shifted, erased):
        cache = spread(mesh, (8, 4), S(0))
        found.append(seen(run(cache, cache.view(8, 4))))
    assert found[0] == found[1]
    numbers = np.arange(16, dtype=np.float32)
    both = [torch.from_numpy(numbers[:12]), torch.from_numpy(numbers[4:])]
    for _ in range(CALLS):
        expected = (torch.from_numpy(numbers[4:].copy()) + 1) * 2
        expected[8:] -= 2
        assert torch.equal(erased(*both), expected)
    assert erased.passed["it writes into an operand that shares memory with another"] == CALLS


def test_operands_that_have_a_gradient_are_written_on_dtensors(mesh_of: MeshOf) -> None:
    def averaged(x: Tensor, parameter: Tensor) -> Tensor:
        with torch.no_grad():
            parameter.mul_(0.5)
        return x.sin()

    mesh = mesh_of(4)
    parameter, x = spread(mesh, (8, 4), R).requires_grad_(), spread(mesh, (8, 4), S(0))
    (piece,) = is_alike(averaged, x, parameter, left=1).pieces
    assert piece.left_to_dtensor == "averaged: it writes into an operand that has a gradient"


@pytest.mark.parametrize("compiler", ("eager", "aot_eager"))
def test_a_compiler_may_write(mesh_of: MeshOf, compiler: str) -> None:
    mesh = mesh_of(4)
    x, cache = spread(mesh, (8, 2, 4), S(0)), spread(mesh, (8, 8, 4), S(0))
    is_alike(twice, x, cache, compiler=compiler)
    is_alike(noted, x.requires_grad_(), cache, compiler=compiler)


def test_a_cache_of_inference_mode(mesh_of: MeshOf) -> None:
    """DTensor writes into what was made there; the graphs may not."""
    mesh = mesh_of(4)
    x, found = spread(mesh, (8, 2, 4), S(0)), []
    for run in (part, erased := erase(part)):
        with torch.inference_mode():
            cache = spread(mesh, (8, 8, 4), S(0))
        for mode in (torch.inference_mode, torch.inference_mode, torch.no_grad, torch.no_grad):
            with mode():
                found.append(repr([seen(run(x, cache)), seen(cache)]))
    assert found[:4] == found[4:]
    assert erased.passed["it writes into a tensor that was made in inference mode"] == 2


def test_of_a_dtensor_both_versions_rise(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    erased = erase(part)
    x, cache = spread(mesh, (8, 2, 4), S(0)), spread(mesh, (8, 8, 4), S(0))
    for _ in range(CALLS):
        versions = cache._version, cache._local_tensor._version
        erased(x, cache)
        assert cache._version > versions[0] and cache._local_tensor._version > versions[1]
    assert isinstance(cache, DTensor)
