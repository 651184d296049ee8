"""Gradients that are unscaled together, in one of which some ranks find an infinity."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .._torch import DTensorSpec, Partial
from ..errors import RefusedPlacementError
from .correction import Correction

__all__ = ["INFINITY_OF_OTHERS", "is_unscaled_otherwise"]

# Their parts do not scale as the whole does, or may have an infinity that the whole has not.
_UNSCALABLE = ("product", "max", "min")


def is_unscaled_otherwise(
    gradients: Sequence[DTensorSpec], found_inf: DTensorSpec | None, scale: DTensorSpec | None
) -> bool:
    """Does torch's handler leave the ranks with another `found_inf`, or another scale?

    Args:
        gradients: The specs of the gradients, in their order.
        found_inf: The spec of what is written into; None: a plain tensor.
        scale: The spec of what is multiplied by; None: a plain tensor.

    Raises:
        RefusedPlacementError: the op writes into something that cannot be written so.
    """
    if found_inf is not None and not found_inf.is_replicated():
        raise _refused("a found_inf that is replicated", found_inf)
    unscalable = next(filter(_is_unscalable, gradients), None)
    if unscalable is not None:
        raise _refused("gradients whose parts scale as the whole does", unscalable)
    if scale is not None and not scale.is_replicated():
        return True
    first, *rest = gradients
    if found_inf is not None or any(spec.mesh != first.mesh for spec in rest):
        return any(not spec.is_replicated() for spec in gradients)
    return any(_is_cut_otherwise(spec, first) for spec in rest)


def _is_unscalable(spec: DTensorSpec) -> bool:
    return any(isinstance(p, Partial) and p.reduce_op in _UNSCALABLE for p in spec.placements)


def _is_cut_otherwise(spec: DTensorSpec, first: DTensorSpec) -> bool:
    """Do ranks differ in a gradient that have the same of the first?"""
    return any(
        of_first.is_replicate() and not placement.is_replicate()
        for of_first, placement in zip(first.placements, spec.placements, strict=True)
    )


def _refused(expected: str, spec: DTensorSpec) -> RefusedPlacementError:
    return RefusedPlacementError(
        f"{torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default}: Expected "
        f"{expected}, got {spec}. Redistribute it before the call, to Replicate(): what the op "
        "writes into is not moved."
    )


INFINITY_OF_OTHERS = Correction(
    name="infinity in another gradient",
    where="`_amp_foreach_non_finite_check_and_unscale_`, by which `GradScaler` unscales gradients",
    fault="reduces what ranks found over the mesh dims that shard the first of the gradients "
    "alone: of an infinity in a shard of another one, the other ranks do not learn, so that they "
    "step and that rank does not. A pending scale is taken for the whole one, and a pending "
    "`found_inf` is written into as it is.",
    right="reduces what they found over all mesh dims on which they differ, of several meshes over "
    "all dims until each rank knows, and the scale first. A `found_inf` that is not replicated is "
    "refused.",
    ends="a handler of torch's that looks at all its operands.",
)
