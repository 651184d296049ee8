"""Fake tensors in place of those that a function is given, or has in its modules."""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ... import _torch
from ..._torch import DTensor, DTensorSpec, FakeTensor, FakeTensorMode, has_strided
from ...errors import ShardpropError
from ...model.plan_steps import Layout
from ...redistribution.execution import local_shape

Redistribute = Callable[..., torch.Tensor]

__all__ = ["Fakes", "standing_in", "without_gradients"]


class Fakes:
    """Fake tensors by what they stand for, which is held so that its address stays its own.

    Args:
        mode: The mode that they belong to.
    """

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._made: dict[int, tuple[object, torch.Tensor]] = {}

    def in_place_of(self, tree: Any) -> Any:
        """The same, with a DTensor on fake tensors in the place of each DTensor that is not, and of
        each DTensorSpec.

        Raises:
            ShardpropError: a spec without tensor metadata.
        """
        leaves, structure = _torch.tree_flatten(tree)
        return _torch.tree_unflatten([*map(self._leaf, leaves)], structure)

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, DTensorSpec):
            # One that is given twice is two tensors.
            return self._of_spec(leaf)
        if isinstance(leaf, DTensor) and not isinstance(_torch.local_of(leaf), FakeTensor):
            return self.of(leaf)
        return leaf

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The one that stands for a tensor of the program."""
        known = self._made.get(id(tensor))
        if known is None:
            known = self._made[id(tensor)] = tensor, self._like(tensor)
        return known[1]

    def _like(self, tensor: torch.Tensor) -> torch.Tensor:
        fake: torch.Tensor
        with self._mode, torch.no_grad():
            if isinstance(tensor, DTensor):
                local = torch.empty_like(_torch.local_of(tensor).detach())
                fake = _torch.dtensor_of(local, _torch.spec_of(tensor))
            else:
                fake = torch.empty_like(tensor.detach())
        if isinstance(tensor, nn.Parameter):
            _torch.mark_as_parameter(fake)
        return fake.requires_grad_(tensor.requires_grad)

    def _of_spec(self, spec: DTensorSpec) -> torch.Tensor:
        meta = spec.tensor_meta
        if meta is None:
            raise ShardpropError(f"Expected specs with tensor metadata, got {spec}.")
        shape, device = _shape_here(spec), spec.mesh.device_type
        with self._mode:
            return _torch.dtensor_of(torch.empty(shape, dtype=meta.dtype, device=device), spec)

    def redistribute_with(self, otherwise: Redistribute) -> Redistribute:
        """Stands in for what carries out redistributions: of fake tensors only the shape changes.

        torch's own would not do, since it reads offsets of strided shards out of tensors; and where
        it does, it takes as long as the plan is long. What is not of this run goes to `otherwise`.
        """
        thread = threading.get_ident()

        def redistribute_local_tensor(
            local_tensor: torch.Tensor,
            current_spec: DTensorSpec,
            target_spec: DTensorSpec,
            **options: Any,
        ) -> torch.Tensor:
            is_fake = isinstance(local_tensor, FakeTensor)
            is_ours = (
                local_tensor.fake_mode is self._mode  # type: ignore[attr-defined]
                if is_fake
                else threading.get_ident() == thread
            )
            if not is_ours:
                return otherwise(local_tensor, current_spec, target_spec, **options)
            shape = _shape_here(target_spec)
            with self._mode:
                return torch.empty(shape, dtype=local_tensor.dtype, device=local_tensor.device)

        return redistribute_local_tensor


def _shape_here(spec: DTensorSpec) -> Sequence[int]:
    """What this rank holds. (torch reads the offsets of strided shards out of tensors.)"""
    if spec.mesh.get_coordinate() is None:
        return (0,)
    if spec.shard_order is not None and not has_strided(spec.placements):
        order = tuple((entry.tensor_dim, entry.mesh_dims) for entry in spec.shard_order)
        return local_shape(Layout(spec.placements, order), spec.shape, spec.mesh)
    with _torch.no_modes():
        return _torch.local_shape(spec)


@contextmanager
def standing_in(
    fakes: Fakes, function: Callable[..., Any], args: Any, kwargs: Any
) -> Iterator[None]:
    """Fake parameters and buffers in the modules that the function, or its arguments, bring with
    them, for as long as the block lasts.

    Raises:
        ShardpropError: a module that ``fully_shard`` was applied to.
    """
    modules = [*_modules_of(function)]
    modules += [leaf for leaf in _torch.tree_leaves((args, kwargs)) if isinstance(leaf, nn.Module)]
    unique = dict.fromkeys(inner for outer in modules for inner in outer.modules())
    for module in unique:
        _refuse_fully_sharded(module)
    with _torch.other_tensors(unique, fakes.of):
        yield


def _refuse_fully_sharded(module: nn.Module) -> None:
    """Such a module swaps its parameters for gathered ones as it runs, and would keep fake ones."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and isinstance(module, fsdp.FSDPModule):
        raise ShardpropError(
            "Expected modules that keep their parameters as they run, got "
            f"{type(module).__name__}, which fully_shard was applied to. Explain the module as it "
            "was before that, or trace a real run with shardprop.trace()."
        )


def _modules_of(function: Any) -> Iterator[nn.Module]:
    """The modules that a function has at hand: itself, its owner, what it closes over, and the
    globals that it names."""
    while isinstance(function, functools.partial):
        yield from _among((*function.args, *function.keywords.values()))
        function = function.func
    yield from _among((function, getattr(function, "__self__", None)))
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield from _among((cell.cell_contents,))
        except ValueError:  # the cell is empty
            continue
    names = getattr(function, "__globals__", {})
    yield from _among([names[name] for name in code.co_names if name in names])


def _among(values: Sequence[Any]) -> Iterator[nn.Module]:
    """The modules among values, in lists of theirs, and in what objects hold by name."""
    for value in values:
        if isinstance(value, nn.Module):
            yield value
            continue
        held = value if isinstance(value, (list, tuple)) else _attributes(value)
        yield from (each for each in held if isinstance(each, nn.Module))


def _attributes(value: Any) -> Sequence[Any]:
    # Not those of other Python modules, of which one may be a global of the function.
    return () if isinstance(value, types.ModuleType) else [*getattr(value, "__dict__", {}).values()]


@contextmanager
def without_gradients() -> Iterator[None]:
    """Gradients that the block gives to tensors of the program are taken away again."""
    watch = _Leaves()
    try:
        with watch:
            yield
    finally:
        for tensor, gradient in watch.seen.values():
            tensor.grad = gradient


class _Leaves(TorchFunctionMode):
    """Notes every tensor with a gradient of its own that a function of torch is given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for leaf in _torch.tree_leaves((args, kwargs or {})):
            if isinstance(leaf, torch.Tensor) and id(leaf) not in self.seen:
                with _torch.no_torch_function():
                    if leaf.requires_grad and leaf.is_leaf:
                        self.seen[id(leaf)] = leaf, leaf.grad
        return func(*args, **(kwargs or {}))
