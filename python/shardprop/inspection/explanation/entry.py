"""`explain`: from an op or a function with its arguments to an `Explanation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ... import _torch
from ..._torch import (
    DeviceMesh,
    DTensor,
    DTensorSpec,
    OpOverload,
    OpSchema,
    Replicate,
    make_spec,
    meta_of,
)
from ...errors import ShardpropError
from ...model.spec_checks import check_spec
from ...propagation.op_call import call_schema
from ...rules import torch_registry
from .explaining import explain_schema, without_torchs_log
from .explanation import Explanation
from .op_recorder import observe

__all__ = ["explain"]


def explain(op_or_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Why an op, or every op of a function, is placed as it is, under the policy that is enabled
    (``"torch"`` where shardprop is not). Nothing is computed, and nothing communicates.

    Args:
        op_or_fn: An overload such as ``torch.ops.aten.mm.default``: that one decision. Or anything
            else that can be called (``torch.matmul``, a module, a function): it runs on fake
            tensors, and every DTensor op that it comes to is explained, in order, up to the first
            that has no decision.
        *args: Its arguments; DTensors, or a DTensorSpec in the place of one.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        ShardpropError: arguments that are none for an op on DTensors, symbolic sizes, or a function
            that depends on values.
        Exception: what the function raises of itself.
    """
    if isinstance(op_or_fn, OpOverload):
        if not _runs_apart(op_or_fn):
            schema = _schema(op_or_fn, args, kwargs)
            return Explanation(str(op_or_fn), [explain_schema(schema)])
    elif not callable(op_or_fn):
        raise ShardpropError(
            f"Expected an op overload or something that can be called, got {op_or_fn!r}."
        )

    with without_torchs_log():
        return Explanation(_name(op_or_fn), observe(op_or_fn, args, kwargs, explain_schema))


def _runs_apart(op: OpOverload) -> bool:
    """Is it a composite op without a rule of its own? Then autograd takes it apart first."""
    return _torch.comes_apart_above(op) and not torch_registry.has_rule(op)


def _name(function: Any) -> str:
    if isinstance(function, OpOverload):
        return str(function)
    name = str(getattr(function, "__qualname__", "")) or type(function).__name__
    # Functions of torch's own have a class of C++ for their home.
    return name.rpartition(".")[2] if name.startswith("_") else name


def _schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpSchema:
    """The schema that torch's dispatcher would make of a call."""
    leaves, structure = _torch.tree_flatten((args, kwargs))
    mesh = next((_spec(leaf).mesh for leaf in leaves if _is_placed(leaf)), None)
    if mesh is None:
        raise ShardpropError(
            f"{op}: Expected a DTensor or a DTensorSpec among the arguments, got none."
        )
    converted = [_argument(op, leaf, mesh) for leaf in leaves]
    args, kwargs = _torch.tree_unflatten(converted, structure)
    return call_schema(op, tuple(args), kwargs)


def _is_placed(leaf: Any) -> bool:
    return isinstance(leaf, (DTensor, DTensorSpec))


def _spec(leaf: Any) -> DTensorSpec:
    return _torch.spec_of(leaf) if isinstance(leaf, DTensor) else leaf


def _argument(op: OpOverload, leaf: Any, mesh: DeviceMesh) -> Any:
    if _is_placed(leaf):
        spec = _spec(leaf)
        check_spec(str(op), spec)
        return spec
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.numel() != 1:
        raise ShardpropError(
            f"{op}: Expected DTensors, DTensorSpecs and tensors of one element, which torch takes "
            f"for replicated, got a torch.Tensor of {tuple(leaf.shape)}. Distribute it first."
        )
    return make_spec(mesh, (Replicate(),) * mesh.ndim, meta_of(leaf))
