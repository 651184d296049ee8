"""How the gradients of a program's results come in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _torch
from .._torch import DTensor
from .._torch.joint_graphs import Tangent
from .uses import uses_of

__all__ = ["Incoming"]


class Incoming:
    """How the gradients come in of those results that are DTensors.

    What a program does with its results decides that, and with it how the backward goes; so it is
    looked at while the program runs on DTensors, and from then on.

    Attributes:
        is_known: Has a gradient come in, or is there no result that can have one?
        refusal: Why no graph can be made for such gradients; None if one can.
        uses: By operand how often the program gives to its gradient; none if no call was watched.
    """

    def __init__(self) -> None:
        self.is_known = False
        self.refusal: str | None = None
        self.uses: Sequence[int] = ()
        self._tangents: dict[int, Tangent | None] = {}

    def watch(self, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Note how these results were made, and their gradients when they come in."""
        self.uses = self.uses or uses_of(operands, results)
        watched = [
            at
            for at, result in enumerate(results)
            if isinstance(result, DTensor) and result.grad_fn is not None
        ]
        for at in watched:
            self._tangents.setdefault(at, None)
            results[at].register_hook(self._noting(at))
        self.is_known |= not watched

    def _noting(self, at: int) -> Callable[[Any], None]:
        def note(gradient: Any) -> None:
            if torch.is_grad_enabled():
                self.refusal = "its gradients have gradients (create_graph=True)"
            elif _torch.is_autocast_on():
                self.refusal = "its backward is called under autocast"
            elif isinstance(gradient, DTensor):
                tangent = Tangent.of(gradient)
                known = self._tangents[at]
                if known is not None and known.spec.placements != gradient.placements:
                    self.refusal = _CHANGING.format(at, known.spec.placements, gradient.placements)
                self._tangents[at] = tangent
            self.is_known = True

        return note

    def changed(self, at: int, expected: Any, found: Any) -> None:
        """A gradient has come in for graphs that were made for another; from now on the program
        runs on DTensors."""
        if self.refusal is None:
            self.refusal = _CHANGING.format(at, expected, found)
            warnings.warn(
                f"An erased program: {self.refusal}. In this step it is moved to where it was; "
                "gradients that follow from it may be placed otherwise than DTensor's.",
                stacklevel=2,
            )

    @property
    def tangents(self) -> Sequence[Tangent | None]:
        """For each result that is a DTensor and has a gradient; None where none has come in yet.
        Empty if no call was watched."""
        return [tangent for _, tangent in sorted(self._tangents.items(), key=_first)]


_CHANGING = "the gradient of result {} comes in as {} in one step and as {} in another"


def _first(item: tuple[int, Any]) -> int:
    return item[0]
