"""Fake tensors in place of those that a function is given, or has in its modules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from .. import _torch
from .._torch import DTensor, DTensorSpec, FakeTensorMode
from ..errors import ShardpropError

__all__ = ["fake_arguments", "standing_in", "without_gradients"]


def fake_arguments(
    mode: FakeTensorMode, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with fake local tensors in the DTensors among them; a DTensorSpec becomes a
    DTensor of that spec.

    Raises:
        ShardpropError: a spec without tensor metadata.
    """
    leaves, structure = _torch.tree_flatten((list(args), dict(kwargs)))
    made: dict[int, Any] = {}
    for leaf in leaves:
        if isinstance(leaf, DTensor):
            made[id(leaf)] = _fake(mode, leaf)
        elif isinstance(leaf, DTensorSpec):
            made[id(leaf)] = _of_spec(mode, leaf)
    args, kwargs = _torch.tree_unflatten([made.get(id(x), x) for x in leaves], structure)
    return args, kwargs  # type: ignore[return-value]


def _fake(mode: FakeTensorMode, tensor: DTensor) -> DTensor:
    local = tensor.to_local().detach()
    with mode:
        fake = _torch.dtensor_of(torch.empty_like(local), tensor._spec)
    fake.requires_grad_(tensor.requires_grad)
    return fake


def _of_spec(mode: FakeTensorMode, spec: DTensorSpec) -> DTensor:
    meta = spec.tensor_meta
    if meta is None:
        raise ShardpropError(f"Expected specs with tensor metadata, got {spec}.")
    with mode:
        device = spec.mesh.device_type
        local = torch.empty(_torch.local_shape(spec), dtype=meta.dtype, device=device)
        return _torch.dtensor_of(local, spec)


@contextmanager
def standing_in(
    mode: FakeTensorMode, function: Callable[..., Any], args: Any, kwargs: Any
) -> Iterator[None]:
    """Fake parameters and buffers in the modules that the function, or its arguments, bring with
    them, for as long as the block lasts."""
    modules = [*_modules_of(function)]
    modules += [leaf for leaf in _torch.tree_leaves((args, kwargs)) if isinstance(leaf, nn.Module)]
    slots: list[tuple[Any, str, torch.Tensor]] = []
    fakes: dict[int, torch.Tensor] = {}
    for module in dict.fromkeys(inner for outer in modules for inner in outer.modules()):
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    slots.append((table, name, tensor))
                    if id(tensor) not in fakes:
                        fakes[id(tensor)] = _fake_of_module(mode, tensor)
    try:
        for table, name, tensor in slots:
            table[name] = fakes[id(tensor)]
        yield
    finally:
        for table, name, tensor in slots:
            table[name] = tensor


def _fake_of_module(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    fake: torch.Tensor
    if isinstance(tensor, DTensor):
        fake = _fake(mode, tensor)
    else:
        with mode:
            fake = torch.empty_like(tensor.detach())
    if isinstance(tensor, nn.Parameter):
        fake = nn.Parameter(fake.detach(), requires_grad=tensor.requires_grad)
    return fake


def _modules_of(function: Any) -> Iterator[nn.Module]:
    """The modules that a function has at hand: itself, its owner, what it closes over, and the
    globals that it names."""
    while isinstance(function, functools.partial):
        yield from _among((*function.args, *function.keywords.values()))
        function = function.func
    if isinstance(function, nn.Module):
        yield function
    owner = getattr(function, "__self__", None)
    if isinstance(owner, nn.Module):
        yield owner
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
    yield from (value for value in values if isinstance(value, nn.Module))


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
                with torch._C.DisableTorchFunction():
                    if leaf.requires_grad and leaf.is_leaf:
                        self.seen[id(leaf)] = leaf, leaf.grad
        return func(*args, **(kwargs or {}))
