"""Runs a decomposition once, on tensors without data, and writes down what it calls.

One trace stands for all placements that torch tries: tensors on the meta device have no values, so
what a decomposition does next can depend on shapes, dtypes, strides and plain arguments only, and
those are the same for every try. One that asks for a value fails on meta tensors, and is declined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import _torch
from ..._torch import (
    DeviceMesh,
    DTensorSpec,
    OpOverload,
    OpSchema,
    TensorMeta,
    TorchDispatchMode,
    meta_of,
)
from ...model.question import OutputMeta, metas_of
from .extensions import is_factory
from .program import Call, Declined, Program, Ref, fill, refs

__all__ = ["trace"]

_VALUE = "_shardprop_value"


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down every call. A tensor object carries the number of its value."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.metas: list[TensorMeta] = []
        self.calls: list[Call] = []

    def new_value(self, tensor: torch.Tensor) -> int:
        """Number what `tensor` holds from now on."""
        value = len(self.metas)
        self.metas.append(meta_of(tensor))
        setattr(tensor, _VALUE, value)
        return value

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        recorded_args = tuple(map(_recorded, args))
        recorded_kwargs = {name: _recorded(item) for name, item in kwargs.items()}
        inputs = list(dict.fromkeys(r.value for r in _all_refs(recorded_args, recorded_kwargs)))
        factory = not inputs
        if factory and not is_factory(func, args):
            raise Declined(f"{func} without a tensor among its arguments")
        # A factory of the global size is not to take memory, whatever device it names.
        out = func(*args, **(kwargs | {"device": "meta"} if factory else kwargs))
        meta, outputs = self._record_outputs(func, out)
        self.calls.append(
            Call(func, recorded_args, recorded_kwargs, tuple(inputs), outputs, meta, factory)
        )
        return out

    def _record_outputs(
        self, func: OpOverload, out: object
    ) -> tuple[OutputMeta, tuple[int | None, ...]]:
        if isinstance(out, torch.Tensor):
            value = self.new_value(out)
            return self.metas[value], (value,)
        if not isinstance(out, (list, tuple)):
            return None, ()
        if any(isinstance(item, (list, tuple)) for item in out):
            raise Declined(f"{func} returns lists of lists")
        values = tuple(self.new_value(x) if isinstance(x, torch.Tensor) else None for x in out)
        metas = [None if value is None else self.metas[value] for value in values]
        return (tuple(metas) if isinstance(out, tuple) else metas), values


def _ref_of(item: Any) -> Any:
    """The ref of a tensor; anything else as it is."""
    if not isinstance(item, torch.Tensor):
        return item
    value = getattr(item, _VALUE, None)
    if value is None:
        raise Declined("a tensor that no op gave to the decomposition")
    return Ref(value)


def _recorded(item: Any) -> Any:
    """An argument with refs in place of tensors."""
    if type(item) in (list, tuple):
        return type(item)([_recorded(x) for x in item])
    return _ref_of(item)


def _all_refs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Ref]:
    return [ref for item in (*args, *kwargs.values()) for ref in refs(item)]


def trace(
    decomposition: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    operands: Sequence[TensorMeta],
    mesh: DeviceMesh,
) -> Program:
    """The program that `decomposition` runs.

    Args:
        decomposition: What torch would trace.
        args: Positional arguments with `Ref` in place of the operands.
        kwargs: Keyword arguments, likewise.
        operands: Metadata of the operands; their order is that of the refs.
        mesh: torch's mesh of one rank.

    Raises:
        Declined: it cannot be traced, or not to the end.
    """
    recorder = _Recorder()
    with _torch.no_modes():
        # Contiguous whatever the operand's strides are, as in torch.
        tensors = [torch.empty(meta.shape, dtype=meta.dtype, device="meta") for meta in operands]
        for tensor in tensors:
            recorder.new_value(tensor)
        given = tuple(fill(arg, lambda ref: tensors[ref.value]) for arg in args)
        named = {k: fill(arg, lambda ref: tensors[ref.value]) for k, arg in kwargs.items()}
        try:
            with recorder:
                out = decomposition(*given, **named)
        except Declined:
            raise
        except Exception as error:
            raise Declined(f"the decomposition cannot be traced: {type(error).__name__}") from error
    program = Program(tuple(recorder.metas), len(tensors), tuple(recorder.calls), _results(out))
    if any(meta.stride != t.stride() for meta, t in zip(operands, tensors, strict=True)):
        return _with_strides(program, operands, mesh)
    return program


def _results(out: object) -> tuple[int, ...]:
    """The returned values. torch leaves out what is no tensor, and counts the rest."""
    marked = _torch.decomposition_tree_map(lambda x: _ref_of(x) if _is_tensor(x) else None, out)
    flat = [x for x in marked if x is not None] if isinstance(marked, (list, tuple)) else [marked]
    if not all(isinstance(x, Ref) for x in flat):
        raise Declined("the decomposition returns something else than tensors")
    return tuple(ref.value for ref in flat)


def _is_tensor(item: object) -> bool:
    return isinstance(item, torch.Tensor)


def _with_strides(program: Program, operands: Sequence[TensorMeta], mesh: DeviceMesh) -> Program:
    """The program with the metadata that torch's propagation finds for operands that are strided.

    torch runs the decomposition on contiguous tensors, but asks for each call's decision with specs
    that go on from the operands' own strides, and so may fail where the trace does not (a view of a
    transposed operand).
    """
    metas = list(program.metas)
    metas[: program.operands] = operands
    calls = []
    for call in program.calls:
        meta = call.meta if call.is_factory else _propagated_meta(call, metas, mesh)
        for value, item in zip(call.outputs, metas_of(meta), strict=False):
            if value is not None and item is not None:
                metas[value] = item
        calls.append(
            Call(call.op, call.args, call.kwargs, call.inputs, call.outputs, meta, call.is_factory)
        )
    return Program(tuple(metas), program.operands, tuple(calls), program.results)


def _propagated_meta(call: Call, metas: Sequence[TensorMeta], mesh: DeviceMesh) -> OutputMeta:
    def spec(ref: Ref) -> DTensorSpec:
        return DTensorSpec(mesh, (_torch.Replicate(),), tensor_meta=metas[ref.value])

    args = tuple(fill(arg, spec) for arg in call.args)
    kwargs = {name: fill(arg, spec) for name, arg in call.kwargs.items()}
    try:
        meta = _torch.torch_output_meta(OpSchema(call.op, args, kwargs))
    except Exception as error:
        raise Declined(f"{call.op} on strided operands: {type(error).__name__}") from error
    return meta  # type: ignore[no-any-return]
