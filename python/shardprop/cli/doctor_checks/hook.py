"""Who decides for DTensor, and are its decisions torch's?"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import torch

from ... import _torch
from ..._torch import DeviceMesh, DTensor, Replicate, make_spec
from ...corrections.by_op import CORRECTIONS
from ...environment import IS_OFF, IS_ON
from ...propagation import propagator
from ...propagation.optimal_policy import OptimalPolicy
from ...propagation.route import is_needless
from ...rules import torch_registry
from ..decisions import answer_of
from .finding import Finding, note, ok, problem

__all__ = ["corrections", "decides", "enabled", "nobody_else", "same_answer"]

# A size that was not met before: torch's caches would answer, and nobody would be asked.
_sizes = itertools.count(1_009)


def enabled() -> Iterator[Finding]:
    """Is shardprop on?"""
    asked = os.environ.get("SHARDPROP", "")
    if asked not in (*IS_OFF, *IS_ON):
        yield problem(
            "enabled",
            f"SHARDPROP={asked} in the environment, which does nothing",
            "export SHARDPROP=1 enables shardprop when DTensor is imported",
        )
    elif propagator.is_enabled():
        how = f" (SHARDPROP={asked})" if asked in IS_ON else ""
        yield ok("enabled", f"yes{how}, policy {propagator.current_policy().name!r}")
    else:
        yield note(
            "enabled",
            "no",
            "call shardprop.enable(), or set SHARDPROP=1, or run your program by shardprop run",
        )


def nobody_else() -> Iterator[Finding]:
    """Is torch's propagator as torch made it, but for us?"""
    foreign = _torch.foreign_patches()
    if foreign:
        yield problem(
            "other patches",
            f"{', '.join(foreign)} stand where torch's propagation or redistribution was",
            "another library has replaced them; enable shardprop after it, or do without one",
        )
    else:
        yield ok("other patches", "none in DTensor's propagation and redistribution")
    if _torch.forces_a_planner():
        yield note(
            "torch's planner",
            "the program forces torch's graph planner for redistributions",
            "policy 'optimal' plans none while it does",
        )


def decides(mesh: DeviceMesh) -> Iterator[Finding]:
    """Does an op on DTensors come to the core?"""
    local = torch.ones(1, next(_sizes), device=mesh.device_type)
    tensor = DTensor.from_local(local, mesh, [Replicate()] * mesh.ndim, run_check=False)
    with nullcontext() if propagator.is_enabled() else propagator.enabled():
        before = propagator.stats()
        _ = tensor + tensor
        after = propagator.stats()
    if after.decisions > before.decisions:
        yield ok("hook", "an op on DTensors was decided by the core")
    else:
        yield problem(
            "hook",
            "an op on DTensors was not decided by the core",
            "see other patches; shardprop.stats() says what was delegated or fell back",
        )


def same_answer(mesh: DeviceMesh) -> Iterator[Finding]:
    """Is the core's decision the one that torch makes?"""
    if isinstance(propagator.current_policy(), OptimalPolicy):
        yield ok("answers", "policy 'optimal' decides, which is not to decide as torch does")
        return
    schema = _question(mesh)
    theirs, ours = (
        answer_of(decide, schema)
        for decide in (_torch.torch_propagate, propagator.propagate_sharding)
    )
    if theirs == ours:
        yield ok("answers", "a decision of the core is torch's own")
    else:
        yield problem(
            "answers",
            f"for {schema} torch decides {theirs}, and the core {ours}",
            "run shardprop bench --quick; if that differs too, report it with this output",
        )


def corrections() -> Iterator[Finding]:
    """Which faults of torch are put right, and which does this torch not have?"""
    if not propagator.current_policy().corrects:
        yield note(
            "corrections",
            "off: wrong values of torch's stay wrong (corrections=False)",
            "call shardprop.enable() without it; docs/corrections.md lists the faults",
        )
        return
    needless = [each.name for each in CORRECTIONS if is_needless(each)]
    text = f"{len(CORRECTIONS) - len(needless)} of {len(CORRECTIONS)} in use"
    if needless:
        text += f"; needless on torch {torch.__version__}: {', '.join(needless)}"
    yield ok("corrections", text)


def _question(mesh: DeviceMesh) -> _torch.OpSchema:
    """A product of matrices whose operands disagree."""
    size = next(_sizes)

    def spec(shape: Sequence[int], placement: _torch.Placement) -> _torch.DTensorSpec:
        meta = _torch.contiguous_meta(shape, torch.float32)
        return make_spec(mesh, (placement, *[Replicate()] * (mesh.ndim - 1)), meta)

    operands = spec((64, size), _torch.Shard(0)), spec((size, 64), _torch.Shard(0))
    return torch_registry.op_schema(torch.ops.aten.mm.default, operands, {})
