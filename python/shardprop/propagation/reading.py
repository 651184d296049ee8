"""A number that is read out of a tensor: each rank reads what it holds.

torch means it so (https://github.com/pytorch/pytorch/issues/144054), for a reduction would leave
ranks waiting where one alone reads, to print it. We do the same, and say so.
"""

from __future__ import annotations

from collections.abc import Iterator

from .._torch import DTensorSpec, OpSchema, Placement, is_partial, is_shard
from ..errors import RefusedPlacementError
from .warning import warn_user

__all__ = ["refuse_read_of_one_rank", "warn_of_own_parts"]


def refuse_read_of_one_rank(schema: OpSchema) -> None:
    """Refuse to read an element that one rank alone holds.

    Raises:
        RefusedPlacementError: it is so.
    """
    for mesh_dim, placement in _cut_or_pending(schema):
        if is_shard(placement):
            raise RefusedPlacementError(
                f"{schema.op}: Expected a tensor that all ranks hold, got {placement} on mesh dim "
                f"{mesh_dim}: one rank has the only element, the others have none. Call "
                "full_tensor() before, on all ranks."
            )


def warn_of_own_parts(schema: OpSchema) -> None:
    """Warn where what a rank holds is pending: it is not the number."""
    for mesh_dim, placement in _cut_or_pending(schema):
        if is_partial(placement):
            warn_user(
                f"A number is read out of a tensor that is {placement} on mesh dim {mesh_dim} "
                "(item(), float(), bool(), or an op of torch's that does so): each rank reads its "
                "own part. For the number itself call full_tensor() before, on all ranks."
            )
            return


def _cut_or_pending(schema: OpSchema) -> Iterator[tuple[int, Placement]]:
    """By mesh dim, what is not the same on each of several ranks."""
    spec = schema.args_schema[0]
    assert isinstance(spec, DTensorSpec)
    for mesh_dim, placement in enumerate(spec.placements):
        if spec.mesh.size(mesh_dim) > 1 and not placement.is_replicate():
            yield mesh_dim, placement
