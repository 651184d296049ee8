"""Rules that follow their operands: the placements at hand decide, nothing is searched.

torch lets views, reductions, slices and the like keep the layout that their input has, and moves
only what they cannot work on. On one mesh dim that is a map from the operand's placement to the
wanted and the output placement; `Axes` writes it down per tensor dim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from .. import _core
from .._torch import (
    DTensorSpec,
    OpOverload,
    Partial,
    Placement,
    Replicate,
    Shard,
    StridedShard,
    default_shard_order,
    has_strided,
    make_spec,
)
from ..model.placements import Placements
from ..model.question import Choice, Question
from ..model.specs import alike
from .places import function_place, innermost
from .rule import Chooser, Origin, Rule, RuleKind, declining_the_unexpected

__all__ = [
    "REPLICATE",
    "Axes",
    "Axis",
    "Candidate",
    "FollowRule",
    "Placements",
    "argument",
    "candidate_costs",
    "normal_dim",
    "on_dim",
    "unary",
]

REPLICATE = Replicate()
_SHARDS = (Shard, StridedShard)


class Axis(Enum):
    """What may become of a tensor dim, other than a dim of the output."""

    WHOLE = "whole"  # the op needs all of it: a shard is gathered first
    REDUCED = "reduced"  # the op reduces it: a shard leaves a Partial


def argument(question: Question, position: int, default: Any) -> Any:
    """A positional argument, or its default."""
    return question.args[position] if len(question.args) > position else default


def normal_dim(dim: int, ndim: int) -> int:
    """A tensor dim counted from the front."""
    return dim if dim >= 0 else dim + ndim


def on_dim(placement: Placement, dim: int) -> Placement:
    """The same kind of shard on another tensor dim."""
    if placement.dim == dim:  # type: ignore[attr-defined]
        return placement
    if isinstance(placement, StridedShard):
        return StridedShard(dim, split_factor=placement.split_factor)
    return Shard(dim)


@dataclass(frozen=True)
class Axes:
    """A rule for one mesh dim, as what becomes of each tensor dim of the operand.

    Attributes:
        dims: Per tensor dim of the operand its dim in the output, or an `Axis`.
        keeps_partial: A Partial passes through (else it is reduced first).
        reduced: What a shard of a reduced dim becomes (a Partial).
    """

    dims: Sequence[int | Axis]
    keeps_partial: bool = True
    reduced: Placement = REPLICATE

    def follow(self, placement: Placement) -> tuple[Placement, Placement]:
        """The wanted and the output placement of one mesh dim.

        Raises:
            _core.Unsupported: a placement that is none of torch's kinds, or of no such tensor dim.
        """
        if isinstance(placement, _SHARDS):
            if not 0 <= placement.dim < len(self.dims):
                raise _core.Unsupported("shard of a tensor dim that the operand does not have")
            axis = self.dims[placement.dim]
            if axis is Axis.WHOLE:
                return REPLICATE, REPLICATE
            if axis is Axis.REDUCED:
                return placement, self.reduced
            return placement, on_dim(placement, axis)
        if isinstance(placement, Partial):
            return (placement, placement) if self.keeps_partial else (REPLICATE, REPLICATE)
        if isinstance(placement, Replicate):
            return placement, placement
        raise _core.Unsupported("placement that is no shard, Partial or Replicate")

    def follow_all(self, placements: Sequence[Placement]) -> tuple[Placements, Placements]:
        """The wanted and the output placements over the mesh."""
        pairs = [self.follow(placement) for placement in placements]
        return tuple(p for p, _ in pairs), tuple(p for _, p in pairs)


class Candidate(NamedTuple):
    """One way to run the op on the whole mesh.

    Attributes:
        outputs: Placements per output; all outputs share the first where there is only one.
        operands: Wanted placements per positional operand.
        is_sequence: The outputs are a sequence even if there is only one.
        strided_is_order: What strided shards stand for where no operand has any to say.
        costs: Costs that the rule itself sets, in microseconds; None: those of redistribution.
    """

    outputs: tuple[Placements, ...]
    operands: tuple[Placements, ...]
    is_sequence: bool = False
    strided_is_order: bool = True
    costs: tuple[float, ...] | None = None


Price = Callable[[DTensorSpec, DTensorSpec], float]


class FollowRule(Rule):
    """A rule that names its candidates itself; torch mostly has one."""

    kind = RuleKind.FOLLOWS
    origin = Origin.SHARDPROP

    def __init__(self, candidates: Callable[[Question], Candidate | Sequence[Candidate]]) -> None:
        self._candidates = candidates

    def candidates(self, question: Question) -> list[Candidate]:
        """The ways to run the op on operands that are where the question has them; see
        `Rule.candidates`."""
        found = declining_the_unexpected(self._candidates, question)
        return [found] if isinstance(found, Candidate) else list(found)

    def place(self, op: OpOverload) -> str:
        """See `Rule.place`."""
        return function_place(innermost(self._candidates))

    def choose(self, question: Question, chooser: Chooser) -> Choice:
        """The only candidate, or the one torch's selection takes; see `Rule.choose`."""
        with chooser.one_decision():
            return declining_the_unexpected(self._chosen, question, chooser.cost)

    def _chosen(self, question: Question, price: Price) -> Choice:
        operands = question.operands[: question.positional]
        candidates = self.candidates(question)
        mesh = operands[0].mesh if operands else question.operands[0].mesh
        if any(spec.mesh is not mesh and spec.mesh != mesh for spec in operands):
            raise _core.Unsupported("operands on different meshes")
        priced = [candidate_costs(candidate, operands, price) for candidate in candidates]
        best = 0 if len(candidates) == 1 else _cheapest(candidates, operands, priced)
        chosen = candidates[best]
        return Choice(
            outputs=chosen.outputs,
            operands=chosen.operands,
            mesh=mesh,
            cost=sum(priced[best]),
            operand_costs=priced[best],
            nodes=len(candidates),
            pinned=(),
            is_sequence=chosen.is_sequence,
            strided_is_order=chosen.strided_is_order,
        )


def candidate_costs(
    candidate: Candidate, operands: Sequence[DTensorSpec], price: Price
) -> list[float]:
    """Microseconds to bring each operand to where a candidate wants it."""
    if candidate.costs is not None:
        return list(candidate.costs)
    pairs = list(zip(operands, candidate.operands, strict=True))
    if all(_stays(spec, wanted, candidate) for spec, wanted in pairs):
        return [0.0] * len(pairs)
    known: dict[object, float] = {}
    costs: list[float] = []
    for (spec, wanted), own in zip(pairs, alike(operands), strict=True):
        key = own, id(wanted)
        if key not in known:
            stays = _stays(spec, wanted, candidate)
            known[key] = 0.0 if stays else price(spec, _target(spec, wanted, candidate))
        costs.append(known[key])
    return costs


def _stays(spec: DTensorSpec, wanted: Placements, candidate: Candidate) -> bool:
    """Does the operand have what is wanted, in the shard order that torch gives its candidates: the
    default one, or none where strided shards stand for it?"""
    if spec.placements is not wanted and spec.placements != wanted:
        return False
    if candidate.strided_is_order and has_strided(spec.placements):
        return spec.shard_order is None
    return spec.shard_order == default_shard_order(spec.placements)


def _target(spec: DTensorSpec, wanted: Placements, candidate: Candidate) -> DTensorSpec:
    return make_spec(spec.mesh, wanted, spec.tensor_meta, candidate.strided_is_order)


def _cheapest(
    candidates: Sequence[Candidate], operands: Sequence[DTensorSpec], priced: Sequence[list[float]]
) -> int:
    """torch's choice (its _select_min_cost_strategy): a negative cost first, then one that moves
    nothing (the last of them), then the least (the first of them)."""
    totals = [sum(costs) for costs in priced]
    least = totals.index(min(totals))
    if totals[least] < 0:
        return least
    still = [
        index
        for index, total in enumerate(totals)
        if total == 0
        and all(
            spec.placements == wanted
            for spec, wanted in zip(operands, candidates[index].operands, strict=True)
        )
    ]
    return still[-1] if still else least


def unary(
    axes: Callable[[Question, DTensorSpec], Axes], outputs: Callable[[Question], int] | None = None
) -> FollowRule:
    """The rule of an op with one operand: `axes(question, spec)`; `outputs` if it gives a list."""

    def candidates(question: Question) -> Candidate:
        spec = question.args[0]
        wanted, out = axes(question, spec).follow_all(spec.placements)
        if outputs is None:
            return Candidate((out,), (wanted,))
        return Candidate((out,) * outputs(question), (wanted,), is_sequence=True)

    return FollowRule(candidates)
