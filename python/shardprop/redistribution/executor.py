"""Redistributions carried out by moves that were made before.

What stands in the place of torch's code here leaves what somebody looks at, and what no move was
made of, to what stood there: torch's code, or that of plans of our own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from .. import _torch
from .._torch import DeviceMesh, DTensor, DTensorSpec, Placement, Replicate, is_partial
from .moves import Move, Moves
from .optimizer_steps import OptimizerSteps
from .wrapping import Wrapper

__all__ = ["Executor", "uninstall"]


class Planner(Protocol):
    """Whose plans are carried out."""

    def move(self, src: DTensorSpec, dst: DTensorSpec) -> Move | None:
        """The plan, made into functions; None where it is not to be carried out so."""


class Executor:
    """Carries out redistributions by the plans of a planner, and wraps local tensors, by what was
    found out when that was done before.

    Args:
        planner: The plans.
        note: Told of the fault, by name, where a plan puts one of torch's right.
        decides: Is what this thread does decided with these plans? Else what stood there before
            carries it out.
        between_ops: Called with the mesh where the program itself redistributes.
    """

    def __init__(
        self,
        planner: Planner,
        note: Callable[[str], None],
        decides: Callable[[], bool],
        between_ops: Callable[[DeviceMesh], None] | None = None,
    ) -> None:
        self._planner = planner
        self._note = note
        self._decides = decides
        self._between_ops = between_ops
        self._otherwise = _torch.torch_redistribute
        self._moves = Moves(self._compiled)
        self._wrapper = Wrapper()
        self._asked = itertools.count()
        self._steps = OptimizerSteps(self._asked)

    def _compiled(self, source: DTensorSpec, target: DTensorSpec) -> Move | None:
        if not _torch.is_redistributed_here(source, target) or not _torch.has_default_order(source):
            return None
        return self._planner.move(source, target)

    def carried_out(self, move: Move, local: torch.Tensor, async_op: bool = False) -> torch.Tensor:
        """What this rank holds after a move, or with `async_op` will have when it looks."""
        if move.correction is not None:
            self._note(move.correction)
        return move.run(local, async_op)

    def redistribute_local_tensor(
        self,
        local_tensor: torch.Tensor,
        current_spec: DTensorSpec,
        target_spec: DTensorSpec,
        **options: Any,
    ) -> torch.Tensor:
        """Stands in for torch's function of this name."""
        next(self._asked)
        if (
            options.get("use_graph_based_transform") is None
            and current_spec.mesh is target_spec.mesh
            and self._is_moved_here(current_spec, local_tensor, target_spec.placements)
            and _torch.has_default_order(target_spec)
        ):
            move = self._moves.to(current_spec, target_spec.placements)
            if move is not None:
                if options.get("is_explicit"):
                    self._is_between_ops(current_spec.mesh)
                return self.carried_out(move, local_tensor, options.get("async_op", False))
        return self._otherwise(local_tensor, current_spec, target_spec, **options)

    def _is_moved_here(
        self, source: DTensorSpec, local: torch.Tensor, placements: tuple[Placement, ...]
    ) -> bool:
        """May there be a move for it? The placements are found by their values."""
        return (
            _torch.is_plain(local)
            and _torch.are_told_by_value(source.placements)
            and _torch.are_told_by_value(placements)
            and _torch.nobody_watches()
            and self._decides()
        )

    def _is_between_ops(self, mesh: DeviceMesh) -> None:
        if self._between_ops is not None:
            self._between_ops(mesh)

    def _moved_to(
        self, tensor: DTensor, placements: tuple[Placement, ...], async_op: bool = False
    ) -> DTensor | None:
        """The tensor as a program asks for it, differentiable; None where it is to be carried out,
        or refused, otherwise."""
        local, spec = _torch.local_of(tensor), _torch.spec_of(tensor)
        if type(tensor) is not DTensor or not self._is_moved_here(spec, local, placements):
            return None
        has_gradient = tensor.requires_grad and torch.is_grad_enabled()
        if placements == spec.placements and not has_gradient:
            return _torch.wrapped(local, spec)
        move = self._moves.asked(spec, placements)
        if move is None:
            return None
        self._is_between_ops(spec.mesh)
        if has_gradient:
            made: DTensor = Redistribute.apply(tensor, move, self, async_op)  # type: ignore[no-untyped-call]
            return made
        return _torch.wrapped(*self.as_asked(move, local, spec, async_op))

    def as_asked(
        self, move: Move, local: torch.Tensor, spec: DTensorSpec, async_op: bool
    ) -> tuple[torch.Tensor, DTensorSpec]:
        """What this rank holds after a move that a program asks for, and its spec. As torch has
        it, nothing is carried out where it is there already, and the spec stays the same object."""
        if move.is_there:
            return local, spec
        return self.carried_out(move, local, async_op), move.target

    def moved_back(self, gradient: DTensor, source: DTensorSpec, async_op: bool) -> DTensor | None:
        """The gradient of what was moved, where that was; None where it is to be carried out
        otherwise. It does not become pending again: what is whole or sharded stays so, as torch has
        it."""
        local, spec = _torch.local_of(gradient), _torch.spec_of(gradient)
        if type(gradient) is not DTensor or torch.is_grad_enabled():
            return None
        target = _of_gradient(spec.placements, source.placements)
        if not self._is_moved_here(spec, local, target):
            return None
        back = self._moves.to(spec, target)
        if back is None:
            return None
        self._is_between_ops(spec.mesh)
        return _torch.wrapped(self.carried_out(back, local, async_op), back.target)

    def redistribute(
        self,
        tensor: DTensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        async_op: bool = False,
        **options: Any,
    ) -> DTensor:
        """Stands in for the method of this name; with other options torch's own runs."""
        is_here = device_mesh is None or device_mesh is tensor.device_mesh
        if placements is not None and is_here and not options:
            made = self._moved_to(tensor, tuple(placements), async_op)
            if made is not None:
                return made
        method = _torch.torchs_methods["redistribute"]
        made = method(tensor, device_mesh, placements, async_op=async_op, **options)
        return made  # type: ignore[no-any-return]

    def full_tensor(
        self, tensor: DTensor, grad_placements: Sequence[Placement] | None
    ) -> torch.Tensor:
        """Stands in for the method of this name."""
        if not (tensor.requires_grad and torch.is_grad_enabled()):
            made = self._moved_to(tensor, (Replicate(),) * tensor.device_mesh.ndim)
            if made is not None:
                local = _torch.local_of(made)
                return local.view_as(local)
        method = _torch.torchs_methods["full_tensor"]
        whole: torch.Tensor = method(tensor, grad_placements=grad_placements)
        return whole

    def clear(self) -> None:
        """Forget moves, specs and steps."""
        self._moves.clear()
        self._wrapper.clear()
        self._steps.clear()

    def install(self, over: bool) -> None:
        """Put these functions in the place of torch's, where nobody else's are.

        Args:
            over: Put them over what carries out redistributions now, if it is not torch's.
        """
        global _installed
        self.clear()
        if over or _torch.is_redistribute_torchs():
            self._otherwise = _torch.installed_redistribute()
            _torch.install_redistribute(self.redistribute_local_tensor)
            _torch.install_steps(self._steps.step)  # they learn of moves there
        _torch.install_from_local(self._wrapper.from_local)
        _torch.install_to_local(self._wrapper.gradient_of_local)
        for stand_in in _torch.STAND_INS:
            stand_in.install()

        def redistribute(
            self: DTensor,
            device_mesh: DeviceMesh | None = None,
            placements: Sequence[Placement] | None = None,
            *,
            async_op: bool = False,
            **options: Any,
        ) -> DTensor:
            return executor.redistribute(self, device_mesh, placements, async_op, **options)

        def full_tensor(
            self: DTensor, *, grad_placements: Sequence[Placement] | None = None
        ) -> torch.Tensor:
            return executor.full_tensor(self, grad_placements)

        executor = _installed = self
        _torch.install_methods(redistribute=redistribute, full_tensor=full_tensor)


_installed: Executor | None = None


def uninstall() -> None:
    """Undo `Executor.install`."""
    global _installed
    _torch.uninstall_methods()
    _torch.uninstall_steps()
    _torch.uninstall_from_local()
    _torch.uninstall_to_local()
    for stand_in in _torch.STAND_INS:
        stand_in.uninstall()
    executor, _installed = _installed, None
    if executor is None:
        return
    if _torch.installed_redistribute() == executor.redistribute_local_tensor:
        _torch.uninstall_redistribute(executor._otherwise)
    executor.clear()


class Redistribute(torch.autograd.Function):
    """torch's function of this name, by a move."""

    @staticmethod
    def forward(
        ctx: Any, tensor: DTensor, move: Move, executor: Executor, async_op: bool
    ) -> DTensor:
        """The tensor moved."""
        local = _torch.local_of(tensor)
        ctx.source, ctx.dtype, ctx.async_op = move.source, local.dtype, async_op
        made, spec = executor.as_asked(move, local, _torch.spec_of(tensor), async_op)
        return _torch.wrapped(made, spec, requires_grad=tensor.requires_grad)

    @staticmethod
    def backward(ctx: Any, gradient: DTensor) -> tuple[DTensor, None, None, None]:
        """The gradient moved back, by whatever carries out redistributions now."""
        back = None
        if _installed is not None and _torch.local_of(gradient).dtype is ctx.dtype:
            back = _installed.moved_back(gradient, ctx.source, ctx.async_op)
        if back is None:
            back = _torch.torch_redistribute_back(gradient, ctx.source, ctx.async_op, ctx.dtype)
        return back, None, None, None


def _of_gradient(
    gradient: tuple[Placement, ...], source: tuple[Placement, ...]
) -> tuple[Placement, ...]:
    return tuple(
        Replicate() if is_partial(before) and not is_partial(now) else before
        for now, before in zip(gradient, source, strict=True)
    )
