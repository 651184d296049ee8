"""Redistributions without the executor and with it, on one rank of real processes."""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement
from torch.distributed.tensor._redistribute import redistribute_local_tensor

import shardprop
from shardprop._torch import local_shape, make_spec, meta_of, norm_partial
from shardprop.redistribution.moves import Move

from ..device import DEVICE
from ..specs import P, R, S

__all__ = [
    "compared_moves",
    "gradients_alike",
    "grouped_otherwise",
    "mesh_over",
    "seconds_until_begun",
]

_SHAPES = ((8, 4), (7, 5), (12, 8), (5, 2, 6), (24,), (3,), (4, 1, 8))
_DTYPES = (torch.float32, torch.bfloat16, torch.int64)


@functools.cache
def mesh_over(sizes: tuple[int, ...], is_flattened: bool = False) -> DeviceMesh:
    """A mesh over all ranks; with flattened meshes of all its dims, if it is asked for."""
    names = tuple("abc"[: len(sizes)])
    ranks = torch.arange(dist.get_world_size()).reshape(sizes)
    mesh = DeviceMesh(DEVICE, ranks, mesh_dim_names=names)
    if is_flattened:
        mesh[names]._flatten()
    return mesh


class _Move(NamedTuple):
    sizes: tuple[int, ...]
    is_flattened: bool
    local: torch.Tensor
    shape: tuple[int, ...]
    source: tuple[Placement, ...]
    target: tuple[Placement, ...]

    def __str__(self) -> str:
        kind = f"{self.local.dtype}{list(self.shape)} on {self.sizes}"
        return f"{kind}: {self.source} -> {self.target}"


def _drawn(sizes: tuple[int, ...], count: int, seed: int) -> Iterator[_Move]:
    """The same on all ranks, but for what they hold."""
    chance = random.Random(seed)
    rank = dist.get_rank()
    for number in range(count):
        shape, dtype = chance.choice(_SHAPES), chance.choice(_DTYPES)
        of_floats = (Partial("avg"), norm_partial(2)) if dtype is torch.float32 else ()
        pending = chance.choice((P, Partial("max"), *of_floats))
        kinds = [R, pending, *map(S, range(len(shape)))]
        source, target = (tuple(chance.choice(kinds) for _ in sizes) for _ in range(2))
        if any(p.is_partial() and p != q for p, q in zip(target, source, strict=True)):
            continue  # only within an op
        spec = make_spec(mesh_over(sizes), source, meta_of(torch.empty(shape, dtype=dtype)))
        held = torch.Generator().manual_seed(1000 * seed + number + 100 * rank)
        local = torch.randint(-9, 9, local_shape(spec), generator=held).to(DEVICE, dtype)
        yield _Move(sizes, chance.random() < 0.5, local, shape, source, target)


def _as_dtensor(move: _Move) -> DTensor:
    stride = meta_of(torch.empty(move.shape)).stride
    return DTensor.from_local(
        move.local.clone(),
        mesh_over(move.sizes, move.is_flattened),
        move.source,
        run_check=False,
        shape=torch.Size(move.shape),
        stride=stride,
    )


def _outcome(move: _Move, way: str) -> tuple[Any, ...]:
    """What a rank holds afterwards, or the error; and all that a program sees of it."""
    x = _as_dtensor(move)
    later = "later" in way
    if "inside" in way:
        mesh, meta = x.device_mesh, x._spec.tensor_meta
        target = make_spec(mesh, move.target, meta)
        local = redistribute_local_tensor(x._local_tensor, x._spec, target, async_op=later)
        return type(local), local.tolist(), local.stride(), local.dtype
    if way == "full":
        local = x.full_tensor()
        return local.tolist(), local.stride(), local.dtype
    moved = x.redistribute(placements=move.target, async_op=later)
    kind = type(moved._local_tensor)
    local = moved.to_local()
    seen = moved.placements, moved.shape, moved.stride(), moved.dtype, moved.requires_grad
    return kind, local.tolist(), local.stride(), local.dtype, *seen


def compared_moves(
    sizes: tuple[int, ...], count: int, seed: int, policy: str
) -> tuple[int, int, list[str]]:
    """How many moves were compared, how many of them the executor had made before, and those on
    which the two differ."""
    differ: list[str] = []
    compared = by_executor = 0
    runs = _counted_runs()
    for move in _drawn(sizes, count, seed):
        for way in ("asked", "inside", "full", "asked, later", "inside, later"):
            with _under(policy, with_executor=False):
                alone = _outcome(move, way)
            with _under(policy):
                first = _outcome(move, way)
                before = runs.count
                again = _outcome(move, way)
                by_executor += runs.count > before
            compared += 1
            if not alone == first == again:
                differ.append(f"{way} {move}: {alone} {first} {again}")
    runs.stop()
    return compared, by_executor, differ


def _under(policy: str, with_executor: bool = True) -> AbstractContextManager[None]:
    """Policy ``torch`` without the executor is torch alone."""
    if policy == "optimal":
        return shardprop.enabled(policy=policy, topology="cpu-gloo", executor=with_executor)
    return shardprop.enabled(corrections=False) if with_executor else nullcontext()


class _counted_runs:
    def __init__(self) -> None:
        self.count = 0
        self._theirs = Move.run

        def run(move: Move, *given: Any) -> torch.Tensor:
            self.count += 1
            return self._theirs(move, *given)

        Move.run = run  # type: ignore[method-assign,assignment]

    def stop(self) -> None:
        Move.run = self._theirs  # type: ignore[method-assign]


def gradients_alike(sizes: tuple[int, ...], policy: str, later: bool) -> list[str]:
    """Moves whose gradients, of first and of second order, are other ones with the executor."""
    differ = []
    kinds = [R, S(0), S(1), Partial()]
    for source, target in itertools.product(kinds, kinds[:3]):
        found = []
        for is_on in (False, True, True):
            with _under(policy, is_on):
                found.append(_gradients(source, target, sizes, later))
        if not found[0] == found[1] == found[2]:
            differ.append(f"{source} -> {target} on {sizes}: {found}")
    return differ


def _gradients(
    source: Placement, target: Placement, sizes: tuple[int, ...], later: bool
) -> list[object]:
    """What a program sees of the gradients."""
    whole = torch.arange(1.0, 33.0, device=DEVICE).reshape(8, 4)
    local = whole[: 8 // _cuts(source, 0, sizes), : 4 // _cuts(source, 1, sizes)].clone()
    everywhere = (source,) * len(sizes), (target,) * len(sizes)
    x: Any = _as_dtensor(_Move(sizes, False, local, (8, 4), *everywhere)).requires_grad_()
    cubed: Any = x.redistribute(placements=everywhere[1], async_op=later)
    name = cubed.grad_fn.name() if cubed.grad_fn is not None else ""
    (first,) = torch.autograd.grad((cubed * cubed * cubed).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first * first).sum(), x)
    doubled: Any = x.redistribute(placements=everywhere[1], async_op=later)
    (plain,) = torch.autograd.grad((doubled * 2.0).sum(), x)
    gradients: list[Any] = [first.detach(), second, plain]
    seen = [
        (type(g._local_tensor), g.placements, g.to_local().tolist(), g.stride(), g.requires_grad)
        for g in gradients
    ]
    return [name, *seen]


def _cuts(placement: Placement, dim: int, sizes: tuple[int, ...]) -> int:
    return torch.Size(sizes).numel() if placement == S(dim) else 1


def grouped_otherwise(policy: str) -> list[bool]:
    """A mesh that is flattened after a move was made, process groups that are made anew, and a mesh
    of the same shape with other ranks: is each move right?"""
    world = dist.get_world_size()
    right = []
    whole = torch.arange(32.0, device=DEVICE).reshape(8, 4)
    with _under(policy):
        ranks = torch.arange(world).reshape(2, 2)
        for order in (ranks, ranks.t()):
            mesh = DeviceMesh(DEVICE, order.contiguous(), mesh_dim_names=("a", "b"))
            coordinate = mesh.get_coordinate()
            assert coordinate is not None
            local = whole.chunk(4)[2 * coordinate[0] + coordinate[1]]
            x = DTensor.from_local(local, mesh, [S(0), S(0)], run_check=False)
            for is_flattened in (False, True):
                # torch gathers in the order of ranks, which on a flattened mesh is another one.
                if is_flattened and order is ranks:
                    mesh["a", "b"]._flatten()
                for _ in range(2):
                    right.append(torch.equal(x.redistribute(mesh, [R, R]).to_local(), whole))
    return right


def seconds_until_begun(late: float) -> list[tuple[str, float, bool]]:
    """Asynchronous moves for which the last rank comes late, after one for which none does: each
    with the time until a rank may go on, and whether the data is right in the end."""
    world, mesh = dist.get_world_size(), mesh_over((dist.get_world_size(),))
    ones = functools.partial(torch.ones, device=DEVICE)
    summed = ones(1, 4) * world
    moves = {
        "P to R": (P, R, ones(1, 4), summed),
        "P to S(1)": (P, S(1), ones(1, 4), summed[:, :1]),
        "S(0) to R": (S(0), R, ones(1, 4), ones(world, 4)),
        "S(1) to R, of one row": (S(1), R, ones(1, 4), ones(1, 4 * world)),
    }
    found = []
    with shardprop.enabled():
        for name, (source, target, local, expected) in moves.items():
            x = DTensor.from_local(local, mesh, [source], run_check=False)
            x.redistribute(placements=[target])
            dist.barrier()
            if dist.get_rank() == world - 1:
                time.sleep(late)
            start = time.perf_counter()
            moved = x.redistribute(placements=[target], async_op=True)
            begun = time.perf_counter() - start
            found.append((name, begun, torch.equal(moved.to_local() * 1.0, expected)))
    return found
