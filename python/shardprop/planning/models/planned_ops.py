"""The ops of a running model, each with the operands that the plan gives it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from ... import _torch
from ..._torch import (
    DeviceMesh,
    DTensor,
    OpOverload,
    Placement,
    Replicate,
    TorchDispatchMode,
    make_spec,
    meta_of,
)
from .moves import Mover
from .node_matching import Matcher
from .program import Node, Program, Ref
from .reading import TRANSPARENT

__all__ = ["PlannedOps", "ref_of", "stands_for"]

_MARK = "_shardprop_mark"


class Chosen(Protocol):
    """What the plan says of a node."""

    def wanted(self, node: int) -> Sequence[tuple[Placement, ...]]:
        """Per operand its placements."""

    def given(self, node: int) -> Sequence[tuple[Placement, ...] | None]:
        """Per output its placements."""

    def runs_whole(self, node: int) -> bool:
        """Does it run on whole tensors, as it has no strategies?"""


class _Mark:
    """What a tensor is in a program. It is not copied or saved with the tensor."""

    __slots__ = ("program", "ref")

    def __init__(self, program: Program, ref: Ref) -> None:
        self.program = program
        self.ref = ref

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def stands_for(tensor: torch.Tensor, ref: Ref, program: Program) -> None:
    """Say which tensor of the program a tensor is."""
    setattr(tensor, _MARK, _Mark(program, ref))


def ref_of(tensor: torch.Tensor, program: Program) -> Ref | None:
    """Which tensor of the program it is; None if it is of another program, or of none."""
    mark = getattr(tensor, _MARK, None)
    return mark.ref if mark is not None and mark.program is program else None


class PlannedOps(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Recognises the ops of the program by what they read, and moves their operands first.

    It sits below autograd, so what it does to an operand has no backward of its own: that is part
    of the program, too. An op that is not in the program is decided by the policy in force.

    Attributes:
        unplanned: Per op how often one read a tensor of the program and was not part of it.
        diverged: Per op how often an output was not placed as planned.
    """

    def __init__(self, program: Program, chosen: Chosen, mesh: DeviceMesh, mover: Mover) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._program = program
        self._chosen = chosen
        self._mesh = mesh
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
        if node is None:
            return self._run_unknown(func, args, kwargs, tensors)
        writes = func is not node.op
        wanted = self._chosen.wanted(node.index)
        if not writes or tensors[0].placements == wanted[0]:
            # What an op writes into cannot be moved: then it is decided where that is.
            leaves = self._moved(leaves, wanted)
        whole = not writes and self._chosen.runs_whole(node.index)
        if whole:
            leaves = [leaf.to_local() if isinstance(leaf, DTensor) else leaf for leaf in leaves]
        args, kwargs = _torch.tree_unflatten(leaves, structure)
        result = func(*args, **kwargs)
        if whole:
            result = self._wrapped(result)
        self._note(node, result)
        return result

    def _run_unknown(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: Any, tensors: list[Any]
    ) -> Any:
        """An op that is not in the program."""
        result = func(*args, **kwargs)
        if _changes_nothing(func, args):
            ref = ref_of(args[0], self._program)
            if ref is not None:
                stands_for(result, ref, self._program)
        elif any(self._is_inside(ref_of(tensor, self._program)) for tensor in tensors):
            self.unplanned[str(func)] += 1
        return result

    def _moved(self, leaves: list[Any], wanted: Sequence[tuple[Placement, ...]]) -> list[Any]:
        """The arguments with every tensor where the plan wants it."""
        placements = iter(wanted)
        return [
            self._mover.moved(self._wrapped(leaf), next(placements))
            if isinstance(leaf, torch.Tensor)
            else leaf
            for leaf in leaves
        ]

    def _wrapped(self, item: Any) -> Any:
        """Tensors that are the same on every rank, as DTensors."""
        if isinstance(item, (list, tuple)):
            return type(item)(map(self._wrapped, item))
        if not isinstance(item, torch.Tensor) or isinstance(item, DTensor):
            return item
        replicated = (Replicate(),) * self._mesh.ndim
        return _torch.dtensor_of(item, make_spec(self._mesh, replicated, meta_of(item)))

    def _node(self, func: OpOverload, leaves: list[Any], structure: Any) -> Node | None:
        seen = [
            ref_of(leaf, self._program) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in leaves
        ]
        if any(
            isinstance(leaf, DTensor) and ref is None
            for leaf, ref in zip(leaves, seen, strict=True)
        ):
            return None
        args, kwargs = _torch.tree_unflatten(seen, structure)
        return self._matcher.find(func, args, kwargs)

    def _is_inside(self, ref: Ref | None) -> bool:
        """Is it a tensor that only the program reads? Optimizers read parameters and gradients."""
        outside = ("output", "parameter", "gradient")
        return ref is not None and self._program.nodes[ref.node].kind not in outside

    def _note(self, node: Node, result: Any) -> None:
        results = result if isinstance(result, (list, tuple)) else [result]
        given = self._chosen.given(node.index)
        for output, (tensor, placements) in enumerate(zip(results, given, strict=False)):
            if isinstance(tensor, torch.Tensor):
                stands_for(tensor, Ref(node.index, output), self._program)
                if isinstance(tensor, DTensor) and tensor.placements != placements:
                    self.diverged[f"{node.op}: {tensor.placements} for {placements}"] += 1


def _changes_nothing(func: OpOverload, args: tuple[Any, ...]) -> bool:
    """Is the result the operand? Hooks on modules make such views of inputs and outputs."""
    if func in TRANSPARENT:
        return True
    return func is torch.ops.aten.view.default and tuple(args[0].shape) == tuple(args[1])
