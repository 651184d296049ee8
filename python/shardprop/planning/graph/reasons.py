"""Why no labels meet all constraints: the smallest set of named reasons found."""

from __future__ import annotations

import time
from collections.abc import Callable

from .consistency import conflict
from .constraints import Allow, AllowPairs, Forbid
from .core import solve_core
from .errors import InfeasibleError
from .items import Item, Items, Limits
from .parts import Edge
from .problem import Problem
from .sentences import sentence

__all__ = ["emptied", "explained"]

# Seconds for the search. A set that cannot be made smaller in this time is told as it is.
_SECONDS = 10.0

Oracle = Callable[[Limits], bool]


def explained(problem: Problem, seconds: float = _SECONDS) -> InfeasibleError:
    """The error for a problem that a solver has found to be infeasible.

    The reasons are a set of constraints, edges and costs that cannot be met together, while any of
    them could be dropped to meet the others (`InfeasibleError.minimal`); there may be other such
    sets. They are found by QuickXplain (Junker, AAAI 2004), forwards and backwards through the
    candidates, of which the smaller set is told.
    """
    items = Items(problem)
    search = _Search(items, time.monotonic() + seconds)
    candidates = search.candidates()
    found = search.smallest(candidates)
    if len(found) > 1 and not search.is_over():
        other = search.smallest(candidates[::-1])
        found = min(found, other, key=len)
    order = {id(item): at for at, item in enumerate(items.all)}
    return _error(items, sorted(found, key=lambda item: order[id(item)]), not search.gave_up)


def emptied(problem: Problem, constraint: Allow | Forbid) -> InfeasibleError:
    """The error for a constraint that would take the last labels of a node."""
    items = Items(problem)
    candidates = [*items.all, Item(constraint.name, constraint)]
    own = [item for item in candidates if item.nodes() == [constraint.node] and _is_mask(item)]
    return _error(items, _quickxplain(own, lambda some: conflict(items, some) is not None), True)


def _is_mask(item: Item) -> bool:
    return isinstance(item.limit, (int, Allow, Forbid))


class _Search:
    def __init__(self, items: Items, end: float) -> None:
        self._items = items
        self._end = end
        self.gave_up = False

    def is_over(self) -> bool:
        return time.monotonic() > self._end

    def candidates(self) -> list[Item]:
        """What propagation shows to be at odds, without prices and pairs if that is enough."""
        every = self._items.all
        plain = [item for item in every if not isinstance(item.limit, (Edge, AllowPairs))]
        for some in (plain, every):
            found = conflict(self._items, some)
            if found is not None:
                return found
        return every

    def smallest(self, candidates: list[Item]) -> list[Item]:
        return _quickxplain(candidates, self._infeasible)

    def _infeasible(self, limits: Limits) -> bool:
        """Is it proved? A false "no" only leaves more reasons than needed."""
        if conflict(self._items, limits) is not None:
            return True
        left = self._end - time.monotonic()
        if left > 0:
            answer = solve_core(self._items.lowered(limits), left)
            if answer.status == "infeasible" or answer.labels is not None:
                return answer.status == "infeasible"
        self.gave_up = True
        return False


def _quickxplain(candidates: list[Item], infeasible: Oracle) -> list[Item]:
    """A smallest part that is infeasible, of candidates that are."""

    def part(base: list[Item], grown: bool, among: list[Item]) -> list[Item]:
        if grown and infeasible(base):
            return []
        if len(among) == 1:
            return among
        first, second = among[: len(among) // 2], among[len(among) // 2 :]
        of_second = part(base + first, True, second)
        of_first = part(base + of_second, bool(of_second), first)
        return of_first + of_second

    return part([], False, candidates) if candidates else []


def _error(items: Items, reasons: list[Item], minimal: bool) -> InfeasibleError:
    indices = sorted({node for item in reasons for node in item.nodes()})
    nodes = [items.problem.nodes[index].name for index in indices]
    names = [item.name for item in reasons]
    return InfeasibleError(sentence(items, reasons, minimal), names, nodes, minimal)
