"""Steps of optimizers made on what ranks hold, where each element is computed from elements that
lie in the same place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _torch
from .._torch import DTensorSpec, is_partial
from ..support.cache import BoundedMap

__all__ = ["OptimizerSteps"]

_STEPS_HELD = 4096

_Lists = Sequence[list[torch.Tensor]]
# The spec of each DTensor in the lists; the shape of what is none.
_Layouts = list[list[DTensorSpec | torch.Size]]


@dataclass(frozen=True)
class _Known:
    """What was found out about a step.

    Attributes:
        layouts: Those of the tensors in its lists.
        written: By how much the version of each tensor rose. None: the step is not made on what
            ranks hold, for not all lie alike, or something moved.
    """

    layouts: _Layouts
    written: list[list[int]] | None


class OptimizerSteps:
    """Stands in for the functions that update parameters, elementwise, from their gradients and
    state: some twenty ops on each DTensor, or on lists of hundreds.

    The first step runs op by op, so that all is decided, counted and refused as ever. Where nothing
    moved in it and the tensors of each parameter lie alike, so it is with every later step on
    tensors of the same specs: that runs torch's function on what the rank holds. Where some do not,
    a function that takes one parameter after the other is called for each.

    Args:
        moves: Counts the redistributions of the process.
    """

    def __init__(self, moves: itertools.count[int]) -> None:
        self._moves = moves
        self._known: BoundedMap[_Known] = BoundedMap("optimizer steps", _STEPS_HELD)

    def clear(self) -> None:
        """Forget all steps."""
        self._known.clear()

    def step(
        self, torchs: Callable[..., None], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        """See torch: `args` begin with the lists of parameters and of gradients, and lists of state
        follow."""
        lists = [arg for arg in args if type(arg) is list]
        others = [arg for arg in args if type(arg) is not list]
        others += options.values()
        held = None
        if _torch.may_step_on_locals(others) and _torch.nobody_watches():
            held = _torch.held_by_rank(lists)
        if held is None:
            torchs(*args, **options)
            return

        def run(on: _Lists) -> None:
            left = iter(on)
            torchs(*(next(left) if type(arg) is list else arg for arg in args), **options)

        local, layouts = held
        # If the first parameter is another by now, the layouts tell.
        key = torchs, id(lists[0][0]), len(lists[0]), _torch.step_conditions(others)
        known = self._known.get(key)
        if known is None or known.layouts != layouts:
            is_alike = _lie_alike(layouts) and not _torch.has_foreign_handlers()
            known = _Known(layouts, self._written(run, lists) if is_alike else None)
            self._known.put(key, known)
            if is_alike:
                return
        if known.written is not None:
            with _torch.as_on_locals(lists, known.written):
                run(local)
        elif _torch.goes_one_by_one(torchs) and len(lists[0]) > 1:
            for at in range(len(lists[0])):
                alone = ([*arg[at : at + 1]] if type(arg) is list else arg for arg in args)
                self.step(torchs, (*alone,), options)
        else:
            run(lists)

    def _written(self, run: Callable[[_Lists], None], lists: _Lists) -> list[list[int]] | None:
        """Make the step; by how much the version of each tensor rose, or None: something moved."""
        versions, before = _torch.versions_of(lists), next(self._moves)
        run(lists)
        if next(self._moves) != before + 1:
            return None
        risen = zip(versions, _torch.versions_of(lists), strict=True)
        return [[now - was for was, now in zip(*of, strict=True)] for of in risen]


def _lie_alike(layouts: _Layouts) -> bool:
    """Do the elements of each parameter lie where those lie which they are computed from?"""
    parameters, *others = layouts
    return all(len(of) in (0, len(parameters)) for of in others) and all(
        _is_beside(parameter, [of[at] for of in others if of])
        for at, parameter in enumerate(parameters)
    )


def _is_beside(
    parameter: DTensorSpec | torch.Size, others: Sequence[DTensorSpec | torch.Size]
) -> bool:
    specs = [each for each in others if isinstance(each, DTensorSpec)]
    if not isinstance(parameter, DTensorSpec):
        return not specs
    if any(map(is_partial, parameter.placements)):
        return False
    return all(
        spec.mesh is parameter.mesh
        and spec.placements == parameter.placements
        and spec.shard_order == parameter.shard_order
        and spec.use_strided_shard_as_shard_order == parameter.use_strided_shard_as_shard_order
        and spec.shape == parameter.shape
        for spec in specs
    ) and not any(each for each in others if not isinstance(each, DTensorSpec))  # but numbers
