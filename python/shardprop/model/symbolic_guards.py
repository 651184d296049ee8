"""What the core asks torch about sizes that are expressions, so that torch adds its own guards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _core, _torch
from .._torch import DataDependentError, DTensorSpec, Placement, Shard
from .._torch.symbolic_sizes import backed_symbols, is_symbolic, unbacked_symbols
from .mesh import core_mesh

__all__ = ["Candidate", "SymbolicSizes", "symbolic_cost"]

# Wanted placements per operand, and what each costs now in microseconds.
Candidate = tuple[tuple[tuple[Placement, ...], ...], list[float]]


def symbolic_cost(src: DTensorSpec, dst: DTensorSpec) -> Any:
    """torch's ``redistribute_cost`` as an expression in the sizes, without the guards of a plan.

    torch makes the whole plan to price it and computes the shape that each step cuts, which guards
    on even division. The price does not depend on those shapes.

    Raises:
        _core.Unsupported: torch would plan on its graph.
    """
    steps = _core.price_steps(core_mesh(src.mesh), src, dst, _torch.forces_graph_plan())
    if steps is None:
        raise _core.Unsupported("symbolic shape in a graph plan")
    if isinstance(steps, float):
        return steps
    gigabytes = _torch.local_gigabytes(src)
    cost: Any = 0.0
    for mesh_dim, before, after in steps:
        step, gigabytes = _torch.transition_cost(before, after, src.mesh, mesh_dim, gigabytes)
        if step == float("inf"):
            return step
        cost += step
    return cost


class _OneCut:
    """All that torch's test of shardability reads of a spec: one tensor dim, cut once."""

    placements = (Shard(0),)

    def __init__(self, pieces: int) -> None:
        self.mesh = self
        self._pieces = pieces

    def size(self, mesh_dim: int) -> int:
        return self._pieces


def _can_be_cut(size: Any, pieces: int, allow_unbacked: bool | None) -> bool:
    """torch's test whether a dim of `size` can be sharded over `pieces` ranks, with its guards.

    Raises:
        _core.Unsupported: torch would raise, since only the data can tell.
    """
    try:
        return _torch.is_shardable((size,), _OneCut(pieces), allow_unbacked)
    except DataDependentError:
        raise _core.Unsupported("size that only the data can tell") from None


class SymbolicSizes:
    """The sizes of one question's operands.

    Attributes:
        operands: The specs of the question.
        allow_unbacked: torch's ``allow_unbacked_sharding`` of the rule.
    """

    def __init__(self, operands: Sequence[DTensorSpec], allow_unbacked: bool | None) -> None:
        self._operands = operands
        self._allow_unbacked = allow_unbacked
        self._symbolic = [is_symbolic(spec.shape) for spec in operands]
        self._answers: dict[tuple[object, int], bool] = {}
        self._prices: dict[tuple[int, tuple[Placement, ...]], Any] = {}

    def holds(self, operand: int, tensor_dim: int, pieces: int) -> bool:
        """Can a tensor dim be cut into so many pieces? torch answers, and guards the answer.

        Raises:
            _core.Unsupported: only the data can tell, and the rule does not say what to assume.
        """
        size = self._operands[operand].shape[tensor_dim]
        key = (size.node.expr, pieces)  # type: ignore[attr-defined]
        if key not in self._answers:
            self._answers[key] = _can_be_cut(size, pieces, self._allow_unbacked)
        return self._answers[key]

    def cheapest(self, candidates: Sequence[Candidate]) -> int:
        """Which of the candidates, which cost the same but for rounding, torch takes.

        Raises:
            _core.Unsupported: torch has no way to compare prices of these sizes.
        """
        self._compares_guesses()
        if len(candidates) == 1:
            return 0
        return _torch.index_of_least_cost([self._total(candidate) for candidate in candidates])

    def keep_product(self, operand: int, least: int | None, most: int | None) -> None:
        """Guard that the product of an operand's symbolic sizes stays within bounds.

        Within them torch's own comparisons of prices come out as they do now.
        """
        if self._compares_guesses():
            return
        product = math.prod(s for s in self._operands[operand].shape if is_symbolic([s]))
        if least is not None:
            bool(product >= least)
        if most is not None:
            bool(product <= most)

    def keep_cheapest(
        self, chosen: Candidate, before: Sequence[Candidate], after: Sequence[Candidate]
    ) -> None:
        """Guard that `chosen` stays the cheapest, by comparing as torch compares."""
        if self._compares_guesses():
            return
        least = self._total(chosen)
        for candidate in before:
            bool(least < self._total(candidate))
        for candidate in after:
            bool(self._total(candidate) < least)

    def _compares_guesses(self) -> bool:
        """Are the sizes unbacked? Then torch compares prices for guesses, and guards nothing."""
        sizes = [size for spec in self._operands for size in spec.shape]
        unbacked = any(map(unbacked_symbols, sizes))
        if unbacked and any(map(backed_symbols, sizes)):
            # torch puts numbers for the unbacked symbols, and then finds none for the others.
            raise _core.Unsupported("prices in backed and unbacked sizes")
        return unbacked

    def _total(self, candidate: Candidate) -> Any:
        wanted, costs = candidate
        return sum(
            cost if cost == 0.0 or not self._symbolic[i] else self._price(i, wanted[i])
            for i, cost in enumerate(costs)
        )

    def _price(self, operand: int, wanted: tuple[Placement, ...]) -> Any:
        key = (operand, wanted)
        if key not in self._prices:
            spec = self._operands[operand]
            target = DTensorSpec(spec.mesh, wanted, tensor_meta=spec.tensor_meta)
            self._prices[key] = symbolic_cost(spec, target)
        return self._prices[key]
