"""spmd_types, a checker of programs on local tensors (https://pypi.org/project/spmd-types, 0.3.1).

For each op, and each mesh dim along which an operand is sharded, it asks DTensor which placements
the results have, by an op on DTensors without data. What decides an answer is known without them:
the op, the size of the mesh dim, sizes, dtypes and types of the operands on that dim. So a question
is asked once.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Hashable
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from .. import _torch
from ..support.cache import BoundedMap

__all__ = ["MODULE", "install", "uninstall"]

MODULE = "spmd_types._checker"

_logger = logging.getLogger("shardprop")

# What is used of it, with the parameters that are counted on.
_NEEDED = {
    "_ShardPropagator._to_meta_dtensor": ("self", "arg", "axis", "mesh"),
    "_ShardPropagator.propagate": ("self", "func", "axis", "args", "kwargs"),
    "_shard_propagator": None,
    "SpmdTypeError": None,
    "current_mesh": (),
    "dtensor_placement_to_spmd_type": ("placement",),
    "get_local_type": ("value",),
    "get_partition_spec": ("tensor",),
    "has_local_type": ("tensor",),
    "partition_spec_get_shard": ("spec", "axis"),
    "spmd_type_to_dtensor_placement": ("typ",),
}
_REGION = "spmd_types._mesh_region"  # imported by the checker when it needs it
_HELD = 10_000
_CONSTANTS = (
    bool,
    bytes,
    complex,
    float,
    int,
    str,
    type(None),
    type(...),
    torch.device,
    torch.dtype,
    torch.layout,
    torch.memory_format,
)

_answers: BoundedMap[tuple[Any, ...]] = BoundedMap("answers for spmd_types", _HELD)
# The methods of theirs in whose places ours are, by name.
_theirs: dict[str, Callable[..., Any]] = {}


def install() -> None:
    """Stand between the checker and DTensor; or not, if the checker is another than was known when
    this was written: the log says what has changed."""
    checker: Any = sys.modules[MODULE]
    changed = _changed(checker)
    if changed:
        _logger.warning("spmd_types asks DTensor itself: %s", "; ".join(changed))
        return
    for name, ours in _OURS.items():
        if name not in _theirs:
            _theirs[name] = getattr(checker._ShardPropagator, name)
            setattr(checker._ShardPropagator, name, ours)


def uninstall() -> None:
    """Have the checker ask DTensor itself."""
    while _theirs:
        name, theirs = _theirs.popitem()
        checker: Any = sys.modules[MODULE]
        setattr(checker._ShardPropagator, name, theirs)


def _changed(checker: Any) -> list[str]:
    """What is not as it was known."""
    found: list[str] = []
    if find_spec(_REGION) is None:
        found.append(f"{_REGION} is not there")
    for path, parameters in _NEEDED.items():
        thing = checker
        for name in path.split("."):
            thing = getattr(thing, name, None)
        if thing is None:
            found.append(f"{MODULE}.{path} is not there")
        elif parameters is not None:
            given = (*inspect.signature(thing).parameters,)
            if given != parameters:
                found.append(f"{MODULE}.{path} takes {given}, not {parameters}")
    return found


def _propagate(
    self: Any, func: Callable[..., Any], axis: Any, args: Any, kwargs: Any = None
) -> list[Any]:
    """In the place of theirs: the placement on one mesh dim of each result that is a tensor."""
    theirs = _theirs["propagate"]
    checker: Any = sys.modules[MODULE]
    try:
        key = (
            func,
            axis.size(),
            _told_apart(checker, axis, (args, kwargs or {})),
            _torch.is_autocast_on(),
            torch.is_inference_mode_enabled(),
            _torch.times_forgotten(),
        )
        known = _answers.get(key)
    except TypeError:  # something among the arguments that cannot be told apart
        return theirs(self, func, axis, args, kwargs)  # type: ignore[no-any-return]
    if known is None:
        try:
            known = (*theirs(self, func, axis, args, kwargs),)
        except checker.SpmdTypeError as error:
            raise _with_way_out(checker, error) from error.__cause__
        _answers.put(key, known)
    return [*known]


def _to_meta_dtensor(self: Any, arg: Any, axis: Any, mesh: Any) -> Any:
    """In the place of theirs: an argument without data. Their way there imports torch's compiler,
    which takes a second."""
    if not isinstance(arg, torch.Tensor):
        return arg
    checker: Any = sys.modules[MODULE]
    held = torch.empty(arg.shape, dtype=arg.dtype, device="meta")
    kind = _type_of(checker, axis, arg)
    if kind is None:
        return held
    placements = (checker.spmd_type_to_dtensor_placement(kind),)
    spec = _torch.spec_of_local(held, mesh, placements, None, None)
    if spec is None:
        return _theirs["_to_meta_dtensor"](self, arg, axis, mesh)
    return _torch.wrapped(held, spec)


_OURS = {"propagate": _propagate, "_to_meta_dtensor": _to_meta_dtensor}


def _told_apart(checker: Any, axis: Any, item: Any) -> Hashable:
    """Equal for arguments that get the same answer.

    Raises:
        TypeError: there is something in them of which that is not known.
    """
    if isinstance(item, torch.Tensor):
        kinds = (_type_of(checker, axis, item), _shard_as_typed(checker, axis, item))
        return (*item.shape, item.dtype, *kinds)
    if isinstance(item, (tuple, list)):
        return (type(item), *(_told_apart(checker, axis, each) for each in item))
    if isinstance(item, dict):
        parts = ((name, _told_apart(checker, axis, each)) for name, each in item.items())
        return (dict, *parts)
    if isinstance(item, slice):
        return (slice, _told_apart(checker, axis, (item.start, item.stop, item.step)))
    if isinstance(item, _CONSTANTS):
        return type(item), item
    raise TypeError(f"Expected a tensor or a constant, got {type(item)}.")


def _shard_as_typed(checker: Any, axis: Any, tensor: torch.Tensor) -> Any:
    """Along which dim the tensor itself was said to be sharded, which the checker reads where sizes
    are arguments; on another mesh than the current one that may not be its type."""
    return checker.partition_spec_get_shard(checker.get_partition_spec(tensor), axis)


def _type_of(checker: Any, axis: Any, tensor: torch.Tensor) -> Any:
    """What the checker takes the tensor for on a mesh dim: its own type, or None without one."""
    if not checker.has_local_type(tensor):
        return None
    local, spec = checker.get_local_type(tensor), checker.get_partition_spec(tensor)
    mesh = checker.current_mesh()
    if mesh is not None and local:
        as_in = import_module(_REGION).check_reinterpret_mesh_compatible
        local, spec = as_in(local, mesh, spec)
    shard = checker.partition_spec_get_shard(spec, axis)
    return local[axis] if shard is None else shard


def _with_way_out(checker: Any, error: Any) -> Exception:
    """The error, with what would have to be done first."""
    moved = _torch.refused_redistribution(error.__cause__)
    if moved is None:
        return error  # type: ignore[no-any-return]
    source, target = (
        _text_of(checker.dtensor_placement_to_spmd_type(spec.placements[0])) for spec in moved
    )
    said = error.args[0]
    return checker.SpmdTypeError(  # type: ignore[no-any-return]
        f"{said}: an operand that is {source} there has to become {target} first. Redistribute it: "
        f"spmd_types.redistribute(x, axis, src={source}, dst={target})"
    )


def _text_of(kind: Any) -> str:
    """As programs write it: ``S(0)``, ``R``."""
    return kind.name if isinstance(kind, Enum) else str(kind)
