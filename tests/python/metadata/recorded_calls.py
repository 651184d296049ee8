"""The op calls that programs make, with specs in place of their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.utils._python_dispatch import TorchDispatchMode


class Recorder(TorchDispatchMode):
    """Keeps each distinct call of the wanted ops, and counts the calls of the others.

    Attributes:
        calls: Ops with arguments and keyword arguments.
        others: How often an op was called that is not wanted.
    """

    def __init__(self, mesh: DeviceMesh, wanted: Mapping[Any, object]) -> None:
        super().__init__()
        self._mesh = mesh
        self._wanted = wanted
        self._known: set[object] = set()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.others: dict[Any, int] = {}

    def _spec(self, item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            meta = TensorMeta(item.shape, item.stride(), item.dtype)
            return DTensorSpec(self._mesh, (Replicate(),) * self._mesh.ndim, tensor_meta=meta)
        if type(item) in (list, tuple):
            return type(item)(map(self._spec, item))
        return item

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in self._wanted:
            specs = self._spec(args)
            named = {name: self._spec(value) for name, value in kwargs.items()}
            key = func, _key(specs), _key(tuple(sorted(named.items())))
            if key not in self._known:
                self._known.add(key)
                self.calls.append((func, specs, named))
        else:
            self.others[func] = self.others.get(func, 0) + 1
        return func(*args, **kwargs)


def _key(item: Any) -> object:
    if isinstance(item, DTensorSpec):
        return item.tensor_meta
    if isinstance(item, (list, tuple)):
        return tuple(map(_key, item))
    return type(item), str(item)
