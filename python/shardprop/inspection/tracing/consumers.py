"""`watch_consumers()`: who consumes the outputs of which ops, watched in a block of a program."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ... import _torch
from ..._torch import DTensor, DTensorSpec, OpOverload, TorchDispatchMode
from ...planning.look_ahead.consumers import Consumers, Use, call_key
from ...propagation.op_call import placed_arguments
from .recording import Decided, Moved, Recording, begin, end

__all__ = ["watch_consumers"]


@contextmanager
def watch_consumers() -> Iterator[Consumers]:
    """Watch who consumes the outputs of the ops in a block, which is to be a whole step: what is
    known of it can be given to `enable`, for policy ``"optimal"`` to look some ops ahead.

    Ops of this thread count, and those that autograd runs in it. The block takes longer, and runs
    under whatever is enabled.
    """
    seen = Consumers()
    watch = _Watch(seen)
    redistributions = _Redistributions(watch)
    begin(redistributions, None)
    try:
        with watch, _torch.watched_redistribute(watch.wished):
            yield seen
    finally:
        end(redistributions)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees each op on DTensors before these do."""

    def __init__(self, seen: Consumers) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen
        # By the spec of an output, which is held so that its number stays its own.
        self._made: dict[int, tuple[DTensorSpec, Hashable, int]] = {}

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the op, and take note."""
        kwargs = kwargs or {}
        # Before the op, which may write.
        placed, named = _torch.tree_map(_spec_of, (args, kwargs))
        made = func(*args, **kwargs)
        # Arguments that only a program's own op takes. Who watches must not stop a step.
        with suppress(Exception):
            self._note(func, placed, named, made)
        return made

    def _note(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any
    ) -> None:
        args, kwargs = placed_arguments(op, args, kwargs)
        call = call_key(op, args, kwargs)
        places: dict[int, list[int]] = {}
        leaves = _torch.tree_leaves((args, kwargs))
        for at, leaf in enumerate(leaves):
            if isinstance(leaf, DTensorSpec):
                places.setdefault(id(leaf), []).append(at)
        if call is None or not places:
            return
        for where in places.values():
            others = (each for spec, each in places.items() if spec in self._made and each != where)
            self.uses(
                leaves[where[0]],
                Use(op, args, kwargs, tuple(where), tuple(itertools.chain(*others))),
            )
        self._seen.ran(call)
        for output, tensor in enumerate(_torch.tree_leaves(made)):
            spec = _spec_of(tensor)
            if isinstance(spec, DTensorSpec):
                self._made[id(spec)] = spec, call, output

    def uses(self, spec: DTensorSpec, use: Use) -> None:
        """Something that a spec was made for is used."""
        known = self._made.get(id(spec))
        if known is not None:
            self._seen.used(known[1], known[2], use)

    def wished(self, tensor: DTensor, made: DTensor) -> None:
        """A redistribution to where a tensor is already moves nothing, and is a wish all the same.
        Who takes it then takes it from there."""
        spec = _torch.spec_of(tensor)
        if _torch.spec_of(made).placements == spec.placements:
            with suppress(TypeError):  # a symbolic size
                self.uses(spec, Use(None, (spec,), {}, (0,)))
            self._made.pop(id(spec), None)


class _Redistributions(Recording):
    """Takes note of redistributions that the program asks for."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__(0)
        self._watch = watch

    def add(self, event: Decided | Moved) -> None:
        """A redistribution is a use of what it starts from."""
        if isinstance(event, Moved) and event.moved is None:
            self._watch.uses(event.src, Use(None, (event.dst,), {}, (0,)))


def _spec_of(value: Any) -> Any:
    return _torch.spec_of(value) if isinstance(value, DTensor) else value
