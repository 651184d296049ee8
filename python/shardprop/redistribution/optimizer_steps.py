"""Steps of optimizers made on what ranks hold, where each element is computed from elements that
lie in the same place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _torch
from .._torch import DTensorSpec, is_partial
from ..support.cache import BoundedMap

__all__ = ["OptimizerSteps"]

_STEPS_HELD = 4096

_Specs = list[list[DTensorSpec | None]]
_Function = Callable[..., None]


@dataclass(frozen=True)
class _Known:
    """What was found out about a step.

    Attributes:
        specs: Those of the tensors in its lists; None for what is no DTensor.
        places: Those of the parameters whose step is made on what a rank holds; None: all.
    """

    specs: _Specs
    places: list[bool] | None


class OptimizerSteps:
    """Stands in for the functions that update parameters, elementwise, from their gradients and
    state: some twenty ops on each DTensor, or on lists of hundreds.

    The first step runs op by op, so that all is decided, counted and refused as ever. Where nothing
    moved in it and the tensors of a parameter lie alike, so it is with every later step on tensors
    of the same specs: that runs torch's function on what the rank holds. A function that takes one
    parameter after the other takes the others as they are.

    Args:
        moves: Counts the redistributions of the process.
    """

    def __init__(self, moves: itertools.count[int]) -> None:
        self._moves = moves
        self._known: BoundedMap[_Known] = BoundedMap("optimizer steps", _STEPS_HELD)

    def clear(self) -> None:
        """Forget all steps."""
        self._known.clear()

    def step(self, torchs: _Function, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """See torch: `args` begin with the lists of parameters and of gradients, and lists of state
        follow."""
        lists = [arg for arg in args if type(arg) is list]
        others = (arg for arg in args if type(arg) is not list)

        def run(on: Sequence[Any]) -> None:
            left = iter(on)
            torchs(*(next(left) if type(arg) is list else arg for arg in args), **options)

        held = None
        if _torch.may_step_on_locals((*others, *options.values())) and _torch.nobody_watches():
            held = _held(lists)
        if held is None:
            run(lists)
            return
        key = torchs, id(lists[0][0]), len(lists[0])
        known = self._known.get(key)
        if known is not None and known.specs == held[1]:
            _on_locals(run, lists, held[0], known.places)
            return
        places = _alike(held[1])
        if all(places):
            is_known = self._moves_nothing(run, lists)
        elif any(places) and _torch.goes_one_by_one(torchs):
            is_known = self._moves_nothing(run, _chosen(lists, places))
            run(_chosen(lists, [not place for place in places]))
        else:
            is_known = False
            run(lists)
        if is_known:
            self._known.put(key, _Known(held[1], None if all(places) else places))

    def _moves_nothing(self, run: Callable[[Sequence[Any]], None], lists: Sequence[Any]) -> bool:
        """Run it, and tell."""
        before = next(self._moves)
        run(lists)
        return next(self._moves) == before + 1


def _on_locals(
    run: Callable[[Sequence[Any]], None],
    lists: Sequence[list[Any]],
    locals_: Sequence[list[Any]],
    places: list[bool] | None,
) -> None:
    """Make the step on what the rank holds."""
    written = lists
    if places is not None:
        written = _chosen(lists, places)
        rows = [[*zip(of, local, strict=True)] for of, local in zip(lists, locals_, strict=True)]
        locals_ = [[pair[here] for here, pair in zip(places, of, strict=False)] for of in rows]
    run(locals_)
    parameters, _, *state = written
    _torch.note_writes([parameters, *state])


def _chosen(lists: Sequence[list[Any]], places: list[bool]) -> list[list[Any]]:
    """The lists of some of the parameters; some lists are empty."""
    return [[*itertools.compress(of, places)] for of in lists]


def _held(lists: Sequence[Any]) -> tuple[list[list[Any]], _Specs] | None:
    """What a rank holds of the tensors in lists, and their specs."""
    local, specs = [], []
    for tensors in lists:
        held = _torch.held_by_rank(tensors)
        if held is None:
            return None
        local.append(held[0])
        specs.append(held[1])
    return local, specs


def _alike(specs: _Specs) -> list[bool]:
    """For each parameter: do its elements lie where those lie which they are computed from?"""
    parameters, *others = specs
    return [
        _is_beside(parameter, [of[place] for of in others if of])
        for place, parameter in enumerate(parameters)
    ]


def _is_beside(parameter: DTensorSpec | None, others: Sequence[DTensorSpec | None]) -> bool:
    if parameter is None:
        return all(spec is None for spec in others)
    if any(map(is_partial, parameter.placements)):
        return False
    return all(
        spec is None
        or (
            spec.mesh is parameter.mesh
            and spec.placements == parameter.placements
            and spec.shard_order == parameter.shard_order
            and spec.use_strided_shard_as_shard_order == parameter.use_strided_shard_as_shard_order
            and spec.shape == parameter.shape
        )
        for spec in others
    )
