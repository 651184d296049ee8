"""What to tell a program where there is no plan, or no strategy that plans lead to."""

from __future__ import annotations

from collections.abc import Sequence

from .._torch import DTensorSpec, OpOverload

__all__ = ["why_no_plan", "why_no_strategy"]

# kMaxPicoseconds of csrc/core/optimal/cost_model.h, in minutes.
_LONGEST_STEP = f"{2**50 * 1e-12 / 60:.1f} minutes"


def why_no_plan(src: DTensorSpec, dst: DTensorSpec, memory_limit: float | None) -> str:
    """The message where no plan leads from one spec to the other."""
    return (
        f"No plan{_within(memory_limit)} from {src.placements} to {dst.placements} of a tensor of "
        f"{tuple(src.shape)} on a mesh of {tuple(src.mesh.shape)}. {_reasons(memory_limit)}"
    )


def why_no_strategy(
    op: OpOverload, operands: Sequence[DTensorSpec], memory_limit: float | None
) -> str:
    """The message where no plans lead from an op's operands to any of its strategies."""
    placements = ", ".join(str(spec.placements) for spec in operands)
    return (
        f"{op}: No strategy that plans{_within(memory_limit)} lead to from operands with "
        f"placements {placements}. {_reasons(memory_limit)}"
    )


def _within(memory_limit: float | None) -> str:
    return "" if memory_limit is None else f" within memory_limit={memory_limit} bytes"


def _reasons(memory_limit: float | None) -> str:
    way_out = "" if memory_limit is None else "Raise memory_limit, or shard the tensor further. "
    return (
        f"{way_out}Only a sum, an average, a minimum, a maximum, a norm or masks can be made of "
        "replicated data, beside partials that it mixes with, masks only where it was so from "
        f"the start, and once; and a step whose price is {_LONGEST_STEP} or more does not exist "
        "for the planner (see the topology's bandwidths)."
    )
