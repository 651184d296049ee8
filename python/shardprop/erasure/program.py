"""A program, and the local graphs that were made of it, by what decides when it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from .. import _torch
from ..propagation.propagator import decided_under
from ..support.cache import BoundedMap
from .incoming import Incoming

__all__ = ["Program"]

_HELD = 16

_Run = Callable[..., Any]
_Make = Callable[[fx.GraphModule, Sequence[Any], Incoming], _Run]


class Program:
    """A program of which torch.compile's guards say, at each call, that it is the one to run.

    Args:
        graph: The program, on DTensors.
        make: Makes local graphs of it; see `Backend.made`.
    """

    def __init__(self, graph: fx.GraphModule, make: _Make) -> None:
        self._graph = graph
        self._make = make
        self._held: BoundedMap[_Decided] = BoundedMap("erased programs", _HELD)
        self._meshes: list[Any] | None = None

    def run(self, *operands: Any) -> Any:
        """Run the program."""
        is_saving_hooked = _torch.is_saving_hooked()
        key = (
            is_saving_hooked,
            decided_under(),
            _torch.world(),  # groups of one that has begun anew have names of before
            _torch.kernels_allowed(),
            *map(len, self._flattened(operands)),  # with a flattened mesh, collectives are merged
        )
        decided = self._held.get(key)
        if decided is None:
            decided = _Decided(self._graph, self._make, looks=not is_saving_hooked)
            self._held.put(key, decided)
        return decided.run(operands)

    def _flattened(self, operands: Sequence[Any]) -> list[Any]:
        if self._meshes is None:
            meshes = {
                id(x.device_mesh): x.device_mesh for x in operands if isinstance(x, _torch.DTensor)
            }
            self._meshes = [_torch.flattened_meshes(mesh) for mesh in meshes.values()]
        return self._meshes


class _Decided:
    """A program under one policy.

    Its calls with gradients run on DTensors until it is known how gradients of its results come in.

    Args:
        graph: The program.
        make: Makes local graphs of it.
        looks: Otherwise it is made at once, for gradients as torch expects them, and for good: a
            call that is made again in the backward (activation checkpointing) has to save as many
            tensors as it did first.
    """

    def __init__(self, graph: fx.GraphModule, make: _Make, *, looks: bool) -> None:
        self._graph = graph
        self._make = make
        self._incoming = Incoming()
        self._looks = looks
        self._made: _Run | None = None

    def run(self, operands: Sequence[Any]) -> Any:
        """Run the program."""
        if self._made is None:
            with_gradients = torch.is_grad_enabled() and any(map(_needs_grad, operands))
            if self._looks and with_gradients and not self._incoming.is_known:
                results = self._graph(*operands)
                self._incoming.watch(operands, results)
                return results
            self._made = self._make(self._graph, operands, self._incoming)
        elif self._looks and self._incoming.refusal is not None:
            self._made = self._make(self._graph, operands, self._incoming)  # refuses
        return self._made(*operands)


def _needs_grad(operand: Any) -> bool:
    return isinstance(operand, torch.Tensor) and operand.requires_grad
