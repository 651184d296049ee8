"""`explain`: from an op or a function with its arguments to an `Explanation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import _torch, registry
from .._torch import (
    DeviceMesh,
    DTensor,
    DTensorSpec,
    OpOverload,
    OpSchema,
    Replicate,
    TensorMeta,
)
from ..errors import ShardpropError
from ..spec_checks import check_spec
from ..specs import make_spec
from .explaining import explain_schema, without_torchs_log
from .explanation import Explanation
from .model import DecisionExplanation
from .observing import Observed, observe

__all__ = ["explain"]

_LIMIT = 10


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
            return Explanation(str(op_or_fn), [explain_schema(schema, limit=_LIMIT)])
    elif not callable(op_or_fn):
        raise ShardpropError(
            f"Expected an op overload or something that can be called, got {op_or_fn!r}."
        )
    with without_torchs_log():
        observed = observe(op_or_fn, args, kwargs)
    return Explanation(_name(op_or_fn), _explained(observed))


def _runs_apart(op: OpOverload) -> bool:
    """Is it a composite op without a rule of its own? Then autograd takes it apart first."""
    return _torch.comes_apart_above(op) and op not in registry.ops_with_a_rule()


def _explained(observed: Observed) -> list[DecisionExplanation]:
    """Each schema; equal ones share an explanation."""
    known: dict[OpSchema, DecisionExplanation] = {}
    decisions = []
    for schema in observed.schemas:
        try:
            found = known.get(schema)
        except TypeError:  # an argument without a hash
            decisions.append(explain_schema(schema, limit=_LIMIT))
            continue
        if found is None:
            found = known[schema] = explain_schema(schema, limit=_LIMIT)
        decisions.append(found)
    return decisions


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
    return registry.op_schema(op, *_in_place_of_names(op, tuple(args), kwargs))


def _in_place_of_names(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that are given by name, but have a place, in their place, as torch's dispatcher has
    them."""
    left, placed = dict(kwargs), list(args)
    defaults: list[Any] = []  # of arguments that are not given, if one after them is
    for argument in _torch.function_schema(op).arguments[len(args) :]:
        if argument.kwarg_only:
            break
        if argument.name in left:
            placed += [*defaults, left.pop(argument.name)]
            defaults.clear()
        elif argument.has_default_value():
            defaults.append(argument.default_value)
        else:
            break
    return tuple(placed), left


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
    meta = TensorMeta(leaf.shape, leaf.stride(), leaf.dtype)
    return make_spec(mesh, (Replicate(),) * mesh.ndim, meta)
