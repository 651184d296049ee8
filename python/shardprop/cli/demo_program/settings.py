"""What a demo run is made of: the mesh, the model, the steps, and whether they fit together."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ...errors import ShardpropError
from .llama import LlamaSize

MESH_DIM_NAMES: dict[int, tuple[str, ...]] = {
    1: ("tp",),
    2: ("dp", "tp"),
    3: ("dp", "sp", "tp"),
    4: ("dp", "fsdp", "sp", "tp"),
}
"""Names of the mesh dims by mesh rank: data, fully sharded data, sequence, tensor parallel."""

MAX_RANKS = 4096
"""More ranks than this is a typing mistake; the fake backend would still build the mesh."""


class SettingsError(ShardpropError):
    """The request cannot be run; the message says what was expected and what was given."""


@dataclass(frozen=True)
class MeshShape:
    """The sizes of the mesh dims, outermost first, and their names."""

    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> MeshShape:
        """Read "2x2x2": one to four sizes, each at least 1, joined by "x"."""
        if not re.fullmatch(r"[0-9]{1,4}(x[0-9]{1,4})*", text, flags=re.ASCII):
            raise SettingsError(f"Expected a mesh such as 2x2x2, got {text!r}.")
        sizes = tuple(int(part) for part in text.split("x"))
        if len(sizes) not in MESH_DIM_NAMES:
            raise SettingsError(f"Expected a mesh of 1 to 4 dims, got {len(sizes)} in {text!r}.")
        if 0 in sizes:
            raise SettingsError(f"Expected mesh sizes of at least 1, got a 0 in {text!r}.")
        shape = cls(sizes)
        if shape.ranks > MAX_RANKS:
            raise SettingsError(
                f"Expected at most {MAX_RANKS} ranks, got {shape.ranks} in {text!r}."
            )
        return shape

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each mesh dim, such as ("dp", "sp", "tp")."""
        return MESH_DIM_NAMES[len(self.sizes)]

    @property
    def ranks(self) -> int:
        """How many processes the mesh stands for."""
        return math.prod(self.sizes)

    def size(self, name: str) -> int:
        """The size of the mesh dim called `name`, 1 if this mesh has no such dim."""
        return dict(zip(self.names, self.sizes, strict=True)).get(name, 1)

    def __str__(self) -> str:
        return "x".join(str(size) for size in self.sizes)


@dataclass(frozen=True)
class Settings:
    """One demo run: which mesh, which model, how many steps."""

    mesh: MeshShape
    model: LlamaSize
    steps: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise SettingsError(f"Expected at least 1 step, got {self.steps}.")
        _check(self.model, self.mesh)

    @property
    def headline(self) -> str:
        """The mesh and the model in a few words."""
        size = self.model
        return (
            f"mesh {self.mesh} ({', '.join(self.mesh.names)}), {size.layers} blocks of "
            f"dim {size.dim}, batch {size.batch} x {size.seq} tokens"
        )


def _check(size: LlamaSize, mesh: MeshShape) -> None:
    """Raise SettingsError unless the model exists and the mesh divides it evenly.

    DTensor could hold uneven shards, but it cannot flatten them: a view that joins an uneven inner
    dim has no layout. Even sizes keep the demo about propagation.
    """
    for name, value in vars(size).items():
        if value is not None and value < 1:
            raise SettingsError(f"Expected {name} of at least 1, got {value}.")
    dp, fsdp, sp, tp = map(mesh.size, ("dp", "fsdp", "sp", "tp"))
    divisions = (
        ("dim", size.dim, "heads", size.heads),
        ("batch", size.batch, "the dp and fsdp mesh dims", dp * fsdp),
        ("dim", size.dim, "the fsdp mesh dim", fsdp),
        ("hidden", size.hidden, "the fsdp mesh dim", fsdp),
        ("seq", size.seq, "the sp mesh dim", sp),
        ("heads", size.heads, "the tp mesh dim", tp),
        ("hidden", size.hidden, "the tp mesh dim", tp),
        ("vocab", size.vocab, "the tp mesh dim", tp),
    )
    for what, value, divisor, by in divisions:
        if value % by:
            raise SettingsError(
                f"Expected {what} to be a multiple of {divisor} ({by}), got {value}."
            )
    if size.head_dim % 2:
        raise SettingsError(
            f"Expected an even head size for the rotary embedding, got {size.head_dim}."
        )
