"""Which shards of the input can stay through a view op, and which have to be gathered."""

from __future__ import annotations

from ...._torch.symbolic_sizes import known, maybe
from .declined import Declined
from .dim_map import DimMap, Group
from .shards import Shards

__all__ = ["Settled"]


class Settled:
    """The verdicts, reached group by group.

    A strict op may not gather: it raises, but for the shards it excuses. Conditions on sizes are
    asked in the order in which torch asks them, for the sake of guards.

    Attributes:
        stays: Per mesh dim, can its shard stay?
        excused: Mesh dims whose shard may be gathered although the op is strict.
        outputs_of: The output dims that shards of an input dim can go to.
    """

    def __init__(self, shards: Shards, dims: DimMap, strict: bool) -> None:
        self._shards = shards
        self._strict = strict
        self._resolved: set[int] = set()  # strided shards that are shards of a piece
        self.stays = [dim in dims.group_of for dim in shards.dim_at]
        self.excused: set[int] = set()
        self.outputs_of: dict[int, tuple[int, ...]] = {}
        for group in dims.groups:
            if group.pieces:
                self._cut(group)
            elif len(group.merged) == 1:
                self.outputs_of[group.merged[0]] = group.outputs
            else:
                for dim in self._merge(group):
                    self.outputs_of[dim] = group.outputs

    def _merge(self, group: Group) -> list[int]:
        """Decide about plain shards of dims that are merged; the dims that can be followed.

        A strict op follows all of them, another one only those of the first dim.
        """
        shards, strict = self._shards, self._strict
        followed = []
        for dim in group.merged:
            plain = shards.plain_on(dim)
            if not plain:
                continue
            is_first, is_last = dim == group.merged[0], dim == group.merged[-1]
            if strict and is_last:
                stays = True
            elif strict or is_first:
                # torch looks at the first of the mesh dims, and decides for all of them.
                stays = not maybe(shards.shape[dim] % shards.mesh_sizes[plain[0]] != 0)
                if strict and not stays:
                    raise Declined("an uneven shard of a dim that is merged")
            else:
                stays = False
            if strict or is_first:
                followed.append(dim)
            for mesh_dim in shards.on(dim):
                self.stays[mesh_dim] = stays
        return followed or [group.merged[0]]

    def _cut(self, group: Group) -> None:
        """Decide about shards of a dim that is cut into pieces, after it may have been merged.

        torch decides about the merge anew at each piece, so that the last piece has the last word.
        """
        lead = group.merged[0]
        for index, size in enumerate(group.pieces):
            if len(group.merged) > 1:
                lead = self._merge(group)[0]
                self._gather_inner(group)
            strided = self._strided_shard_of_piece(group, index, lead)
            if index == 0:
                self._first_piece(size, lead)
            if strided is not None:
                self._strided_piece(size, strided, is_last=index == len(group.pieces) - 1)
        # torch links the further pieces to the first merged dim, whichever was followed.
        self.outputs_of[lead] = group.outputs if lead == group.merged[0] else group.outputs[:1]

    def _gather_inner(self, group: Group) -> None:
        for dim in group.merged[1:]:
            for mesh_dim in self._shards.plain_on(dim):
                self.stays[mesh_dim] = False
                self.excused.add(mesh_dim)

    def _strided_shard_of_piece(self, group: Group, index: int, dim: int) -> int | None:
        """The mesh dim whose strided shard is one of a piece, if no plain shard comes before it."""
        for mesh_dim in self._shards.on(dim):
            if mesh_dim in self._resolved:
                continue
            if self._shards.factor_at[mesh_dim] is None:
                return None
            if self._shards.is_of_piece(mesh_dim, group, index):
                return mesh_dim
        return None

    def _first_piece(self, size: int, dim: int) -> None:
        # Asked for every mesh dim, sharded or not: torch guards on it.
        even = [known(size % mesh_size == 0) for mesh_size in self._shards.mesh_sizes]
        for mesh_dim in self._shards.on(dim):
            self.stays[mesh_dim] = even[mesh_dim]
        if self._strict:
            plain = self._shards.plain_on(dim)
            if plain and not even[plain[0]]:
                raise Declined("an uneven shard of a dim that is cut")

    def _strided_piece(self, size: int, mesh_dim: int, *, is_last: bool) -> None:
        mesh_size = self._shards.mesh_sizes[mesh_dim]
        if self._strict and not is_last and maybe(size % mesh_size != 0):
            raise Declined("an uneven shard of a piece")
        self._resolved.add(mesh_dim)
        self.stays[mesh_dim] = known(size % mesh_size == 0) or is_last
