"""Device meshes for one process: a fake process group and a pool of meshes of every kind we test.

Meshes are built without communicators (no decision looks at one), so a mesh of 256 ranks costs
microseconds and the group's world size does not bound it.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

WORLD_SIZE = 512
MAX_RANKS = 256

# Sizes of a mesh dim. 1 is not a special case for torch (it prices it as a collective), 3 makes the
# float arithmetic inexact, 8 makes most shapes uneven.
_SIZES = (1, 2, 3, 4, 8)
_SIZE_WEIGHTS = (8, 40, 14, 22, 16)


def ensure_process_group() -> None:
    """Starts the fake group in this process, unless another test has started one already."""
    if dist.is_initialized():
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD_SIZE)


@dataclass(frozen=True, slots=True)
class MeshKey:
    """What tells two meshes of the pool apart; hashable and printable, unlike a DeviceMesh.

    ``first_rank`` above 0 leaves this process (rank 0) out of the mesh. ``roll`` shifts the ranks,
    so that rank 0 sits at another coordinate than the origin.
    """

    sizes: tuple[int, ...]
    first_rank: int = 0
    roll: int = 0
    named: bool = False

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    @property
    def numel(self) -> int:
        product = 1
        for size in self.sizes:
            product *= size
        return product

    def __str__(self) -> str:
        text = "x".join(map(str, self.sizes))
        if self.first_rank:
            text += f" from rank {self.first_rank}"
        if self.roll:
            text += f" rolled by {self.roll}"
        return text + (" named" if self.named else "")

    def build(self) -> DeviceMesh:
        return _build(self)


@functools.lru_cache(maxsize=4096)
def _build(key: MeshKey) -> DeviceMesh:
    ensure_process_group()
    ranks = torch.arange(key.numel, dtype=torch.int).roll(key.roll) + key.first_rank
    return DeviceMesh(
        "cpu",
        ranks.view(key.sizes),
        mesh_dim_names=tuple(f"d{i}" for i in range(key.ndim)) if key.named else None,
        _init_backend=False,
    )


@functools.lru_cache(maxsize=4096)
def describe_mesh(mesh: DeviceMesh) -> str:
    """A mesh as text that two equal meshes share, whichever object they are."""
    sizes = "x".join(map(str, mesh.mesh.shape))
    ranks, names = mesh._flatten_rank_map, mesh.mesh_dim_names
    plain = ranks == tuple(range(len(ranks)))
    return f"mesh {sizes}" + ("" if plain else f" {ranks}") + (f" {names}" if names else "")


def draw_mesh(rng: random.Random, ndim: int, max_ranks: int = MAX_RANKS) -> MeshKey:
    """A mesh of `ndim` dims; one in fifteen leaves this process out."""
    while True:
        sizes = tuple(rng.choices(_SIZES, _SIZE_WEIGHTS, k=ndim))
        key = MeshKey(sizes, named=rng.random() < 0.5)
        if key.numel <= max_ranks:
            break
    luck = rng.random()
    if luck < 0.065:
        return MeshKey(sizes, first_rank=rng.choice((1, 3, 64)), named=key.named)
    if luck < 0.2 and key.numel > 1:
        return MeshKey(sizes, roll=rng.randrange(1, key.numel), named=key.named)
    return key
