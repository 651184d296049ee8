"""The ops of a running model, each with the operands that the plan gives it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from .. import _torch
from .._torch import DTensor, OpOverload, Placement, TorchDispatchMode
from .matching import Matcher
from .moves import Mover
from .program import Node, Program, Ref
from .reading import TRANSPARENT

__all__ = ["PlannedOps", "ref_of", "stands_for"]

_REF = "_shardprop_ref"


class Chosen(Protocol):
    """What the plan says of a node."""

    def wanted(self, node: int) -> Sequence[tuple[Placement, ...]]:
        """Per operand its placements."""

    def given(self, node: int) -> Sequence[tuple[Placement, ...] | None]:
        """Per output its placements."""


def stands_for(tensor: torch.Tensor, ref: Ref) -> None:
    """Say which tensor of the program a tensor is."""
    setattr(tensor, _REF, ref)


def ref_of(tensor: torch.Tensor) -> Ref | None:
    """Which tensor of the program it is."""
    return getattr(tensor, _REF, None)


class PlannedOps(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Recognises the ops of the program by what they read, and moves their operands first.

    It sits below autograd, so what it does to an operand has no backward of its own: that is part
    of the program, too. An op that is not in the program runs as it would without a plan.

    Attributes:
        unplanned: Per op how often one read a tensor of the program and was not part of it.
        diverged: Per op how often an output was not placed as planned.
    """

    def __init__(self, program: Program, chosen: Chosen, mover: Mover) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._program = program
        self._chosen = chosen
        self._mover = mover
        self._matcher = Matcher(program)
        self.unplanned: Counter[str] = Counter()
        self.diverged: Counter[str] = Counter()

    def restart(self) -> None:
        """The model is called anew."""
        self._matcher.restart()

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves, structure = _torch.tree_flatten((args, kwargs))
        tensors: list[Any] = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not any(isinstance(tensor, DTensor) for tensor in tensors):
            return func(*args, **kwargs)
        node = self._node(func, leaves, structure)
        if node is None and _changes_nothing(func, args):
            result = func(*args, **kwargs)
            _inherit(result, args[0])
            return result
        if node is None:
            if any(self._is_inside(ref_of(tensor)) for tensor in tensors):
                self.unplanned[str(func)] += 1
            return func(*args, **kwargs)
        if func is node.op or tensors[0].placements == self._chosen.wanted(node.index)[0]:
            wanted = iter(self._chosen.wanted(node.index))
            moved = [
                self._mover.moved(leaf, next(wanted)) if isinstance(leaf, DTensor) else leaf
                for leaf in leaves
            ]
            args, kwargs = _torch.tree_unflatten(moved, structure)
        # Else it writes into what cannot be moved, and is decided where that is.
        result = func(*args, **kwargs)
        self._note(node, result)
        return result

    def _node(self, func: OpOverload, leaves: list[Any], structure: Any) -> Node | None:
        seen = [ref_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        if any(
            isinstance(leaf, torch.Tensor) and (ref is None or not isinstance(leaf, DTensor))
            for leaf, ref in zip(leaves, seen, strict=True)
        ):
            return None
        args, kwargs = _torch.tree_unflatten(seen, structure)
        return self._matcher.find(func, args, kwargs)

    def _is_inside(self, ref: Ref | None) -> bool:
        """Is it a tensor of the program that has not left it?"""
        return ref is not None and self._program.nodes[ref.node].kind != "output"

    def _note(self, node: Node, result: Any) -> None:
        results = result if isinstance(result, (list, tuple)) else [result]
        given = self._chosen.given(node.index)
        for output, (tensor, placements) in enumerate(zip(results, given, strict=False)):
            if isinstance(tensor, torch.Tensor):
                stands_for(tensor, Ref(node.index, output))
                if isinstance(tensor, DTensor) and tensor.placements != placements:
                    self.diverged[f"{node.op}: {tensor.placements} for {placements}"] += 1


def _changes_nothing(func: OpOverload, args: tuple[Any, ...]) -> bool:
    """Is the result the operand? Hooks on modules make such views of inputs and outputs."""
    if func in TRANSPARENT:
        return True
    return func is torch.ops.aten.view.default and tuple(args[0].shape) == tuple(args[1])


def _inherit(result: Any, operand: Any) -> None:
    ref = ref_of(operand) if isinstance(operand, torch.Tensor) else None
    if ref is not None and isinstance(result, torch.Tensor):
        stands_for(result, ref)
