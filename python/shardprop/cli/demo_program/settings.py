"""What a demo run is made of: the mesh, the model, the steps, and whether they fit together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import ShardpropError
from ..ranks import mesh_sizes
from .llama import LlamaSize

__all__ = ["Settings", "mesh_of"]

# Names of the mesh dims by mesh rank: data, fully sharded data, sequence, tensor parallel.
_NAMES: dict[int, tuple[str, ...]] = {
    1: ("tp",),
    2: ("dp", "tp"),
    3: ("dp", "sp", "tp"),
    4: ("dp", "fsdp", "sp", "tp"),
}

# More real processes than this on one machine is a typing mistake.
_MOST_PROCESSES = 64
# From this mesh rank on torch alone needs about an hour: its planner meets strided shards.
_SLOW_MESH_DIMS = 3


@dataclass(frozen=True)
class Settings:
    """One demo run.

    Attributes:
        mesh: Sizes of the mesh dims, outermost first.
        model: Sizes of the model and of the batch.
        steps: Training steps.
        seed: Of weights and tokens.

    Raises:
        ShardpropError: it cannot be run: a size below 1, a mesh that does not divide the model.
    """

    mesh: tuple[int, ...]
    model: LlamaSize
    steps: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        """DTensor could hold uneven shards, but it cannot flatten them: a view that joins an uneven
        inner dim has no layout. Even sizes keep the demo about propagation."""
        if len(self.mesh) not in _NAMES:
            raise ShardpropError(f"--mesh: Expected 1 to 4 dims, got {len(self.mesh)}.")
        if self.steps < 1:
            raise ShardpropError(f"Expected at least 1 step, got {self.steps}.")
        model = self.model
        for name, value in vars(model).items():
            if value is not None and value < 1:
                raise ShardpropError(f"Expected {name} of at least 1, got {value}.")
        ranks = dict(zip(self.names, self.mesh, strict=True))
        dp, fsdp, sp, tp = (ranks.get(name, 1) for name in ("dp", "fsdp", "sp", "tp"))
        for what, value, divisor, by in (
            ("dim", model.dim, "heads", model.heads),
            ("batch", model.batch, "the dp and fsdp mesh dims", dp * fsdp),
            ("dim", model.dim, "the fsdp mesh dim", fsdp),
            ("hidden", model.hidden, "the fsdp mesh dim", fsdp),
            ("seq", model.seq, "the sp mesh dim", sp),
            ("heads", model.heads, "the tp mesh dim", tp),
            ("hidden", model.hidden, "the tp mesh dim", tp),
            ("vocab", model.vocab, "the tp mesh dim", tp),
        ):
            if value % by:
                raise ShardpropError(
                    f"Expected {what} to be a multiple of {divisor} ({by}), got {value}."
                )
        if model.head_dim % 2:
            raise ShardpropError(
                f"Expected an even head size for the rotary embedding, got {model.head_dim}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each mesh dim, such as ("dp", "sp", "tp")."""
        return _NAMES[len(self.mesh)]

    @property
    def ranks(self) -> int:
        """How many processes the mesh stands for."""
        return math.prod(self.mesh)

    @property
    def headline(self) -> str:
        """The mesh and the model in a few words."""
        model, mesh = self.model, "x".join(map(str, self.mesh))
        return (
            f"mesh {mesh} ({', '.join(self.names)}), {model.layers} blocks of "
            f"dim {model.dim}, batch {model.batch} x {model.seq} tokens"
        )


def mesh_of(
    text: str | None, *, compare: bool, processes: int | None, force: bool
) -> tuple[int, ...]:
    """The sizes of the mesh that the command line asks for, or of the usual one.

    Raises:
        ShardpropError: no such mesh, or none for that run.
    """
    sizes = None if text is None else mesh_sizes(text)
    if processes is not None:
        if compare:
            raise ShardpropError("Expected --compare or --gloo, got both.")
        return _mesh_of_processes(processes, sizes)
    sizes = sizes or ((4, 2) if compare else (2, 2, 2))
    if compare and len(sizes) >= _SLOW_MESH_DIMS and not force:
        raise ShardpropError(
            f"torch alone needs about an hour on a mesh of {len(sizes)} dims such as {text}, "
            "because its planner meets strided shards there. Compare on a 2-dim mesh such as 4x2, "
            "or add --force to wait for it."
        )
    return sizes


def _mesh_of_processes(processes: int, sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    """As given, else 2-dim and as square as it gets."""
    if not 1 <= processes <= _MOST_PROCESSES:
        raise ShardpropError(f"Expected --gloo from 1 to {_MOST_PROCESSES}, got {processes}.")
    if sizes is None:
        dp = max(d for d in range(1, math.isqrt(processes) + 1) if processes % d == 0)
        return dp, processes // dp
    if math.prod(sizes) != processes:
        mesh = "x".join(map(str, sizes))
        raise ShardpropError(
            f"Expected --gloo {math.prod(sizes)} for mesh {mesh}, got --gloo {processes}."
        )
    return sizes
