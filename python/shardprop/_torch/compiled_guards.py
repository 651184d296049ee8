"""What torch.compile looks at before it runs what it has made, and what a program sees of it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.variables import ConstantVariable, TorchInGraphFunctionVariable

__all__ = ["ForwardsOf", "as_on_dtensors", "specs_by_identity"]


class _IdentityFirst:
    """What makes the guard of a DTensor's spec: a spec that is the very one needs no more looking,
    where torch compares mesh and placements in Python at each call; and another has to be of the
    same shape, at which torch does not look: what a rank holds may be of several."""

    def __init__(self, builder: Any, guard: Any) -> None:
        self._builder = builder
        self._manager = builder.get_guard_manager(guard)
        self._spec = builder.get(guard)

    def get(self, _: Any) -> Any:
        return self._spec

    def get_guard_manager(self, _: Any) -> Any:
        return self

    def add_lambda_guard(self, holds: Callable[[Any], bool], *rest: Any) -> None:
        spec, meta = self._spec, self._spec.tensor_meta

        def holds_too(found: Any) -> bool:
            return found is spec or (found.tensor_meta == meta and holds(found))

        self._manager.add_lambda_guard(holds_too, *rest)


@contextmanager
def specs_by_identity() -> Iterator[None]:
    """Guards that are made in the block look whether a spec is the same object, first."""
    usual = GuardBuilder.DTENSOR_SPEC_MATCH

    @functools.wraps(usual)
    def by_identity(builder: Any, guard: Any) -> None:
        usual(_IdentityFirst(builder, guard), guard)

    GuardBuilder.DTENSOR_SPEC_MATCH = by_identity  # type: ignore[method-assign]
    try:
        yield
    finally:
        GuardBuilder.DTENSOR_SPEC_MATCH = usual  # type: ignore[method-assign]


_ASK_WHETHER_COMPILED = (
    torch.compiler.is_compiling,
    torch.compiler.is_dynamo_compiling,
    torch._dynamo.external_utils.is_compiling,
)
_TORCH = os.path.dirname(torch.__file__) + os.sep


@contextmanager
def as_on_dtensors() -> Iterator[None]:
    """A program that asks, in the block, whether it is compiled takes the branch that it takes on
    DTensors; torch's own code does not."""
    handlers = TorchInGraphFunctionVariable._get_handlers()
    usual = {asks: handlers[asks] for asks in _ASK_WHETHER_COMPILED if asks in handlers}

    def answering(handler: Callable[..., Any]) -> Callable[..., Any]:
        def answer(function: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
            if tx.f_code.co_filename.startswith(_TORCH):
                return handler(function, tx, *args, **kwargs)
            return ConstantVariable.create(False)

        return answer

    handlers.update({asks: answering(handler) for asks, handler in usual.items()})
    try:
        yield
    finally:
        handlers.update(usual)


class ForwardsOf:
    """The forwards of the classes of a module and of those in it, at which torch.compile's guards
    do not look."""

    def __init__(self, module: nn.Module | None) -> None:
        modules = [] if module is None else module.modules()
        self._of: dict[Any, Any] = {type(each): type(each).forward for each in modules}

    def are_as_before(self) -> bool:
        """Has none been replaced?"""
        return all(kind.forward is forward for kind, forward in self._of.items())
