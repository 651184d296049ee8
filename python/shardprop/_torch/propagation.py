"""torch's propagator, and the place in it where its dispatcher asks for decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed.tensor import _sharding_prop as _prop

from .types import DTensor, OpSchema, OutputSharding


def propagator() -> Any:
    """torch's one ShardingPropagator."""
    return DTensor._op_dispatcher.sharding_propagator


def torch_propagate(schema: OpSchema) -> OutputSharding:
    """torch's own propagation, whatever is hooked in."""
    prop = propagator()
    return type(prop).propagate_op_sharding_non_cached(prop, schema)  # type: ignore[no-any-return]


class _WithMeta:
    """torch's propagator, but it is told the output's metadata."""

    def __init__(self, prop: Any, meta: object) -> None:
        self._prop = prop
        self._meta = meta

    def __getattr__(self, name: str) -> Any:
        return getattr(self._prop, name)

    def _propagate_tensor_meta_non_cached(self, schema: OpSchema) -> object:
        return self._meta


def torch_propagate_with_meta(schema: OpSchema, meta: object) -> OutputSharding:
    """torch's own propagation of an op whose output metadata is known: on small meshes most of the
    time of `torch_propagate` goes there."""
    prop = propagator()
    return type(prop).propagate_op_sharding_non_cached(_WithMeta(prop, meta), schema)  # type: ignore[no-any-return]


Propagate = Callable[[OpSchema], OutputSharding]

# Where torch's dispatcher asks, past its cache and through it.
_PAST_CACHE, _THROUGH_CACHE = "propagate_op_sharding_non_cached", "propagate_op_sharding"


def propagate(schema: OpSchema) -> OutputSharding:
    """The decision as torch's dispatcher gets it where no cache has it."""
    return propagator().propagate_op_sharding_non_cached(schema)  # type: ignore[no-any-return]


def install_propagation(function: Propagate) -> None:
    """Have torch's dispatcher ask `function`, once its caches of decisions are forgotten."""
    setattr(propagator(), _PAST_CACHE, function)


def uninstall_propagation() -> None:
    """Undo `install_propagation`."""
    vars(propagator()).pop(_PAST_CACHE, None)


def forget_in_python() -> None:
    """An empty cache in the place of torch's in Python: a new one, since the old one has a part for
    each thread."""
    prop = propagator()
    setattr(prop, _THROUGH_CACHE, decision_cache(prop.propagate_op_sharding_non_cached))


def installed_propagation() -> object:
    """What was installed last; None if nothing is."""
    return vars(propagator()).get(_PAST_CACHE)


@contextmanager
def watched_propagation(around: Callable[[Propagate], Propagate]) -> Iterator[None]:
    """Put `around(function)` in the place of the function that decides, for as long as the block
    lasts."""
    prop = propagator()
    saved = {_PAST_CACHE: vars(prop)[_PAST_CACHE]} if _PAST_CACHE in vars(prop) else {}
    install_propagation(around(prop.propagate_op_sharding_non_cached))
    forget_in_python()
    try:
        yield
    finally:
        vars(prop).pop(_PAST_CACHE, None)
        vars(prop).update(saved)
        # Not the cache that was there: decisions may have been forgotten since.
        forget_in_python()


def decision_cache(function: Propagate) -> Any:
    """torch's cache around a function that decides."""
    return _prop.LocalLRUCache(function)
