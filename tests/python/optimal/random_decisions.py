"""Random decisions: the calls that the parity tests make, narrowed to what policies compare."""

from __future__ import annotations

from collections.abc import Iterator

from ..parity.case import Case
from ..parity.cases import Draw, case_at
from ..parity.layouts import Kind

__all__ = ["OPS", "random_decisions"]

# Each asks something else of a search: contractions, broadcasts, norms, reductions, lists, lookups.
OPS = (
    "aten.mm.default",
    "aten.addmm.default",
    "aten.bmm.default",
    "aten.add.Tensor",
    "aten.mul.Tensor",
    "aten.native_layer_norm.default",
    "aten._softmax.default",
    "aten.sum.dim_IntList",
    "aten.cat.default",
    "aten.embedding.default",
    "aten.gelu.default",
    "aten.view.default",
    "aten.transpose.int",
)


def random_decisions(
    seed: int, count: int, *, max_mesh_ndim: int = 3, any_op: bool = False
) -> Iterator[Case]:
    """`count` decisions about `OPS` in turn, or about any op that has a rule.

    Operands have plain layouts of random placements, on meshes of which this process is part.
    """
    index = found = 0
    while found < count:
        op = None if any_op else OPS[index % len(OPS)]
        case = case_at(Draw(seed, samples="built", op=op), index)
        index += 1
        plain = case.kind is Kind.PLAIN and case.mesh.first_rank == 0
        if plain and case.mesh.ndim <= max_mesh_ndim:
            found += 1
            yield case
