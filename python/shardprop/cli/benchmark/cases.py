"""The questions: ops on operands that disagree, so that there is something to decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._torch import (
    DeviceMesh,
    DTensorSpec,
    OpOverload,
    Partial,
    Placement,
    Replicate,
    Shard,
    contiguous_meta,
)

__all__ = ["CASES", "Case", "spec_of", "spread"]

Case = Callable[[DeviceMesh], tuple[OpOverload, tuple[Any, ...]]]
"""A mesh of up to 4 dims -> an op and its arguments on it."""

_R, _P, _S = Replicate(), Partial(), Shard
_aten = torch.ops.aten


def spec_of(
    mesh: DeviceMesh,
    shape: Sequence[int],
    placements: Sequence[Placement],
    dtype: torch.dtype = torch.float32,
) -> DTensorSpec:
    """A contiguous tensor with as many of the placements as the mesh has dims."""
    return DTensorSpec(
        mesh,
        tuple(placements[: mesh.ndim]),
        tensor_meta=contiguous_meta(shape, dtype),
        # As view ops make them: plain shards with gaps, not an encoded shard order.
        use_strided_shard_as_shard_order=False,
    )


def spread(rotation: int) -> list[Placement]:
    """Placements that disagree between operands: shards, a partial and a replica in turn."""
    cycle: list[Placement] = [_S(0), _S(1), _P, _R]
    return cycle[rotation:] + cycle[:rotation]


def _mm(mesh: DeviceMesh) -> tuple[OpOverload, tuple[Any, ...]]:
    shape = (1024, 1024)
    return _aten.mm.default, (spec_of(mesh, shape, spread(0)), spec_of(mesh, shape, spread(3)))


def _add(mesh: DeviceMesh) -> tuple[OpOverload, tuple[Any, ...]]:
    shape = (1024, 1024)
    return _aten.add.Tensor, (spec_of(mesh, shape, spread(0)), spec_of(mesh, shape, spread(3)))


def _bmm(mesh: DeviceMesh) -> tuple[OpOverload, tuple[Any, ...]]:
    shape = (64, 512, 512)
    return _aten.bmm.default, (spec_of(mesh, shape, spread(0)), spec_of(mesh, shape, spread(3)))


def _layer_norm(mesh: DeviceMesh) -> tuple[OpOverload, tuple[Any, ...]]:
    x = spec_of(mesh, (64, 64, 1024), spread(1))
    weight = spec_of(mesh, (1024,), [_S(0), _R, _R, _R])
    return _aten.native_layer_norm.default, (x, [1024], weight, weight, 1e-5)


def _cat(mesh: DeviceMesh) -> tuple[OpOverload, tuple[Any, ...]]:
    a = spec_of(mesh, (64, 512, 512), [_S(1), _R, _S(2), _R])
    b = spec_of(mesh, (64, 512, 512), [_S(2), _S(1), _R, _R])
    return _aten.cat.default, ([a, b],)


def _embedding(mesh: DeviceMesh) -> tuple[OpOverload, tuple[Any, ...]]:
    table = spec_of(mesh, (4096, 512), [_S(0), _S(1), _R, _R])
    tokens = spec_of(mesh, (64, 128), [_S(0), _R, _S(1), _R], dtype=torch.int64)
    return _aten.embedding.default, (table, tokens)


CASES: dict[str, Case] = {
    "mm": _mm,
    "add": _add,
    "bmm": _bmm,
    "layer_norm": _layer_norm,
    "cat": _cat,
    "embedding": _embedding,
}
