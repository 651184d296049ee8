"""Writes into views: where torch has moved a tensor to make a view of it, they reach a copy alone.

`x[1:3]` of a tensor whose rows are sharded is cut from a gathered copy. What an in-place op, or one
with `out=`, writes into it is written into `x` too here, as on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import _redistribute
from torch.utils._debug_mode import get_active_debug_mode

from .dtensors import dtensor_of
from .specs import make_spec
from .types import (
    PLAIN_TENSORS,
    DTensor,
    DTensorSpec,
    FakeTensor,
    OpOverload,
    OpSchema,
    OutputSharding,
    Replicate,
)

__all__ = ["WRITTEN_VIEW", "put_writes_back", "put_writes_right", "watch_moved_views"]

# What the fault is called.
WRITTEN_VIEW = "write into a view of a moved tensor"

# Local tensors that are what their storage holds; of another class only its own code knows.
_HELD_HERE = PLAIN_TENSORS | {FakeTensor}

# torch's C++ code holds on to the method that it found at the first op, so the function in it stays
# and gets another code, which calls ours by a name that torch's module is given.
_function = type(DTensor._op_dispatcher)._dispatch_fast_path_python_tail
_torchs_code = _function.__code__
_torchs: Callable[..., object] = FunctionType(_torchs_code, _function.__globals__)
_is_view = torch.Tensor._is_view
# Its elements share memory, so that nothing is written into it; each backward pass has one.
_EXPAND = torch.ops.aten.expand.default
_OUR_NAME = "_shardprop_after_a_write"


def _calls_ours(*arguments: Any) -> object:
    return _shardprop_after_a_write(*arguments)  # type: ignore[name-defined]  # noqa: F821


# As the last `put_writes_right` gave it.
_noted: Callable[[str], AbstractContextManager[object]] = nullcontext
_is_put_right = _has_moved_views = False


def _ours(
    dispatcher: object,
    op: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    mesh: object,
    decision: OutputSharding,
    results: object,
    participating: bool,
    is_in_place: bool,
    is_out: bool,
) -> object:
    """What torch's dispatcher does after an op that writes into its operands, and `aten.equal`."""
    first = args[0] if args else None
    if is_in_place and type(first) is DTensor and not first._is_view():
        spec = decision.output_spec
        # As torch's own code, without its checks.
        if (
            type(spec) is DTensorSpec
            and first._spec.placements == spec.placements
            and get_active_debug_mode() is None
        ):
            return first
    returned = _torchs(
        dispatcher,
        op,
        args,
        kwargs,
        mesh,
        decision,
        results,
        participating,
        is_in_place,
        is_out,
    )
    if is_in_place:
        _write_all_through(op, first if isinstance(first, (list, tuple)) else args[:1])
    elif is_out:
        _write_all_through(op, [value for value in kwargs.values() if type(value) is DTensor])
    return returned


def _write_all_through(op: OpOverload, written: Sequence[Any]) -> None:
    if any(map(_is_view, written)):
        for tensor in written:
            if tensor._is_view():
                _write_through(op, tensor)


def _write_through(op: OpOverload, view: torch.Tensor) -> None:
    """Have what a view is of hold what has been written into it; what only changes its shape has
    written nothing."""
    base = view._base
    if type(base) is not DTensor or type(view) is not DTensor:
        return
    held, of_base = _storage(view._local_tensor), _storage(base._local_tensor)
    if held is None or of_base is None or held == of_base or torch.Tag.inplace_view in op.tags:
        return
    if base.device_mesh.get_coordinate() is None:
        return
    spec = base._spec
    everywhere = make_spec(spec.mesh, (Replicate(),) * spec.mesh.ndim, spec.tensor_meta)
    with _noted(WRITTEN_VIEW), torch.no_grad():
        local = base._local_tensor
        if spec.is_replicated():
            gathered = local.clone()
        else:
            gathered = _redistribute.redistribute_local_tensor(local, spec, everywhere)
        whole = dtensor_of(gathered, everywhere)
        view._view_func_unsafe(whole).copy_(view)
        local.copy_(_redistribute.redistribute_local_tensor(whole._local_tensor, everywhere, spec))


def _storage(local: torch.Tensor) -> int | None:
    """What tells its storage; None of a tensor of another class, and of one without a storage."""
    of_ranks = getattr(local, "_local_tensors", None)
    if of_ranks is not None:  # in LocalTensorMode; all ranks are alike
        local = next(iter(of_ranks.values()))
    if isinstance(local, (AsyncCollectiveTensor, FunctionalTensor)):
        local = local.elem
    if type(local) not in _HELD_HERE or local.layout is not torch.strided:
        return None
    return int(local.untyped_storage()._cdata)


def watch_moved_views(schema: OpSchema, decision: OutputSharding) -> None:
    """Told of every decision: from the first view on of which torch moves the tensor, writes are
    looked at. A program without one pays nothing."""
    global _has_moved_views
    wanted = decision.redistribute_schema
    if _has_moved_views or wanted is None or not decision.needs_redistribute:
        return
    if schema.op is _EXPAND or not schema.op._schema._is_view_op():
        return
    viewed, moved = schema.args_schema[0], wanted.args_schema[0]
    if isinstance(viewed, DTensorSpec) and isinstance(moved, DTensorSpec):
        # Of some views the arguments alone are other ones.
        _has_moved_views = viewed.placements != moved.placements
    if _has_moved_views and _is_put_right:
        _install()


def put_writes_right(noted: Callable[[str], AbstractContextManager[object]]) -> None:
    """Have torch's dispatcher write through such views; `noted` is entered around each write, with
    the name of the fault."""
    global _noted, _is_put_right
    _noted, _is_put_right = noted, True
    if _has_moved_views:
        _install()


def put_writes_back() -> None:
    """Undo `put_writes_right`."""
    global _is_put_right
    _is_put_right = False
    if _function.__code__ is _calls_ours.__code__:
        _function.__code__ = _torchs_code


def _install() -> None:
    if _function.__code__ is _torchs_code:  # else somebody else has changed it
        _function.__globals__[_OUR_NAME] = _ours
        _function.__code__ = _calls_ours.__code__
