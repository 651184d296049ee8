"""What is tried of a rule, or of an op that is to have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """What is tried on every call.

    Attributes:
        ranks: Sizes of the 1-D meshes.
        composed: Sizes of the mesh on which pairs of rows are composed; empty for none.
        strided_factors: Split factors of the ``_StridedShard`` placements tried.
        missing: Look for rows that hold and are not claimed.
        apart: Look for them in a forked process: a kernel may crash on operands that nobody ever
            gave it. For processes of one thread, such as a worker.
        gradients: Carry the calls out as DTensor does, forward and backward.
        scripts: Write a script for each finding.
        rule: ``"active"``: the rule that shardprop uses; ``"torch"``: torch's own.
        seed: Seed of every random number.
        combinations: Placements of all operands that are tried on one mesh; if there are more,
            those of at most two kinds, and a random sample.
        compositions: Pairs of rows that are composed for one call.
        layouts: Layouts in which a call is carried out on one mesh.
    """

    ranks: tuple[int, ...] = (2, 3)
    composed: tuple[int, ...] = (2, 2)
    strided_factors: tuple[int, ...] = (2,)
    missing: bool = True
    apart: bool = False
    gradients: bool = True
    scripts: bool = True
    rule: Literal["active", "torch"] = "active"
    seed: int = 0
    combinations: int = 1500
    compositions: int = 48
    layouts: int = 4
