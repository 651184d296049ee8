"""The paths of a decision that decision_instructions.py counts, each as a series of calls.

Call by call the sizes change, and nothing else does. So the first call is a first miss, the second
a miss in which sizes are seen to change, and later ones are answered by what is held for a region
of sizes. Only names that any version of the project has are used: its public ones, and torch's.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

import shardprop

Call = Callable[[], object]

# Enough for what the second or third miss of a kind finds out to pay from then on.
CALLS = 12
_SIZES = [8 * count for count in range(2, 2 + CALLS)]
_TOPOLOGY = "h100-nvlink"

R, P, S = Replicate(), Partial(), Shard
_ROWS_CUT = (S(0), S(0), R)
_DISAGREE = ((S(0), S(1), R), (S(0), R, S(1)))
aten = torch.ops.aten


@functools.cache
def _mesh(*shape: int) -> DeviceMesh:
    return init_device_mesh("cpu", shape)


def _laid_out(
    shape: tuple[int, ...], *placements: Placement, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    mesh = _mesh(2, 2, 2)
    return distribute_tensor(torch.zeros(shape, dtype=dtype), mesh, placements, src_data_rank=None)


def _spec(mesh: DeviceMesh, shape: tuple[int, ...], *placements: Placement) -> DTensorSpec:
    whole = torch.empty(shape, device="meta")
    meta = TensorMeta(whole.shape, whole.stride(), whole.dtype)
    return DTensorSpec(mesh, placements, tensor_meta=meta)


def _mm(size: int) -> Call:
    x, weight = _laid_out((size, 16), *_ROWS_CUT), _laid_out((16, 16), R, R, S(1))
    return lambda: torch.mm(x, weight)


def _mm_that_redistributes(size: int) -> Call:
    x, y = _laid_out((size, 16), *_DISAGREE[0]), _laid_out((16, 16), *_DISAGREE[1])
    return lambda: torch.mm(x, y)


def _add(size: int) -> Call:
    x = _laid_out((size, 16), S(0), S(0), S(1))
    return lambda: torch.add(x, x)


def _add_that_redistributes(size: int) -> Call:
    x, y = (_laid_out((size, 16), *placements) for placements in _DISAGREE)
    return lambda: torch.add(x, y)


def _view(size: int) -> Call:
    x = _laid_out((size, 16), S(0), S(0), S(1))
    return lambda: x.view(size, 4, 4)


def _layer_norm(size: int) -> Call:
    x, weight = _laid_out((size, 16), *_ROWS_CUT), _laid_out((16,), R, R, R)
    return lambda: F.layer_norm(x, (16,), weight, weight)


def _embedding(size: int) -> Call:
    tokens, table = (
        _laid_out((size, 4), *_ROWS_CUT, dtype=torch.int64),
        _laid_out((32, 16), R, R, S(1)),
    )
    return lambda: F.embedding(tokens, table)


def _attention(size: int) -> Call:
    query, key, value = (_laid_out((8, size, 8), *_ROWS_CUT) for _ in range(3))

    def attend() -> object:
        return torch.bmm(torch.softmax(torch.bmm(query, key.transpose(1, 2)), -1), value)

    return attend


def _foreach_add(size: int) -> Call:
    kinds = [(S(0), R, R), (R, S(0), R), (S(0), S(1), R), (R, R, R)]
    kept, added = (
        [_laid_out((size, 16), *kinds[i % 4]) for i in range(20)] for _ in ("in place", "added")
    )
    return lambda: torch._foreach_add_(kept, added)


def _mse_loss(size: int) -> Call:
    x, y = (_laid_out((size, 16), *_ROWS_CUT) for _ in range(2))
    return lambda: F.mse_loss(x, y)


def _refused_view(size: int) -> Call:
    """Rows that two mesh dims cut unevenly are not to be cut by a view."""
    x = _laid_out((size + 2, 16), *_ROWS_CUT)

    def view() -> None:
        try:
            x.view(2, -1, 16)
        except RuntimeError:
            return
        raise AssertionError("Expected that torch refuses this view.")

    return view


def _ends(size: int) -> tuple[DTensorSpec, DTensorSpec]:
    mesh, shape = _mesh(2, 2, 2), (size, 64, 64)
    return _spec(mesh, shape, P, S(0), S(1)), _spec(mesh, shape, S(1), R, S(0))


def _plan(policy: str, topology: str | None) -> Callable[[int], Call]:
    def of_size(size: int) -> Call:
        src, dst = _ends(size)
        return lambda: shardprop.plan(src, dst, policy=policy, topology=topology)

    return of_size


def _redistribute_cost(size: int) -> Call:
    src, dst = _ends(size)
    return lambda: shardprop.redistribute_cost(src, dst)


def _strategies(size: int) -> Call:
    mesh = _mesh(2, 4)
    operands = tuple(_spec(mesh, shape, R, R) for shape in ((8 * size, 64), (64, 128)))
    sources = [*itertools.product([R, P, S(0), S(1)], repeat=2)]
    planner = shardprop.ExactPlanner(shardprop.load_topology(_TOPOLOGY))

    def all_with_prices() -> object:
        found = shardprop.strategies(
            aten.mm.default, operands, mesh=mesh, sources=[sources, sources], prices=planner
        )
        return found.prices

    return all_with_prices


def _propagate(op: Any) -> Callable[[int], Call]:
    def of_size(size: int) -> Call:
        mesh = _mesh(2, 2, 2)
        operands = [_spec(mesh, (size, size), *placements) for placements in _DISAGREE]
        return lambda: shardprop.propagate(op, *operands)

    return of_size


@dataclass(frozen=True)
class Path:
    """One path: what is called, for a size, and the policy under which it is."""

    of_size: Callable[[int], Call]
    policy: str = "torch"

    def calls(self) -> list[Call]:
        """The series, its operands made anew."""
        return [self.of_size(size) for size in _SIZES]

    def enabled(self) -> Any:
        """The block in which the calls are made."""
        topology = _TOPOLOGY if self.policy == "optimal" else None
        return shardprop.enabled(policy=self.policy, topology=topology)


PATHS: dict[str, Path] = {
    "mm": Path(_mm),
    "mm that redistributes": Path(_mm_that_redistributes),
    "add": Path(_add),
    "view": Path(_view),
    "layer_norm": Path(_layer_norm),
    "embedding": Path(_embedding),
    "bmm, softmax, bmm": Path(_attention),
    "_foreach_add_ of 20": Path(_foreach_add),
    "mse_loss (decomposed)": Path(_mse_loss),
    "view that torch refuses": Path(_refused_view),
    "mm, optimal": Path(_mm_that_redistributes, "optimal"),
    "add, optimal": Path(_add_that_redistributes, "optimal"),
    "propagate mm": Path(_propagate(aten.mm.default)),
    "propagate add": Path(_propagate(aten.add.Tensor)),
    "propagate mm, optimal": Path(_propagate(aten.mm.default), "optimal"),
    "plan": Path(_plan("torch", None)),
    "plan, optimal": Path(_plan("optimal", _TOPOLOGY)),
    "redistribute_cost": Path(_redistribute_cost),
    "redistribute_cost, optimal": Path(_redistribute_cost, "optimal"),
    "strategies of mm on 2x4": Path(_strategies),
}
