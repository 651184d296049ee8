"""An op's arguments without their placements: what a trace takes, and the key it is held under."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch

from ..._torch import DTensorSpec, OpSchema, TensorMeta
from ...rules import torch_registry
from .program import Declined, Ref, refs

__all__ = ["Template", "template_of"]

_PLAIN = (bool, int, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class Template(NamedTuple):
    """The arguments of an op.

    Attributes:
        args: Positional arguments with `Ref` in place of tensors.
        kwargs: Keyword arguments, likewise.
        specs: The tensors' specs, in torch's order: positional ones first.
        metas: Their metadata.
        key: Equal only for arguments that differ in placements at most.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    specs: Sequence[DTensorSpec]
    metas: Sequence[TensorMeta]
    key: Hashable


class _Reader:
    def __init__(self) -> None:
        self.specs: list[DTensorSpec] = []
        self.metas: list[TensorMeta] = []

    def read(self, item: Any) -> tuple[Any, Hashable]:
        """An argument with refs, and its key."""
        if isinstance(item, DTensorSpec):
            return self._spec(item)
        kind = type(item)
        if kind in (list, tuple):
            parts = [self.read(x) for x in item]
            return kind([part for part, _ in parts]), (kind, *(key for _, key in parts))
        if kind in (float, complex):
            return item, (kind, repr(item))  # -0.0 and nan are their own
        if kind in _PLAIN:
            return item, (kind, item)  # the kind tells 1 from True
        raise Declined(f"an argument of type {kind.__name__}")

    def _spec(self, spec: DTensorSpec) -> tuple[Ref, Hashable]:
        meta = spec.tensor_meta
        if meta is None:
            raise Declined("operand without tensor metadata")
        if not all(type(size) is int for size in (*meta.shape, *meta.stride)):
            raise Declined("symbolic shapes")
        self.specs.append(spec)
        self.metas.append(meta)
        return Ref(len(self.specs) - 1), (DTensorSpec, meta)


def template_of(schema: OpSchema) -> Template:
    """The template of an op with specs for tensors.

    Raises:
        Declined: it has an argument that is no part of a key, no tensor among its positional
            arguments, or a list of tensors that torch does not look into (and then fails).
    """
    reader = _Reader()
    args = [reader.read(arg) for arg in schema.args_schema]
    if not reader.specs:
        raise Declined("no tensor among the positional arguments")
    kwargs = {name: reader.read(value) for name, value in schema.kwargs_schema.items()}
    listed = [part for part, _ in (*args, *kwargs.values()) if isinstance(part, (list, tuple))]
    if refs(listed) and not torch_registry.looks_into_lists(schema.op):
        raise Declined("tensors in a list that torch does not look into")
    return Template(
        tuple(arg for arg, _ in args),
        {name: arg for name, (arg, _) in kwargs.items()},
        reader.specs,
        reader.metas,
        (*(key for _, key in args), *((name, key) for name, (_, key) in kwargs.items())),
    )
