"""What the command line asks for, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ShardpropError
from .cases import CASES

__all__ = ["Request", "request_of"]

# 8 to 64 ranks by the number of mesh dims; torch takes a second for each decision on the last.
_MESHES = ((8,), (8, 8), (4, 4, 4), (2, 2, 4, 4))

# torch's calls per measurement, by the number of mesh dims: from a millisecond to a second each.
_TORCH_ROUNDS = {1: 15, 2: 7, 3: 3, 4: 1}
_MOST_DIMS = max(_TORCH_ROUNDS)


@dataclass(frozen=True)
class Request:
    """A benchmark to run.

    Attributes:
        meshes: Sizes of the mesh dims of each mesh.
        ops: Names in `CASES`.
        quick: A third of the rounds.
    """

    meshes: tuple[tuple[int, ...], ...]
    ops: tuple[str, ...]
    quick: bool

    @property
    def ranks(self) -> int:
        """How many ranks the largest mesh has."""
        return max(math.prod(mesh) for mesh in self.meshes)

    def rounds(self, mesh: Sequence[int]) -> int:
        """How often each side is timed."""
        rounds = _TORCH_ROUNDS[len(mesh)]
        return max(1, rounds // 3) if self.quick else rounds


def request_of(
    meshes: Sequence[tuple[int, ...]], ops: Sequence[str], quick: bool, every_mesh: bool
) -> Request:
    """The request, with what was left open filled in: meshes of 1 to 3 dims (2 if `quick`, 4 if
    `every_mesh`), all ops.

    Raises:
        ShardpropError: an unknown op, a mesh of more than 4 dims, or a choice made twice.
    """
    unknown = [op for op in ops if op not in CASES]
    if unknown:
        raise ShardpropError(f"--op: Expected one of {', '.join(CASES)}; got {unknown[0]!r}.")
    if every_mesh and (quick or meshes):
        raise ShardpropError(f"Expected --all or {'--mesh' if meshes else '--quick'}, got both.")
    for mesh in meshes:
        if len(mesh) > _MOST_DIMS:
            text = "x".join(map(str, mesh))
            raise ShardpropError(f"--mesh: Expected 1 to {_MOST_DIMS} dims, got {text!r}.")
    usual = _MESHES if every_mesh else _MESHES[: 2 if quick else 3]
    return Request(
        tuple(dict.fromkeys(meshes)) or usual, tuple(dict.fromkeys(ops)) or (*CASES,), quick
    )
